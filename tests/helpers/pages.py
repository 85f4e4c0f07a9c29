"""A page, parsed as a browser does."""

import json
from html.parser import HTMLParser
from typing import Any

import pytest

Attributes = dict[str, Any]


class Document(HTMLParser):
    """A page, taken apart as a browser does."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, Attributes]] = []
        self.inline: list[tuple[str, Attributes, str]] = []
        self._open: list[str] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open = []

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style") and self._open is not None:
            self.inline.append((*self.tags_of(tag)[-1], "".join(self._open)))
            self._open = None

    def tags_of(self, *names: str) -> list[tuple[str, Attributes]]:
        return [(tag, attributes) for tag, attributes in self.tags if tag in names]

    @property
    def policy(self) -> dict[str, list[str]]:
        """The Content-Security-Policy, by directive."""
        (content,) = [a["content"] for _, a in self.tags_of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
        return directives(content)

    @property
    def data(self) -> Any:
        (text,) = [text for tag, attributes, text in self.inline if attributes.get("id") == "report"]
        return json.loads(text, parse_constant=pytest.fail)


def directives(policy: str) -> dict[str, list[str]]:
    parts = [part.split() for part in policy.split(";")]
    assert len({name for name, *_ in parts}) == len(parts)
    return {name: sources for name, *sources in parts}
