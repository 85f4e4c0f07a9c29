"""Studies that outlive the process: an append-only log in SQLite, from which everything else is rebuilt."""

from ebbtide.study.storage.database import Database
from ebbtide.study.storage.sqlite_log import SqliteLog
from ebbtide.study.storage.store import Damaged, Listing, Page, Storage, Summary

__all__ = ["Damaged", "Database", "Listing", "Page", "SqliteLog", "Storage", "Summary"]
