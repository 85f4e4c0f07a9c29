"""What the page says about a live system: kinds, support, the gain, warnings, safeguards, options."""

import re
import subprocess
import sys

import numpy as np
import pytest
from helpers.browser import radio_link, trace, until, wait_for_pictures
from helpers.serving import served

import ebbtide as eb
from ebbtide.clock import SystemClock

SPACE = {"power": eb.Float(1.26, 316, log=True), "width": eb.Int(1, 8), "codec": eb.Categorical(["a", "b", "c"])}
USUAL = {"power": 20.0, "width": 4, "codec": "a"}
OPTIONS = {
    "explore": 0.25,
    "start": [USUAL | {"width": 5}],
    "baseline": USUAL,
    "baseline_every": 8,
    "movement": eb.Movement(limit={"width": 2}, cost=0.5),
}


def live(url, name, steps=100, interval=4.0, **options):
    """A radio link whose wide channels fail; two evaluations are called off."""
    clock, rng, elapsed = SystemClock(), np.random.default_rng(0), 0.0
    start = clock.now() - steps * interval
    clock.now = lambda: start + elapsed  # type: ignore[method-assign]
    options = {"algorithm": "w-dbo", **options}  # which forgets within the hundred steps
    opt = eb.Optimizer(SPACE, direction="maximize", clock=clock, seed=0, storage=url, name=name, **options)
    for number in range(steps):
        trial = opt.ask()
        elapsed += interval
        if number in (30, 60):
            opt.tell(trial, abandoned=True)
        elif trial.params["width"] == 8:
            opt.tell(trial, failed=True)
        else:
            opt.tell(trial, radio_link(trial.params, elapsed) + rng.normal())
    opt.close()


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lived")
    url = f"sqlite:///{folder}/s.db"
    live(url, "live", **OPTIONS)
    live(url, "young", steps=6, explore=0.5, baseline=USUAL)
    for number in range(3):
        live(url, f"sibling-{number}", steps=20, family="edge")
    with served(folder) as server:
        yield server


def symbols(page, name):
    """The shape of each mark in the objective's figure, by line of the history."""
    script = "(name) => { const t = document.querySelector('#objective .plot').data.find((t) => t.name === name);"
    shapes = page.evaluate(f"{script} return t.customdata.map((line, i) => [line, t.marker.symbol[i]]); }}", name)
    return dict(shapes)


