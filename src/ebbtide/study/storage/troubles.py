"""What went wrong in PostgreSQL, and what to do about it. No message holds a password."""

import psycopg

from ebbtide.errors import DamagedError, EbbtideError, StorageError, UnknownStudyError
from ebbtide.study.storage.urls import shown, without

# By SQLSTATE, or the beginning of one
WHY = {
    "53100": "the disk is full; nothing was recorded: make room and try again",
    "53300": "it has no connection left; raise max_connections, or put PgBouncer in front",
    "25006": "it cannot be written to; connect to the primary server, as a user who may write",
    "42501": "the user may not do that; make it the owner of the database or the schema: createdb --owner USER",
    "55P03": "another process has kept the study locked for too long; find out what it is doing",
    "28": "the user or the password is wrong; check both, in the URL or in ~/.pgpass",
    "3D000": "there is no such database; create it: createdb --owner USER DATABASE",
    "3F000": "the user has no schema to create tables in; make it the owner of one: CREATE SCHEMA AUTHORIZATION USER",
    "57P": "the server is shutting down or starting, but the change may be recorded; try again in a moment",
    "23": "another process has recorded something at the same moment; nothing was recorded: try again",
    "XX": "it is damaged; restore a backup",
    "40": "another process was in the way; nothing was recorded: try again",
    "22": "a value cannot be stored; nothing was recorded",
    "42": "its tables are not those of this ebbtide; check the URL, or restore a backup",
}
# Whoever may not connect gets no SQLSTATE, but words.
IN_WORDS = {
    "authentication failed": "28",
    "no password supplied": "28",
    "no pg_hba.conf entry": "28",
    " does not exist": "3D000",
    "too many clients": "53300",
    "remaining connection slots": "53300",
}
LOST = "the connection was lost, but the change may be recorded; try again, which records nothing twice"


def explained(url: str, error: psycopg.Error) -> EbbtideError:
    """The error that a user sees."""
    place, state = shown(url), error.sqlstate or ""
    if isinstance(error, psycopg.errors.ForeignKeyViolation):
        return UnknownStudyError(f"{place}: the study was deleted in the meantime; open or create another")
    unknown = LOST if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) else "PostgreSQL failed"
    why = next((text for code, text in WHY.items() if state.startswith(code)), unknown)
    kind = DamagedError if state in ("XX001", "XX002") else StorageError
    return kind(f"{place}: {why} ({_words(url, error)})")


def unreachable(url: str, trouble: BaseException | None, most: int) -> StorageError:
    """No connection could be had in time."""
    place = shown(url)
    if trouble is None:
        return StorageError(f"{place}: all {most} connections of this process are in use; try again in a moment")
    state = next((code for words, code in IN_WORDS.items() if words in str(trouble)), "none")
    why = WHY.get(state, "it cannot be reached; does it run?")
    return StorageError(f"{place}: {why} ({_words(url, trouble)})")


def _words(url: str, error: BaseException) -> str:
    """What the server or libpq said, in one line."""
    return without(" ".join(str(error).split())[:300], url)
