"""The dashboard in Chromium: how soon a long study is drawn, whether the page stays smooth, and what browsers that are
killed or stalled do to the tells.

    python perf/dashboard.py --told 100000 --times 100

Chromium runs with the lowest priority, as if on another machine; what is left of its weight on this one is in the
figures. Everything told must be there once.
"""

import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright
from record import add_option, record

import ebbtide as eb
from ebbtide.clock import SystemClock

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "chromium"
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
EVERY = 100  # tells for each ask, while the long study is made
PAUSE_S = 0.01  # between two tells, of which the time is measured
VISITS = [
    ("250", "first visit of a browser, first view of the study"),
    ("250", "second visit"),
    ("250", "third visit"),
    ("250", "fourth visit"),
    ("all", "all of it in view"),
    ("all", "all of it in view, again"),
]
SAID = "document.querySelector('#best .value')?.textContent"
DRAWN = "document.querySelectorAll('.plot .main-svg').length >= 8 && document.querySelector('#map .plot').data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--told", type=int, default=100_000, help="observations of the long study")
    parser.add_argument("--times", type=int, default=100, help="browsers that are killed or stalled")
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/s.db"
        make(url, options.told)
        with served(url) as port:
            time.sleep(5.0)  # its processes have woken up
            opening(port, options.told)
            abuse(port, options.times)


def make(url: str, told: int) -> None:
    clock, now, rng = SystemClock(), time.time() - told, np.random.default_rng(0)
    clock.now = lambda: now  # type: ignore[method-assign]
    opt = eb.Optimizer(SPACE, clock=clock, seed=0, storage=url, name="long")
    while opt.told < told:
        with opt._log.transaction():  # one flush for a block of tells
            for x, y in rng.random((EVERY, 2)):
                now += 1.0
                best = 0.5 + 0.4 * np.sin(now / 50.0)
                opt.tell({"x": x, "y": y}, float((x - best) ** 2 + y**2 + 0.01 * rng.normal()))
        opt.ask()
    opt.close()


@contextmanager
def served(url: str) -> Iterator[int]:
    command = [sys.executable, "-m", "ebbtide", "serve", "--storage", url, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r":(\d+)\s", server.stdout.readline())
        assert found is not None
        yield int(found[1])
    finally:
        server.terminate()
        server.wait()


# --- opening -------------------------------------------------------------------------------------------------------


def opening(port: int, told: int) -> None:
    """A browser compiles Plotly.js anew on its first visits, and then keeps what it has compiled."""
    rows = []
    print(f"| {told:,} told | words, s | all pictures, s |\n|---|---|---|", flush=True)
    with (
        sync_playwright() as playwright,
        nice_chromium() as executable,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
    ):
        browser = playwright.chromium.launch_persistent_context(profile, executable_path=executable, args=ARGUMENTS)
        page = browser.new_page()
        for last, what in VISITS:
            page.goto("about:blank")
            began = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}/view/long#last={last}", wait_until="commit")
            words, pictures = (_seconds_until(page, script, began) for script in (SAID, DRAWN))
            print(f"| {what} | {words:.2f} | {pictures:.2f} |", flush=True)
            rows.append({"visit": what, "words_s": words, "pictures_s": pictures})
            page.wait_for_timeout(2000)
        smoothness(page, port)
        browser.close()
    record("dashboard-opening", rows, "make perf-dashboard")


def _seconds_until(page: Page, script: str, began: float) -> float:
    while not page.evaluate(script):
        page.wait_for_timeout(20)
    return time.perf_counter() - began


