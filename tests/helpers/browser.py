"""What the tests in Chromium share: how it is started, a study to look at, and how to wait for a page."""

import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import ebbtide as eb
from ebbtide.clock import SystemClock

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
SPACE = {"power": eb.Float(1.26, 316, log=True), "width": eb.Int(1, 8), "codec": eb.Categorical(["a", "b", "c"])}
PATIENCE_MS = 30_000  # for a page to show something; nothing takes that long unless it is broken


def make_a_past(url: str, name: str, steps: int = 500, interval: float = 4.0) -> None:
    """A radio link that drifted until a moment ago, by a clock that ran faster than ours."""
    clock, began, start = SystemClock(), time.perf_counter(), time.time() - steps * interval
    elapsed = 0.0
    clock.now = lambda: start + elapsed + time.perf_counter() - began  # type: ignore[method-assign]
    rng = np.random.default_rng(0)
    opt = eb.Optimizer(SPACE, direction="maximize", clock=clock, seed=0, storage=url, name=name)
    for _ in range(steps):
        trial = opt.ask()
        elapsed += interval
        if rng.random() < 0.015:
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, radio_link(trial.params, elapsed) + rng.normal())
    opt.close()


def radio_link(params: Mapping[str, Any], t: float) -> float:
    """Its best power, width and codec drift."""
    u = t / 200.0
    power = 4.0 * (math.log(params["power"]) - math.log(20.0) - 1.9 * math.sin(u)) ** 2
    width = 0.5 * (params["width"] - 4.5 - 2.5 * math.sin(0.7 * u)) ** 2
    codec = 3.0 * (params["codec"] != "abc"[int(u / 2.2) % 3])
    return float(40.0 - power - width - codec)


# --- what a page shows --------------------------------------------------------------------------------------------


def trace(page: Any, figure: str, name: str) -> set[int]:
    """The lines of the history that a figure draws as `name`."""
    script = "([id, name]) => document.querySelector(`#${id} .plot`)?.data?.find((t) => t.name === name)?.customdata"
    return set(page.evaluate(script, [figure, name]) or ())


def until(page: Any, condition: Callable[..., Any], *arguments: Any) -> Any:
    """Wait for a condition in Python, while the page goes on."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not (seen := condition(*arguments)):
        assert time.monotonic() < deadline, f"it never happened: {condition}"
        page.wait_for_timeout(100)
    return seen


def wait(page: Any, script: str) -> None:
    """Playwright's own wait evaluates text in the page, which the page's policy forbids."""
    until(page, page.evaluate, script)


def wait_for_pictures(page: Any) -> None:
    """Until everything is drawn, including the trail of past recommendations."""
    wait(page, "document.querySelectorAll('.plot .main-svg').length >= 8")
    wait(page, "(document.querySelector('#map .plot').data?.find((t) => t.name === 'recommended')?.x.length ?? 0) > 10")
