"""Draws the figures before anything is read, so that a page never shows an old one."""

from typing import Any

import draw
from sphinx.application import Sphinx
from sphinx.util import logging


def drawn(app: Sphinx) -> None:
    logging.getLogger(__name__).info("drawing the figures (a minute)")
    draw.draw()


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
