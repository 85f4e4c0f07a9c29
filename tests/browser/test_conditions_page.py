"""What the page shows of a study's context, cycles and constraints."""

import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.browser import trace, until, wait, wait_for_pictures
from helpers.serving import served

import ebbtide as eb
from ebbtide.clock import SystemClock

SCREENSHOTS = Path(__file__).parents[2] / "out" / "screenshots"
SPACE = {"batch": eb.Int(1, 512, log=True), "linger_ms": eb.Float(0.0, 100.0)}
CONDITIONS: dict[str, Any] = {
    "context": {"load": eb.Float(0.0, 2000.0), "backend": eb.Categorical(["a", "b"])},
    "cycles": {"hour": 3600.0},
    "constraints": {"p99_ms": eb.AtMost(50.0), "hits": eb.AtLeast(0.9)},
    "violation_rate": 0.1,
    "start": {"batch": 16, "linger_ms": 5.0},
}


def tuned(url, name, steps=90, interval=120.0):
    """A queue whose best batch grows with its load, and whose best linger comes back every hour."""
    clock, rng, elapsed = SystemClock(), np.random.default_rng(0), 0.0
    start = clock.now() - steps * interval
    clock.now = lambda: start + elapsed  # type: ignore[method-assign]
    opt = eb.Optimizer(SPACE, direction="maximize", clock=clock, seed=0, storage=url, name=name, **CONDITIONS)
    for number in range(steps):
        elapsed += interval
        load = 900.0 + 600.0 * math.sin(2 * math.pi * elapsed / 3600.0) + 20.0 * rng.normal()
        measured = {"load": load, "backend": "ab"[number // 30 % 2]}
        if number % 12 == 5:
            del measured["backend"]
            with pytest.warns(eb.ContextWarning):
                trial = opt.ask(context=measured)
        else:
            trial = opt.ask(context=measured)
        batch, linger = trial.params["batch"], trial.params["linger_ms"]
        p99 = 10.0 + 0.5 * linger + 5.0 * math.log2(batch) + rng.normal()
        hits = 1.0 - 0.001 * linger - 0.002 * rng.random()
        usual = 25.0 + 20.0 * math.cos(2 * math.pi * elapsed / 3600.0)  # which the load does not tell
        value = 10.0 - (math.log2(batch) - load / 250.0) ** 2 - 0.01 * (linger - usual) ** 2
        opt.tell(trial, value + 0.2 * rng.normal(), constraints={"p99_ms": p99, "hits": hits})
    history, violations = opt.history, opt.violations
    opt.close()
    return history, violations


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    history, violations = tuned(f"sqlite:///{folder}/s.db", "queue")
    with served(folder) as server:
        yield SimpleNamespace(url=server.url, folder=folder, history=history, violations=violations)


def drawn(page, figure, name):
    """x and y of a trace."""
    script = "([id, name]) => { const t = document.querySelector(`#${id} .plot`).data.find((t) => t.name === name);"
    return page.evaluate(f"{script} return [t.x, t.y]; }}", [figure, name])


def field(page, name):
    return page.locator(f"#surroundings [data-name={name}]")


def caption(page, figure):
    return page.locator(f"#{figure} figcaption").inner_text()


def test_context_and_constraints_have_panels(world, opened):
    page = opened(f"{world.url}/view/queue")
    wait_for_pictures(page)
    history = world.history
    assert drawn(page, "context", "load")[1] == [o.context["load"] for o in history]
    assert drawn(page, "context", "backend")[1] == ["ab".index(o.context["backend"]) for o in history]
    assert page.locator("#context .key").all_inner_texts() == ["measured", "taken from earlier"]

    for name, limit in CONDITIONS["constraints"].items():
        broken = {line for line, o in enumerate(history) if limit.is_broken(o.constraints[name])}
        assert trace(page, "constraints", f"{name} broken") == broken
        assert trace(page, "constraints", name) == set(range(len(history))) - broken
    limits = "document.querySelector('#constraints .plot').data.filter((t) => t.name === 'limit').map((t) => t.y[0])"
    assert page.evaluate(limits) == [50.0, 0.9]
    shown = page.locator("#violations").inner_text()
    count = round(world.violations.rate * world.violations.counted)
    assert count > 0
    assert "target: 10 %" in shown
    assert f"{count} of 90 asks broke a limit: p99_ms" in shown

    assert re.search(r"hour: .* % of the variation comes back every 1 h, and .* about \d", caption(page, "timescale"))
    best = page.locator("#best").inner_text()
    assert "It meets all constraints with a probability of about" in best
    assert "In the context measured last: load = " in best
    heads = page.locator("#newest th").all_inner_texts()
    assert heads[-4:] == ["load", "backend", "p99_ms", "hits"]
    last = page.locator("#newest tbody tr").first.locator("td").all_inner_texts()
    assert last[-3] == history[-1].context["backend"]
    assert float(last[-2]) == pytest.approx(history[-1].constraints["p99_ms"], rel=1e-3)
    options = page.locator("#options").inner_text()
    assert "load (0 to 2,000); backend (a, b)" in options
    assert "hour, every 1 h" in options
    assert "p99_ms at most 50; hits at least 0.9; broken by at most 10 % of the asks in the long run" in options
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "conditions.png", full_page=True)


def test_the_map_is_drawn_in_the_context_chosen(world, opened):
    page = opened(f"{world.url}/view/queue")
    wait_for_pictures(page)
    assert "as measured last" in caption(page, "map")
    heat = "JSON.stringify(document.querySelector('#map .plot').data[0].z)"
    latest = page.evaluate(heat)
    field(page, "load").fill("300")
    field(page, "load").press("Enter")
    until(page, lambda: "Drawn for load = 300, backend = " in caption(page, "map"))
    assert "as chosen" in caption(page, "map")
    assert page.evaluate(heat) != latest
    page.reload()  # the choice is in the address
    wait_for_pictures(page)
    assert "Drawn for load = 300" in caption(page, "map")
    assert field(page, "load").input_value() == "300"
    field(page, "load").fill("")
    field(page, "backend").select_option("a")
    until(page, lambda: re.search("load = (?!300).*, backend = a, ", caption(page, "map")))


def test_a_variable_of_the_context_is_an_axis_of_the_map(world, opened):
    page = opened(f"{world.url}/view/queue")
    wait_for_pictures(page)
    page.locator("#across").select_option("load")
    wait(page, "document.querySelector('#map .xtitle')?.textContent === 'load'")
    active = [o for o in world.history if o.active]
    assert drawn(page, "map", "active")[0] == [o.context["load"] for o in active]
    assert "Drawn for backend = " in caption(page, "map")
    assert page.locator("#map .xtick text").all_text_contents() == ["0", "500", "1000", "1500", "2000"]
    assert page.locator("#map .xtick text").first.bounding_box()["y"] < page.locator("#map .xtitle").bounding_box()["y"]
    assert field(page, "load").is_disabled()
    assert page.evaluate("document.querySelector('#map .plot').data.some((t) => t.name === 'recommended')") is False
    first, last = (page.locator(each).bounding_box() for each in ("#constraints", "#map"))
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    part = {"x": 0, "y": first["y"] - 16, "width": 1280, "height": last["y"] + last["height"] - first["y"] + 32}
    page.screenshot(path=SCREENSHOTS / "conditions-part.png", full_page=True, clip=part)  # for the documentation
    page.locator("#across").select_option("backend")
    wait(page, "document.querySelector('#map .xtitle')?.textContent === 'backend'")
    page.locator("#across").select_option("time")
    wait(page, "document.querySelector('#map .plot').data.some((t) => t.name === 'recommended')")


def test_a_choice_that_makes_no_sense_is_given_up(world, opened):
    page = opened(f"{world.url}/view/queue#context=%7B%22nobody%22%3A1%7D&across=batch", down=True)
    wait_for_pictures(page)
    assert "as measured last" in caption(page, "map")


def test_a_report_has_the_same_panels(world, opened, tmp_path):
    path = tmp_path / "report.html"
    command = [sys.executable, "-m", "ebbtide", "report", f"{world.folder}/s.db", "--out", str(path)]
    subprocess.run(command, check=True, timeout=300)
    page = opened(path.as_uri(), offline=True)
    wait_for_pictures(page)
    assert len(drawn(page, "context", "load")[1]) == 90
    assert "target: 10 %" in page.locator("#violations").inner_text()
    page.locator("#parameter").select_option("linger_ms")
    page.locator("#across").select_option("load")
    wait(page, "document.querySelector('#map .xtitle')?.textContent === 'load'")
    assert page.locator("#map .ytitle").text_content() == "linger_ms"
    assert page.locator("#surroundings").is_hidden()


@pytest.mark.parametrize("width", [390, 820])
def test_nothing_is_wider_than_a_narrow_screen(world, opened, width):
    page = opened(f"{world.url}/view/queue", width, color_scheme="dark")
    wait_for_pictures(page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    page.screenshot(path=SCREENSHOTS / f"conditions-{width}.png", full_page=True)


def test_a_study_without_them_has_no_panels(gallery, opened):
    page = opened(f"{gallery.url}/view/edge-7")
    wait_for_pictures(page)
    for part in ("#context", "#constraints", "#violations", "#surroundings", "#across"):
        assert page.locator(part).is_hidden()
    assert page.locator("#options dt").all_inner_texts() == ["Probes", "Start", "Movement", "Baseline", "Failures"]
    assert "context" not in page.locator("#pictures").inner_text().lower()
