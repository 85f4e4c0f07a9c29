"""Studies that outlive the process: an append-only log in SQLite, from which everything else is rebuilt."""

from ebbtide.storage.database import Database
from ebbtide.storage.journal import Journal
from ebbtide.storage.store import Page, Storage, Summary

__all__ = ["Database", "Journal", "Page", "Storage", "Summary"]
