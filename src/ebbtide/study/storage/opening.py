"""The database that a URL names."""

import importlib.util

from ebbtide.errors import ConfigurationError, how_to_install
from ebbtide.study.storage.database import Database, Mode
from ebbtide.study.storage.sqlite import SqliteDatabase, path_of
from ebbtide.study.storage.urls import is_postgresql, shown


def opened(url: str, mode: Mode, *, copy: bool = True) -> Database:
    """`copy`: an older file is copied before it is upgraded."""
    if not is_postgresql(url):
        return SqliteDatabase(path_of(url), mode, copy=copy)
    check_postgresql()
    from ebbtide.study.storage.postgresql import PostgresqlDatabase

    return PostgresqlDatabase(url, mode)


def check_postgresql() -> None:
    """An error if the libraries for it are missing."""
    for library in ("psycopg", "psycopg_pool"):
        if importlib.util.find_spec(library) is None:
            raise ConfigurationError(f"this needs {library}: {how_to_install('postgres')}")


def place_of(url: str) -> str:
    """What messages call the database at a URL: its file, or the URL without its password."""
    return str(shown(url)) if is_postgresql(url) else str(path_of(url))
