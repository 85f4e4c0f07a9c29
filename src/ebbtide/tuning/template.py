"""Parameters filled into a command or a URL: `{name}` becomes the value, `{{` and `}}` are braces.

A brace within a name is doubled as well. No shell is involved: a value arrives unchanged, within one argument, and is
not searched for placeholders again.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from ebbtide.errors import ConfigurationError


def fill(argv: Sequence[str], params: Mapping[str, Any]) -> list[str]:
    """The command with its parameters, argument by argument.

    >>> fill(["./measure.sh", "--power={power}", "{{{codec}}}"], {"power": 0.5, "codec": "; rm -rf /"})
    ['./measure.sh', '--power=0.5', '{; rm -rf /}']
    """
    return [_substitute(argument, params, lambda name: written(params[name])) for argument in argv]


def fill_url(url: str, params: Mapping[str, Any]) -> str:
    """The same for a URL, with the values percent-encoded.

    >>> fill_url("http://edge-7/metric?codec={codec}", {"codec": "a&b=c"})
    'http://edge-7/metric?codec=a%26b%3Dc'
    """
    return _substitute(url, params, lambda name: _quoted(written(params[name])))


def written(value: Any) -> str:
    """A parameter's value as a command reads it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def check(names: Collection[str], argv: Sequence[str], url: str | None) -> None:
    """Refuse before the first evaluation what would make all of them useless."""
    if not argv and url is None:
        raise ConfigurationError("nothing to run: give a command after --, or --metric-url")
    used: list[str] = []
    for text in [*argv, url or ""]:
        used += _used(text, names)
    if url is not None:
        _check_address(url, names)
    if idle := [name for name in names if name not in used]:
        raise ConfigurationError(
            f"the parameters {idle} appear nowhere, so tuning them would have no effect: "
            f"write {_placeholder(idle[0])} where the value belongs, or leave them out of the space"
        )


def _used(text: str, names: Collection[str]) -> list[str]:
    found = []

    def note(name: str) -> str:
        found.append(name)
        return ""

    _substitute(text, names, note)
    return found


def _check_address(url: str, names: Collection[str]) -> None:
    example = _substitute(url, names, lambda _: "x")
    try:
        parts = urlsplit(example)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fine = False
    if not fine:
        raise ConfigurationError(f"{url!r} is not the address of a metric: give http://host/... or https://host/...")
    if not (example.isascii() and example.isprintable()) or " " in example:
        raise ConfigurationError(f"{url!r}: percent-encode everything but plain ASCII characters (a space is %20)")


def _substitute(text: str, names: Collection[str], replacement: Callable[[str], str]) -> str:
    """One pass over the text."""
    placeholders = {_placeholder(name): name for name in names}

    def replaced(found: re.Match[str]) -> str:
        token = found.group()
        if token in placeholders:
            return replacement(placeholders[token])
        if token in ("{{", "}}"):
            return token[0]
        raise ConfigurationError(_complaint(text, token, names))

    # Longest first: where one name begins another, the longer one is meant.
    known = [re.escape(placeholder) for placeholder in sorted(placeholders, key=len, reverse=True)]
    return re.sub("|".join([*known, r"\{\{", r"\}\}", r"\{[^{}]*\}", r"[{}]"]), replaced, text)


def _placeholder(name: str) -> str:
    return "{" + name.replace("{", "{{").replace("}", "}}") + "}"


def _complaint(text: str, token: str, names: Collection[str]) -> str:
    if len(token) == 1:
        return f"{text!r} has a lone {token!r}: write {token * 2} for a brace, or {{name}} for a parameter"
    known = ", ".join(map(_placeholder, names))
    return f"{token} in {text!r} is not a parameter: the space has {known}; for braces write {{{{ and }}}}"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
