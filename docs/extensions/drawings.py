"""Draws the figures anew for the site, so that a page never shows an old one.

They go straight into the site: the copies in docs/drawn, which GitHub shows, change only by `python docs/draw.py`.
"""

from pathlib import Path
from typing import Any

import draw
from sphinx.application import Sphinx
from sphinx.util import logging


def drawn(app: Sphinx, exception: Exception | None) -> None:
    if exception is None:
        logging.getLogger(__name__).info("drawing the figures (a minute)")
        draw.draw(Path(app.outdir) / "_images")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
