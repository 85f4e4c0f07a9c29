"""Where studies are stored, as a URL. A password in it is for the database alone: nothing else ever shows it."""

import re
from typing import Any
from urllib.parse import unquote

SQLITE = "sqlite:///"
POSTGRESQL = "postgresql://"
HIDDEN = "***"
_USER = re.compile(r"^(\w[\w+.-]*://)([^:@/?#]*):(.*)@")  # up to the last @: a password may have one, by mistake
_OPTION = re.compile(r"(\b(?:ssl)?password=)[^&\s]*", re.IGNORECASE)


def is_postgresql(url: Any) -> bool:
    return isinstance(url, str) and url.startswith((POSTGRESQL, "postgres://"))


def has_password(url: str) -> bool:
    """Whether a URL shows a password to everybody who sees it.

    >>> [has_password(url) for url in ("postgresql://me@host/db", "postgresql://me:word@host/db", "sqlite:///a:b@c.db")]
    [False, True, False]
    """
    return is_postgresql(url) and shown(url) != url


def shown(url: Any) -> Any:
    """A URL without its password, to be logged and printed; anything else as it is.

    >>> shown("postgresql://me:pass/wo@rd@host/db?password=word&sslmode=require")
    'postgresql://me:***@host/db?password=***&sslmode=require'
    """
    if not isinstance(url, str) or url.startswith(SQLITE):
        return url
    return _OPTION.sub(rf"\g<1>{HIDDEN}", _USER.sub(rf"\g<1>\g<2>:{HIDDEN}@", url))


def without(message: str, url: str) -> str:
    """A message that may repeat a part of a URL, without its password."""
    found = _USER.match(url)
    words = [found.group(3)] if found else []
    words += [match.group(0).partition("=")[2] for match in _OPTION.finditer(url)]
    for word in [*words, *map(unquote, words)]:
        message = message.replace(word, HIDDEN) if word else message
    return message
