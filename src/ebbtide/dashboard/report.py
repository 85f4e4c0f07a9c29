"""`ebbtide report`: the views of a study in one file that opens anywhere."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ebbtide.dashboard import assets
from ebbtide.dashboard.excerpt import LENGTHS
from ebbtide.dashboard.views import Views
from ebbtide.files import write_atomically
from ebbtide.study.storage import Storage


def write(storage: Storage, name: str, path: Path) -> None:
    views = Views(storage)
    data = {"name": name, "made": time.time(), "lengths": dict(_lengths(views, name)), "across": _across(views, name)}
    write_atomically(path, assets.page_in_one("report", json.dumps(data, allow_nan=False)))


def _across(views: Views, name: str) -> dict[str, dict[str, Any]]:
    """The maps over each variable of the context, by parameter: they are the same for every length."""
    view = views.study(name, None, None)
    if view["model"] is None:
        return {}
    names = view["study"]["space"]
    return {
        across: {each: views.study(name, None, each, across)["model"]["map"] for each in names}
        for across in view["model"]["context"]
    }


def _lengths(views: Views, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that the page can show: each length of the log, with the map of each parameter."""
    for last in (*LENGTHS, None):
        view = views.study(name, last, None)
        maps = {}
        if view["model"] is not None:
            first, *others = view["study"]["space"]
            maps = {first: view["model"].pop("map")}
            maps |= {each: views.study(name, last, each)["model"]["map"] for each in others}
        trail = views.trail(name, last)
        while trail["missing"]:
            trail = views.trail(name, last)
        yield "all" if last is None else str(last), {"view": view, "maps": maps, "trail": trail}
