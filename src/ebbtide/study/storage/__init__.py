"""Studies that outlive the process: an append-only log in a database, from which everything else is rebuilt."""

from ebbtide.study.storage.database import Database
from ebbtide.study.storage.opening import place_of
from ebbtide.study.storage.store import Damaged, Listing, Page, Storage, Summary, check_place
from ebbtide.study.storage.stored_log import StoredLog
from ebbtide.study.storage.urls import shown

__all__ = [
    "Damaged",
    "Database",
    "Listing",
    "Page",
    "Storage",
    "StoredLog",
    "Summary",
    "check_place",
    "place_of",
    "shown",
]
