"""A real Chromium, and what must hold for every page in every test."""

import math
import os
import shutil
import time

import numpy as np
import pytest
from helpers.serving import served
from playwright.sync_api import sync_playwright

import ebbtide as eb
from ebbtide.clock import SystemClock

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
SPACE = {"power": eb.Float(1.26, 316, log=True), "width": eb.Int(1, 8), "codec": eb.Categorical(["a", "b", "c"])}
PATIENCE_MS = 30_000  # for a page to show something; nothing takes that long unless it is broken


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


class Watch:
    """What a page logs and fetches; `down` while its service is down, which Chromium reports as errors."""

    def __init__(self, page, down):
        self.hosts, self.complaints, self.down = set(), [], down
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        page.on("console", lambda message: self.note(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(error.stack or str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))

    def note(self, kind, text):
        refused = text.startswith("Failed to load resource")  # the browser's own message, which no page can prevent
        settled = "Too many auto-margin redraws" in text  # Plotly used the last of several layouts: the figure is fine
        if kind in ("error", "warning", "trace") and not (refused and self.down) and not settled:
            self.complaints.append(f"{kind}: {text}")


@pytest.fixture
def opened(browser):
    """Opens pages, each with its own profile; none may log an error, or fetch anything from another host."""
    pages = []

    def open_page(url, width=1280, down=False, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.watch = Watch(page, down)
        pages.append(page)
        page.goto(url)
        return page

    yield open_page
    for page in pages:
        host = page.url.split("/")[2]
        page.context.close()
        assert page.watch.complaints == []
        assert page.watch.hosts <= {host}


@pytest.fixture(scope="session")
def gallery(tmp_path_factory):
    """A service with a study that has removed many observations, and a fresh one."""
    folder = tmp_path_factory.mktemp("gallery")
    make_a_past(f"sqlite:///{folder}/s.db", "edge-7")
    eb.Optimizer(SPACE, storage=f"sqlite:///{folder}/s.db", name="fresh", direction="maximize", seed=0).close()
    with served(folder) as server:
        yield server


@pytest.fixture
def server(tmp_path):
    with served(tmp_path) as running:
        yield running


def make_a_past(url, name, steps=500, interval=4.0):
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


def radio_link(params, t):
    """Its best power, width and codec drift."""
    u = t / 200.0
    power = 4.0 * (math.log(params["power"]) - math.log(20.0) - 1.9 * math.sin(u)) ** 2
    width = 0.5 * (params["width"] - 4.5 - 2.5 * math.sin(0.7 * u)) ** 2
    return 40.0 - power - width - 3.0 * (params["codec"] != "abc"[int(u / 2.2) % 3])


# --- what a page shows --------------------------------------------------------------------------------------------


def trace(page, figure, name):
    """The lines of the history that a figure draws as `name`."""
    script = "([id, name]) => document.querySelector(`#${id} .plot`)?.data?.find((t) => t.name === name)?.customdata"
    return set(page.evaluate(script, [figure, name]) or ())


def until(page, condition, *arguments):
    """Wait for a condition in Python, while the page goes on."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not (seen := condition(*arguments)):
        assert time.monotonic() < deadline, f"it never happened: {condition}"
        page.wait_for_timeout(100)
    return seen


def wait(page, script):
    """Playwright's own wait evaluates text in the page, which the page's policy forbids."""
    until(page, page.evaluate, script)


def wait_for_pictures(page):
    """Until everything is drawn, including the trail of past recommendations."""
    wait(page, "document.querySelectorAll('.plot .main-svg').length >= 8")
    wait(page, "(document.querySelector('#map .plot').data?.find((t) => t.name === 'recommended')?.x.length ?? 0) > 10")
