"""The files of the page, and its Content-Security-Policy. Plotly.js comes from the plotly wheel; nothing is fetched
from another site.
"""

import base64
import gzip
import hashlib
import html
import importlib.util
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from ebbtide.errors import ConfigurationError, how_to_install

Mode = Literal["service", "file", "report"]

STATIC = Path(__file__).parent / "static"
PLOTLY = "plotly.min.js"
SCRIPTS = (
    *("format.js", "words.js", "axes.js", "marks.js", "map.js", "panels.js", "figures.js"),
    *("source.js", "parts.js", "drawing.js", "studies.js", "facts.js", "controls.js", "study.js", "page.js"),
)
STYLES = ("charts.css", "style.css")  # a later one may say otherwise on a narrow screen
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

# Only our own files, and no inline scripts. Plotly sets style attributes, which cannot run code.
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; style-src-attr 'unsafe-inline'; "
    "img-src data:; {more}base-uri 'none'; form-action 'none'"
)
SERVED_POLICY = POLICY.format(scripts="'self'", styles="'self'", more="connect-src 'self'; frame-ancestors 'none'; ")


@dataclass(frozen=True)
class Asset:
    name: str
    content: bytes

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.content, 6)

    @property
    def type(self) -> str:
        return TYPES[Path(self.name).suffix]

    @cached_property
    def version(self) -> str:
        """Changes with the content, so a browser may cache the file forever."""
        return hashlib.sha256(self.content).hexdigest()[:16]


@cache
def assets() -> dict[str, Asset]:
    return {name: Asset(name, _path(name).read_bytes()) for name in (*STYLES, *SCRIPTS, PLOTLY)}


def _path(name: str) -> Path:
    if name != PLOTLY:
        return STATIC / name
    package = importlib.util.find_spec("plotly")  # not imported, which would take a second
    places = [] if package is None else list(package.submodule_search_locations or ())
    for place in places:
        if (path := Path(place) / "package_data" / PLOTLY).exists():
            return path
    raise ConfigurationError(f"the dashboard needs Plotly: {how_to_install('service')}")


@cache
def page(mode: Mode) -> str:
    """The page of a service, which fetches its files from the service."""
    styles = [f'<link rel="stylesheet" href="{_address(name)}">' for name in STYLES]
    scripts = [f'<script src="{_address(name)}"></script>' for name in SCRIPTS]
    return _filled(mode, _address(PLOTLY), "", [*styles, *_style_placeholders()], scripts)


def page_in_one(mode: Mode, data: str) -> str:
    """The page with all its files inside, and `data`, a JSON text, as the element `report`."""
    files = assets()
    styles = [files[name].content.decode() for name in STYLES]
    scripts = [files[name].content.decode() for name in (*SCRIPTS, PLOTLY)]
    allowed = {"scripts": " ".join(map(_hash, scripts)), "styles": " ".join(map(_hash, styles)), "more": ""}
    policy = html.escape(POLICY.format(**allowed), quote=True).replace("&#x27;", "'")
    return _filled(
        mode,
        "",
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        [*(f"<style>{style}</style>" for style in styles), *_style_placeholders()],
        # In JSON, "<" occurs only in strings, where it may be escaped: then nothing can end the element early.
        [
            f'<script type="application/json" id="report">{data.replace("<", chr(92) + "u003c")}</script>',
            *(f"<script>{script}</script>" for script in scripts),
        ],
    )


def _filled(mode: Mode, plotly: str, policy: str, styles: list[str], scripts: list[str]) -> str:
    parts = {"mode": mode, "plotly": plotly, "policy": policy}
    parts |= {"styles": "\n".join(styles), "scripts": "\n".join(scripts)}
    template = (STATIC / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _address(name: str) -> str:
    return f"/static/{name}?v={assets()[name].version}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _style_placeholders() -> list[str]:
    """Plotly adds style elements to the page, which the policy forbids, unless it finds elements with their ids."""
    known = re.findall(rb'getElementById\("([0-9a-f]{64})"\)', assets()[PLOTLY].content)
    return [
        '<template id="plotly.js-style-global" class="no-inline-styles"></template>',
        *(f'<template id="{name}"></template>' for name in sorted({each.decode() for each in known})),
    ]