def facts(page, selector):
    terms, said = (page.locator(f"{selector} {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(terms, said, strict=True))


def test_marks_tell_what_each_evaluation_was_for(lived, opened):
    client = eb.Client(lived.url)
    history = list(enumerate(client.study("live").history))
    client.close()
    page = opened(f"{lived.url}/view/live")
    wait_for_pictures(page)
    filled: dict[str | None, str] = {"explore": "circle", "hold": "square", "start": "triangle-up", "baseline": "star"}
    hollow: dict[str | None, str] = {
        "explore": "x-thin",
        "hold": "square-open",
        "start": "triangle-up-open",
        "baseline": "star-open",
    }
    assert symbols(page, "active") == {line: filled[o.kind] for line, o in history if o.active}
    removed = {line: hollow[o.kind] for line, o in history if o.removed_at is not None}
    assert symbols(page, "removed") == removed
    assert len({*removed.values()}) >= 2
    assert trace(page, "objective", "failed") == {line for line, o in history if o.failed}
    assert trace(page, "objective", "abandoned") == {30, 60}
    keys = page.locator("#objective .key").all_inner_texts()
    assert {"probe", "hold", "start", "baseline", "failed", "abandoned"} <= set(keys)

    text = "(name) => document.querySelector('#objective .plot').data.find((t) => t.name === name).text"
    assert all(said.endswith(", abandoned") for said in page.evaluate(text, "abandoned"))
    kinds = [said.split("<br>")[-1] for said in page.evaluate(text, "active")]
    words: dict[str | None, str] = {"explore": "probe", "hold": "hold", "start": "start", "baseline": "baseline"}
    assert kinds == [f"{words[o.kind]}, active" for _, o in history if o.active]
    assert page.locator("#newest th").nth(2).inner_text() == "Kind"
    assert page.locator("#newest tbody tr").first.locator("td").nth(2).inner_text() == words[history[-1][1].kind]


def test_the_counts_add_up(lived, opened):
    page = opened(f"{lived.url}/view/live")
    page.wait_for_selector("#figures dd")
    counts = facts(page, "#figures")
    assert counts["Told"] == "100"
    assert counts["Abandoned"] == "2"
    assert sum(int(counts[key]) for key in ("Active", "Removed", "Failed", "Abandoned")) == 100


def test_the_gain_comes_in_percent_and_in_words(lived, opened):
    page = opened(f"{lived.url}/view/live")
    page.wait_for_selector("#gain:visible")
    opt = eb.Optimizer.open(f"sqlite:///{lived.folder}/s.db", "live")
    gain = opt.gain
    opt.close()
    value, said = page.locator("#gain .value").inner_text(), page.locator("#gain .caption").inner_text()
    number = r"([+-]?[\d.]+)"
    shown = re.fullmatch(rf"{number} % {number} to {number} %", value)
    assert shown, value
    assert list(map(float, shown.groups())) == pytest.approx([100 * share for share in gain.relative], abs=0.51)
    assert f"{'worse' if gain.mean < 0 else 'better'} by" in said
    assert "the baseline (power = 20, width = 4, codec = a)" in said
    assert f"from {gain.comparisons} measurements of the baseline" in said
    assert ("includes 0" in said) == (gain.low <= 0.0 <= gain.high)

    page.goto(f"{lived.url}/view/young")
    page.wait_for_selector("text=Not enough yet")


def test_what_is_recommended_says_how_well_it_is_known(lived, opened):
    page = opened(f"{lived.url}/view/live")
    page.wait_for_selector("#best .value:visible")
    known = r"nown (as by ([\d.,]+|one)|less well than by one) fresh measurements? of it\."
    assert re.search(known, page.locator("#best").inner_text())


def test_the_options_of_a_study_are_listed(lived, opened):
    page = opened(f"{lived.url}/view/live")
    page.wait_for_selector("#options dd")
    assert facts(page, "#options") == {
        "Probes": "25 % of the asks; in the others, the recommended setting is held",
        "Start": "power = 20, width = 5, codec = a",
        "Movement": "width by at most 2 per step; moving a parameter across its whole range costs 0.5",
        "Baseline": "power = 20, width = 4, codec = a; measured in one of 8 asks",
        "Failures": "count as the worst active value",
    }


def test_each_safeguard_is_explained_where_it_is_shown(lived, opened):
    page = opened(f"{lived.url}/view/live")
    page.wait_for_selector("#guards:visible")
    shown = facts(page, "#guards")
    assert any(term.startswith("min_active: ") for term in shown)
    assert all(len(said) > 40 for said in shown.values())


def test_failures_only_lead_to_warnings_and_no_recommendation(server, opened):
    client = eb.Client(server.url)
    study = client.create("down", SPACE, seed=0, baseline=USUAL)
    page = opened(f"{server.url}/view/down")
    page.wait_for_selector("#advice:visible")
    assert "no gain over it can be shown" in page.locator("#advice").inner_text()  # without a single ask
    for _ in range(20):
        study.tell(study.ask(), failed=True)
    until(page, lambda: page.locator("#advice li").count() == 2)
    assert "20 of the last 20 evaluations failed" in page.locator("#advice").inner_text()
    until(page, lambda: "Nothing is known yet" in page.locator("#best").inner_text())
    assert page.locator("#best table").is_hidden()
    study.tell(USUAL, 1.0)
    until(page, lambda: page.locator("#best table").is_visible())
    assert "It fails with a probability of about" in page.locator("#best .risk").inner_text()
    assert page.locator("#best .unknown").is_hidden()
    client.close()


def test_the_objective_keeps_its_height(server, opened):
    """It fills its card, and must not grow with each update."""
    client = eb.Client(server.url)
    study = client.create("edge-7", SPACE, seed=0)
    page = opened(f"{server.url}/view/edge-7")
    heights = []
    for number in range(3):
        study.tell(USUAL, float(number))
        until(page, lambda told=number + 1: len(trace(page, "objective", "active")) == told)
        heights.append(page.locator("#objective .plot").bounding_box()["height"])
    client.close()
    assert heights[0] >= 300
    assert heights == [heights[0]] * 3


def test_a_report_says_the_same(lived, opened, tmp_path):
    path = tmp_path / "report.html"
    command = [sys.executable, "-m", "ebbtide", "report", f"{lived.folder}/s.db", "--name", "live", "--out", str(path)]
    subprocess.run(command, check=True, timeout=120)
    page, live_page = opened(path.as_uri(), offline=True), opened(f"{lived.url}/view/live")
    for each in (page, live_page):
        each.wait_for_selector("#gain:visible")
    for part in ("#gain", "#options", "#guards"):
        assert page.locator(part).inner_text() == live_page.locator(part).inner_text()
    wait_for_pictures(page)
    assert trace(page, "objective", "abandoned") == {30, 60}


@pytest.mark.parametrize("width", [390, 820])
def test_nothing_is_wider_than_a_narrow_screen(lived, opened, width):
    page = opened(f"{lived.url}/view/live", width)
    wait_for_pictures(page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_a_study_of_a_family_says_from_how_many_siblings_it_has_learned(lived, opened):
    said = ["edge, no siblings to learn from yet", "edge, 1 sibling", "edge, 2 siblings"]
    for number, words in enumerate(said):
        page = opened(f"{lived.url}/view/sibling-{number}")
        page.locator("#options").get_by_text(words, exact=True).wait_for()
        assert page.locator("#options dt").first.inner_text() == "Family"
