"""A page, parsed as a browser does."""

import json
from html.parser import HTMLParser

import pytest


class Document(HTMLParser):
    """A page, taken apart as a browser does."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.inline, self._open = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._open = []

    def handle_data(self, text):
        if self._open is not None:
            self._open.append(text)

    def handle_endtag(self, tag):
        if tag in ("script", "style") and self._open is not None:
            self.inline.append((*self.tags_of(tag)[-1], "".join(self._open)))
            self._open = None

    def tags_of(self, *names):
        return [(tag, attributes) for tag, attributes in self.tags if tag in names]

    @property
    def policy(self):
        """The Content-Security-Policy, by directive."""
        (content,) = [a["content"] for _, a in self.tags_of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
        return directives(content)

    @property
    def data(self):
        (text,) = [text for tag, attributes, text in self.inline if attributes.get("id") == "report"]
        return json.loads(text, parse_constant=pytest.fail)


def directives(policy):
    parts = [part.split() for part in policy.split(";")]
    assert len({name for name, *_ in parts}) == len(parts)
    return {name: sources for name, *sources in parts}
