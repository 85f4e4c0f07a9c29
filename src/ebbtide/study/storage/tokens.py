"""The tokens of a service, in its database: each may do some things with the studies whose names have its prefix.

Only a digest of a token is stored. A token has 256 random bits, which nobody can guess, so a fast hash without salt is
enough.
"""

import hashlib
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ebbtide.errors import ConfigurationError, DamagedError
from ebbtide.study.storage.database import Database

SCOPES = ("read", "tell", "ask", "admin")
MARK = "eb"  # what a token begins with: eb_ID_SECRET
ID_BYTES, SECRET_BYTES = 4, 32
MAX_NAME = MAX_PREFIX = 100
ADD = "INSERT INTO tokens (token, name, digest, scopes, prefix, created) VALUES (?, ?, ?, ?, ?, ?)"
ALL = "SELECT token, name, digest, scopes, prefix, created, revoked FROM tokens ORDER BY created, token"


@dataclass(frozen=True)
class Token:
    """What is known of a token, which is not the token itself."""

    id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    prefix: str  # of the names of its studies; "" for all
    created: float
    revoked: float | None

    @property
    def pattern(self) -> str:
        """Its prefix, as it was given."""
        return f"{self.prefix}*"


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def id_in(token: str) -> str:
    """The id that a token contains; "" if it is no token of ours."""
    mark, _, rest = token.partition("_")
    return rest.partition("_")[0] if mark == MARK else ""


def create(database: Database, name: str, scopes: Iterable[str], pattern: str) -> tuple[str, Token]:
    """A new token, which is stored nowhere, and what is known of it."""
    name, scopes, prefix = _checked_name(name), _checked_scopes(scopes), _checked_prefix(pattern)
    token_id = secrets.token_hex(ID_BYTES)
    secret = f"{MARK}_{token_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    token = Token(token_id, name, digest(secret), scopes, prefix, time.time(), None)
    database.run(ADD, (token.id, name, token.digest, ",".join(scopes), prefix, token.created))
    return secret, token


def stored(database: Database) -> list[Token]:
    """All that were ever made, the oldest first."""
    return [_token(row) for row in database.rows(ALL)]


def revoke(database: Database, token_id: str) -> None:
    """From now on it is refused; to do so twice changes nothing."""
    if "_" in token_id:
        raise ConfigurationError("give the id of the token, as `ebbtide token list` shows it, not the token itself")
    with database.transaction():
        if database.row("SELECT 1 FROM tokens WHERE token = ?", (token_id,)) is None:
            raise ConfigurationError(f"there is no token with the id {token_id!r}; `ebbtide token list` shows all")
        database.run("UPDATE tokens SET revoked = ? WHERE token = ? AND revoked IS NULL", (time.time(), token_id))


def _token(row: Any) -> Token:
    token_id, name, found, scopes, prefix, created, revoked = row
    texts = isinstance(token_id, str) and isinstance(name, str) and isinstance(scopes, str) and isinstance(prefix, str)
    if not texts or not isinstance(found, bytes) or not set(scopes.split(",")) <= set(SCOPES):
        raise DamagedError(f"the token {token_id!r} is damaged: revoke it with SQL, or restore a backup")
    return Token(token_id, name, found, tuple(scopes.split(",")), prefix, created, revoked)


def _checked_name(name: str) -> str:
    if not name.isprintable() or not name.strip() or len(name) > MAX_NAME:
        raise ConfigurationError(f"name={name!r}: give 1 to {MAX_NAME} printable characters, such as who has the token")
    return name


def _checked_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    given = set(scopes)
    if not given or not given <= set(SCOPES):
        raise ConfigurationError(f"scopes={sorted(given)}: give one or more of {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in given)


def _checked_prefix(pattern: str) -> str:
    """The part before the star. It ends a word, so that team-a is not meant where team-ab is, too."""
    prefix = pattern.removesuffix("*")
    if not pattern.endswith("*") or "*" in prefix or not prefix.isprintable() or len(prefix) > MAX_PREFIX:
        raise ConfigurationError(
            f"prefix={pattern!r}: give what the names begin with and a star, such as 'team-a.*', or '*' for all studies"
        )
    if prefix and prefix[-1].isalnum():
        raise ConfigurationError(
            f"prefix={pattern!r} would include names such as '{prefix}b': end the prefix with a separator, "
            f"such as '{prefix}.*'"
        )
    return prefix