def smoothness(page: Page, port: int, seconds: float = 20.0) -> None:
    """How long the page does not answer its reader, while 20 values a second arrive."""
    page.evaluate(
        """() => { window.tasks = []; new PerformanceObserver((list) => list.getEntries().forEach(
            (entry) => window.tasks.push(entry.duration))).observe({ type: "longtask" }); }"""
    )
    end = time.perf_counter() + seconds
    with Teller(port, "long", pause=0.05) as teller:
        while time.perf_counter() < end:
            page.wait_for_timeout(500)
    tasks = page.evaluate("window.tasks")
    share = sum(tasks) / (1000.0 * seconds)
    pace = len(teller.times) / seconds
    print(f"\nAll of it shown, {pace:.0f} tells a second, for {seconds:g} s: {len(tasks)} tasks of more")
    print(f"than 50 ms, the longest {max(tasks, default=0):.0f} ms, together {share:.0%} of the time\n", flush=True)
    figures = {"tells_per_second": pace, "tasks_per_second": len(tasks) / seconds, "longest_ms": max(tasks, default=0)}
    record("dashboard-smoothness", [figures | {"busy_share": share}], "make perf-dashboard")


# --- browsers that die or sleep ------------------------------------------------------------------------------------


def abuse(port: int, times: int) -> None:
    call(port, "POST", "/studies", {"name": "abused", "space": {k: v.to_json() for k, v in SPACE.items()}, "seed": 0})
    with Teller(port, "abused") as alone:
        time.sleep(20.0)
    with nice_chromium() as executable, Teller(port, "abused") as teller:
        for number in range(times):
            end_badly(executable, f"http://127.0.0.1:{port}/view/abused", random.Random(number))
    told = call(port, "GET", "/studies/abused")["told"]
    confirmed = len(alone.times) + len(teller.times)
    streams = re.search(r'route="/studies/\{name\}/events",status="200"\} (\d+)', text(port, "/metrics"))
    rows = []
    print("| tells | number | p50, ms | p99, ms | longest, ms |\n|---|---|---|---|---|")
    for what, times_s in ((f"while {times} browsers are killed or stalled", teller.times), ("alone", alone.times)):
        p50, p99, most = np.percentile(np.array(times_s) * 1e3, [50, 99, 100])
        print(f"| {what} | {len(times_s):,} | {p50:.1f} | {p99:.1f} | {most:.1f} |")
        rows.append({"tells": what, "number": len(times_s), "p50_ms": p50, "p99_ms": p99, "longest_ms": most})
    record("dashboard-tells", rows, "make perf-dashboard")
    print(f"\n{confirmed:,} tells confirmed, {told:,} stored; {streams[1] if streams else 0} streams were followed")
    if told != confirmed:
        sys.exit("they differ")


def end_badly(executable: str, url: str, rng: random.Random) -> None:
    """Open a page; stop the browser for a while, or do not; kill it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [executable, "--headless", *ARGUMENTS, f"--user-data-dir={profile}", "--remote-debugging-port=0", url]
        browser = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(rng.uniform(0.5, 3.0))
        if rng.random() < 0.5:
            os.killpg(browser.pid, signal.SIGSTOP)
            time.sleep(rng.uniform(0.5, 1.5))
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


@contextmanager
def nice_chromium() -> Iterator[str]:
    """Chromium with the lowest priority, as an executable."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "chromium"
        script.write_text(f'#!/bin/sh\nexec nice -n 19 {CHROMIUM} "$@"\n')
        script.chmod(0o700)
        yield str(script)


class Teller:
    """Tells, one value after the other, and notes how long each took."""

    def __init__(self, port: int, name: str, pause: float = PAUSE_S) -> None:
        self.port, self.name, self.pause = port, name, pause
        self.times: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tell)

    def __enter__(self) -> "Teller":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _tell(self) -> None:
        rng, connection = random.Random(0), http.client.HTTPConnection("127.0.0.1", self.port)
        while not self._stop.is_set():
            body = json.dumps({"params": {"x": rng.random(), "y": rng.random()}, "value": rng.random()})
            began = time.perf_counter()
            connection.request("POST", f"/studies/{self.name}/tell", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            self.times += [time.perf_counter() - began] if answer.status == 200 else []
            if answer.status != 200:
                sys.exit(f"a tell was answered with {answer.status}")
            time.sleep(self.pause)
        connection.close()


def call(port: int, method: str, path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def text(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        said: str = answer.read().decode()
        return said


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
