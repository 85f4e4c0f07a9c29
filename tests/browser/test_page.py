"""The dashboard as its users see it: in Chromium, with a running service."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from helpers.browser import (
    ARGUMENTS,
    CHROMIUM,
    SPACE,
    radio_link,
    trace,
    until,
    wait,
    wait_for_pictures,
)
from helpers.serving import served

import ebbtide as eb

SCREENSHOTS = Path(__file__).parents[2] / "out" / "screenshots"
MARKUP = """<img src=x onerror="alert('1')"> & 'q' "r" $s$ </script>%41"""
WIDTHS = {"phone": 390, "tablet": 820, "desktop": 1280}


def view_of(server, name):
    return f"{server.url}/view/{urllib.parse.quote(name, safe='')}"


@pytest.fixture
def study(server):
    client = eb.Client(server.url)
    yield client.create("edge-7", SPACE, direction="maximize", seed=0)
    client.close()


def tell(study, value=1.0, **params):
    study.tell({"power": 20.0, "width": 4, "codec": "a"} | params, value)


# --- live ---------------------------------------------------------------------------------------------------------


def test_points_arrive_without_a_reload(server, study, opened):
    for i in range(5):
        tell(study, float(i), width=i + 1)
    page = opened(view_of(server, "edge-7"))
    until(page, lambda: trace(page, "objective", "active") == set(range(5)))
    page.evaluate("window.stillTheSame = true")
    tell(study, 9.5, power=99.0)
    until(page, lambda: trace(page, "objective", "active") == set(range(6)))
    until(page, lambda: trace(page, "map", "active") == set(range(6)))
    assert page.locator("#figures").inner_text().split("\n")[:2] == ["Told", "6"]
    assert page.locator("#newest tbody tr").first.inner_text().split("\t")[1:] == ["9.5", "99", "4", "a"]
    study.tell(study.ask(), failed=True)
    until(page, lambda: "Failed\n1\n" in page.locator("#figures").inner_text())
    assert page.evaluate("window.stillTheSame")


def test_a_removed_observation_becomes_a_cross(server, study, opened):
    page = opened(view_of(server, "edge-7"))
    stop = threading.Event()

    def drift():
        """As fast as possible, so that the objective drifts within seconds."""
        began = time.monotonic()
        while not stop.is_set():
            trial = study.ask()
            study.tell(trial, radio_link(trial.params, 100.0 * (time.monotonic() - began)))

    thread = threading.Thread(target=drift)
    thread.start()
    try:
        dots = until(page, lambda: trace(page, "map", "active"))
        crossed = until(page, lambda: dots & trace(page, "map", "removed") or dots.update(trace(page, "map", "active")))
        assert not crossed & trace(page, "map", "active")
        assert crossed <= trace(page, "objective", "removed")
    finally:
        stop.set()
        thread.join()
    history = list(enumerate(study.history))[-250:]
    removed = {line for line, observation in history if observation.removed_at is not None}
    until(page, lambda: trace(page, "map", "removed") == removed)


def test_the_page_survives_a_restart_and_catches_up(tmp_path, opened):
    with served(tmp_path) as first:
        client = eb.Client(first.url)
        tell(client.create("edge-7", SPACE, seed=0))
        client.close()
        page = opened(view_of(first, "edge-7"))
        until(page, lambda: trace(page, "objective", "active") == {0})
        page.evaluate("window.stillTheSame = true")
        page.watch.down = True
        os.kill(first.process.pid, signal.SIGKILL)
        page.wait_for_selector("#status.lost")
        assert trace(page, "objective", "active") == {0}  # what was known is still shown
    with eb_open(tmp_path) as alone:
        tell(alone, 2.0)
    with served(tmp_path, "--port", str(first.port)) as second:
        until(page, lambda: trace(page, "objective", "active") == {0, 1})
        page.wait_for_selector("#status.live")
        page.watch.down = False
        client = eb.Client(second.url)
        tell(client.study("edge-7"), 3.0)
        client.close()
        until(page, lambda: trace(page, "objective", "active") == {0, 1, 2})
        assert page.evaluate("window.stillTheSame")
        page.context.close()


class eb_open:
    """A study in a file, opened without the service."""

    def __init__(self, folder):
        self.study = eb.Optimizer.open(f"sqlite:///{folder}/s.db", "edge-7")

    def __enter__(self):
        return self.study

    def __exit__(self, *exception):
        self.study.close()


def test_tells_of_another_program_are_seen(server, study, opened):
    tell(study)
    page = opened(view_of(server, "edge-7"))
    until(page, lambda: trace(page, "objective", "active") == {0})
    with eb_open(server.folder) as alone:
        tell(alone, 2.0)
    until(page, lambda: trace(page, "objective", "active") == {0, 1})


def test_a_deleted_study_is_reported(server, study, opened):
    tell(study)
    page = opened(view_of(server, "edge-7"))
    until(page, lambda: trace(page, "objective", "active") == {0})
    page.watch.down = True  # the browser reports the 404
    server.call("DELETE", "/studies/edge-7")
    page.wait_for_selector("#problem:visible")
    assert "There is no study “edge-7”" in page.locator("#problem").inner_text()
    page.locator("#problem a").click()
    page.wait_for_selector("#studies:visible")


def test_the_list_of_studies_adds_up(server, opened):
    client = eb.Client(server.url)
    study = client.create("edge-7", SPACE, seed=0)
    study.tell(study.ask(), failed=True)
    study.tell(study.ask(), 1.0)
    study.tell(study.ask(), abandoned=True)
    client.close()
    page = opened(server.url)
    page.wait_for_selector("#studies td a")
    heads = page.locator("#studies th.number").all_inner_texts()
    numbers = page.locator("#studies td.number").all_inner_texts()
    told = {"Told": "3", "Failed": "1", "Abandoned": "1", "Active": "1", "Removed": "0"}
    assert dict(zip(heads, numbers, strict=True)) == told


# --- choices ------------------------------------------------------------------------------------------------------


def test_parameter_kind_length_and_theme_can_be_chosen_and_are_kept(gallery, opened):
    page = opened(view_of(gallery, "edge-7"), color_scheme="light")
    wait_for_pictures(page)
    heat = "document.querySelector('#map .plot').data.find((t) => t.type === 'heatmap')"
    title = "#map .ytitle"
    assert page.locator(title).text_content() == "power"
    mean = page.evaluate(f"{heat}.z[0]")

    page.locator("#parameter").select_option("codec")
    wait(page, "document.querySelector('#map .ytitle').textContent === 'codec'")
    assert page.evaluate(f"{heat}.z.length") == 3
    assert page.locator("#map .ytick text").all_text_contents() == ["a", "b", "c"]

    page.locator("#kind [value=std]").check()
    wait(page, f"{heat}.z.flat().every((deviation) => deviation > 0)")
    assert page.evaluate(f"{heat}.z[0]") != mean

    shown = len(trace(page, "objective", "active") | trace(page, "objective", "removed"))
    page.locator("#last").select_option("all observations")
    until(page, lambda: len(trace(page, "objective", "active") | trace(page, "objective", "removed")) > shown)

    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    axis_colour = "getComputedStyle(document.querySelector('#objective .xtick text')).fill"
    light_axis = page.evaluate(axis_colour)
    page.locator("#theme").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    wait(page, f"{axis_colour} !== {json.dumps(light_axis)}")
    page.locator("#response").scroll_into_view_if_needed()  # what was out of sight is drawn when it comes into it
    wait(page, f"{axis_colour.replace('#objective', '#response')} !== {json.dumps(light_axis)}")

    page.reload()
    wait_for_pictures(page)
    assert page.locator(title).text_content() == "codec"
    assert page.locator("#kind [value=std]").is_checked()
    assert page.locator("#last").input_value() == "all"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_theme_is_the_systems_until_one_is_chosen(gallery, opened):
    page = opened(gallery.url, color_scheme="dark")
    page.wait_for_selector("#studies:visible")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.emulate_media(color_scheme="light")
    wait(page, "document.documentElement.dataset.theme === 'light'")


def test_moments_are_relative_and_exact_on_hover(gallery, opened):
    page = opened(view_of(gallery, "edge-7"), timezone_id="Asia/Kolkata")
    wait_for_pictures(page)
    moment = page.locator("#figures time")
    assert re.fullmatch(r"now|\d+ (s|min|h|d) ago", moment.inner_text())
    told = eb.Client(gallery.url)
    last = told.study("edge-7").history[-1].time
    told.close()
    there = time.strftime("%Y-%m-%d %H:%M", time.gmtime(last + 5.5 * 3600))
    assert moment.get_attribute("title").startswith(there[:-1])
    assert "Asia/Calcutta" in page.locator("#zone").inner_text() or "Asia/Kolkata" in page.locator("#zone").inner_text()


def test_numbers_come_with_units(gallery, opened):
    page = opened(view_of(gallery, "edge-7"))
    wait_for_pictures(page)
    facts = page.locator("#figures").inner_text()
    assert re.search(r"Timescale\n[\d.]+ (s|min|h)", facts)
    assert re.search(r"Response\n[\d.]+ (µs|ms|s)", facts)
    assert re.search(r"\d (s|ms|min)$", page.locator("#response .ytick text").first.text_content())
    assert re.fullmatch(r"-?[\d.,]+ ± [\d.,]+", page.locator("#best .value").inner_text())


def test_hovering_shows_what_a_point_is(gallery, opened):
    page = opened(view_of(gallery, "edge-7"))
    wait_for_pictures(page)
    page.locator("#relevance .plot").scroll_into_view_if_needed()
    page.locator("#relevance .point").nth(3).hover(force=True)
    said = page.locator("#relevance .hovertext").text_content()
    assert "relevance" in said
    assert "power =" in said
    assert "active" in said


# --- keyboard, screen reader, width -------------------------------------------------------------------------------


def reached_by_tab(page, most=60):
    """What the Tab key reaches, in this order."""
    page.locator("body").press("Tab")
    reached = []
    for _ in range(most):
        script = "(() => { const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.value"
        here = page.evaluate(f"{script} || e.tagName + ' ' + e.textContent.trim(); }})()")
        if here in reached and reached[0] == here:
            break
        reached.append(here)
        page.keyboard.press("Tab")
    return reached


def test_the_keyboard_alone_reaches_everything(gallery, opened):
    page = opened(gallery.url)
    page.wait_for_selector("#studies td a")
    page.locator("body").press("Tab")
    for _ in range(10):
        if page.evaluate("document.activeElement.textContent") == "edge-7":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/view/edge-7")
    wait_for_pictures(page)

    reached = reached_by_tab(page)
    assert {"A Skip to content", "home", "theme", "last", "parameter", "mean"} <= set(reached)
    assert {"Recommended parameters", "The newest observations"} <= set(reached)

    page.locator("#parameter").focus()
    page.keyboard.press("ArrowDown")
    wait(page, "document.querySelector('#map .ytitle').textContent === 'width'")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.locator("#kind [value=std]").is_checked()
    page.locator("#last").focus()
    page.keyboard.press("End")
    wait(page, "location.hash.includes('last=all')")
    page.locator("#theme").focus()
    page.keyboard.press("End")
    wait(page, "document.documentElement.dataset.theme === 'dark'")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"  # one sees where one is


def test_the_skip_link_leads_to_the_content(gallery, opened):
    page = opened(gallery.url)
    page.wait_for_selector("#studies td a")
    page.locator("body").press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_every_picture_and_control_has_a_name(gallery, opened):
    page = opened(view_of(gallery, "edge-7"))
    wait_for_pictures(page)
    for plot in page.locator(".plot:visible").all():
        assert plot.get_attribute("role") == "img"
        assert len(plot.get_attribute("aria-label")) > 20
    for control in page.locator("select:visible, input:visible, button:visible").all():
        assert control.evaluate("(e) => (e.labels?.length ?? 0) > 0 || e.textContent.trim() !== ''")
    assert page.locator("h1:visible").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    for figure in page.locator("figure").all():
        assert figure.evaluate("(e) => document.getElementById(e.getAttribute('aria-labelledby')).textContent")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("device", WIDTHS)
def test_nothing_is_wider_than_the_screen_and_it_is_photographed(gallery, opened, device, theme):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for what, url in (
        ("studies", gallery.url),
        ("study", f"{view_of(gallery, 'edge-7')}#last=1000"),
        ("fresh", view_of(gallery, "fresh")),
    ):
        page = opened(url, WIDTHS[device], color_scheme=theme)
        if what == "study":
            wait_for_pictures(page)
        else:
            page.wait_for_selector({"studies": "#studies td a", "fresh": "#first:visible"}[what])
        assert page.evaluate("document.scrollingElement.scrollWidth") <= WIDTHS[device]
        page.screenshot(path=SCREENSHOTS / f"{what}-{device}-{theme}.png", full_page=True)
        if what == "study":  # the upper part, for the documentation
            height = 1230 if device == "desktop" else 900
            page.set_viewport_size({"width": WIDTHS[device], "height": height})
            page.screenshot(path=SCREENSHOTS / f"{what}-{device}-{theme}-top.png")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast(gallery, opened, theme):
    """As WCAG AA demands."""
    page = opened(gallery.url, color_scheme=theme)
    page.wait_for_selector("#studies td a")
    names = ("paper", "ground", "ink", "soft", "accent", "alarm")
    style = "getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()"
    colour = {name: page.evaluate(f"(name) => {style}", name) for name in names}
    for text in ("ink", "soft", "accent", "alarm"):
        for ground in ("paper", "ground"):
            assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)


def contrast(first, second):
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- what to do next ----------------------------------------------------------------------------------------------


def run_in_a_shell(line):
    subprocess.run(["bash", "-c", f"{line} -sS --fail"], check=True, capture_output=True, timeout=60)


def test_an_empty_service_shows_the_line_that_creates_a_study(server, opened):
    page = opened(server.url)
    line = page.locator("#studies pre")
    line.wait_for()
    run_in_a_shell(line.inner_text())
    page.wait_for_selector("#studies td a:text-is('edge-7')")


@pytest.mark.parametrize("name", ["edge-7", MARKUP.replace("/", "")])
def test_a_fresh_study_shows_the_line_that_tells_its_first_value(server, opened, name):
    client = eb.Client(server.url)
    client.create(name, SPACE | {'it\'s "$HOME" `x`': eb.Categorical(["'", "b"])}, seed=0)
    client.close()
    page = opened(view_of(server, name))
    line = page.locator("#first pre")
    line.wait_for()
    run_in_a_shell(line.inner_text())
    until(page, lambda: trace(page, "objective", "active") == {0})
    assert page.locator("#first").is_hidden()


def test_a_token_is_asked_for_and_kept_to_the_tab(tmp_path, opened):
    with served(tmp_path, token="a-long-secret") as server:
        client = eb.Client(server.url, token="a-long-secret")
        tell(client.create("edge-7", SPACE, seed=0))
        client.close()
        page = opened(view_of(server, "edge-7"), down=True)  # the browser reports each 401
        page.locator("#token input").fill("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=That token is wrong.")
        page.locator("#token input").fill("a-long-secret")
        page.keyboard.press("Enter")
        until(page, lambda: trace(page, "objective", "active") == {0})
        assert "secret" not in page.url
        assert page.evaluate("document.cookie + JSON.stringify(localStorage)").count("secret") == 0
        page.reload()
        until(page, lambda: trace(page, "objective", "active") == {0})
        page.context.close()


# --- injection ----------------------------------------------------------------------------------------------------


def test_names_with_markup_are_text(server, opened):
    name, parameter, choice = MARKUP.replace("/", ""), f"{MARKUP} p", f"<b>{MARKUP}</b>"
    client = eb.Client(server.url)
    study = client.create(name, {"x": eb.Float(0.0, 1.0), parameter: eb.Categorical([choice, "<i>other</i>"])}, seed=0)
    for i in range(12):
        study.tell({"x": i / 12, parameter: choice}, float(i))
    client.close()

    page = opened(server.url)
    link = page.locator("#studies td a")
    link.wait_for()
    assert link.inner_text() == name
    link.click()
    page.wait_for_selector("#map .plot .main-svg")
    assert page.locator("h1:visible").inner_text() == name
    assert page.title() == f"{name} · ebbtide"
    assert page.locator("#parameter option").all_inner_texts() == ["x", parameter]
    page.locator("#parameter").select_option(parameter)
    wait(page, "document.querySelector('#map .ytitle').textContent !== 'x'")
    assert page.locator("#map .ytitle").text_content() == parameter
    assert page.locator("#map .ytick text").first.text_content() == choice
    page.locator("#relevance .point").first.hover(force=True)
    assert choice in page.locator("#relevance .hovertext").text_content()
    assert choice in page.locator("#newest").inner_text()
    assert page.locator("img").count() == 0
    assert page.locator("script:not([src])").count() == 0


def test_the_policy_allows_only_our_own_scripts(gallery, opened):
    page = opened(gallery.url)
    page.wait_for_selector("#studies td a")
    page.evaluate(
        """() => {
            window.ran = [];
            const inline = document.createElement("script");
            inline.textContent = "window.ran.push('inline')";
            document.head.append(inline);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=\\"window.ran.push('handler')\\">");
            setTimeout("window.ran.push('text')", 0);
        }"""
    )
    page.wait_for_timeout(500)
    assert page.evaluate("window.ran") == []
    assert any("Content Security Policy" in said for said in page.watch.complaints)
    page.watch.complaints.clear()


# --- without a service --------------------------------------------------------------------------------------------


def report_of(server, name, folder):
    path, database = folder / "report.html", server.folder / "s.db"
    command = [sys.executable, "-m", "ebbtide", "report", str(database), "--name", name, "--out", str(path)]
    subprocess.run(command, check=True, timeout=120)
    return path


def test_a_report_opens_anywhere(gallery, opened, tmp_path):
    report = report_of(gallery, "edge-7", tmp_path)
    page = opened(report.as_uri(), offline=True)
    wait_for_pictures(page)
    shown = len(trace(page, "objective", "active") | trace(page, "objective", "removed"))
    page.locator("#last").select_option("all observations")
    until(page, lambda: len(trace(page, "objective", "active") | trace(page, "objective", "removed")) > shown)
    page.locator("#parameter").select_option("codec")
    wait(page, "document.querySelector('#map .ytitle').textContent === 'codec'")
    page.locator("#kind [value=std]").check()
    page.locator("#theme").select_option("dark")
    assert page.locator("#status").is_hidden()
    page.screenshot(path=SCREENSHOTS / "report.png", full_page=True)


def test_a_report_of_a_fresh_study_says_that_it_has_no_observations(gallery, opened, tmp_path):
    report = report_of(gallery, "fresh", tmp_path)
    page = opened(report.as_uri(), offline=True)
    page.wait_for_selector("text=Figures appear with the first observation.")
    assert page.locator("#first .command").is_hidden()


def test_the_dashboard_of_a_file_only_reads_it(gallery, opened, tmp_path):
    database = tmp_path / "tuner.db"
    clock = eb.ManualClock()
    opt = eb.Optimizer({"x": eb.Float(0, 1)}, storage=f"sqlite:///{database}", name="simulated", clock=clock, seed=0)
    for i in range(8):
        opt.tell({"x": i / 8}, float(i))
        clock.advance(1.0)
    opt.close()
    before = database.read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-m", "ebbtide", "dashboard", str(database), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        started = re.search(r"http://\S+", process.stdout.readline())
        assert started
        url = started[0]
        page = opened(url)
        page.locator("#studies td a").click()
        until(page, lambda: trace(page, "objective", "active") == set(range(8)))
        page.context.close()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
    assert database.read_bytes() == before


# --- browsers that end badly (perf/dashboard.py does it a hundred times, and times the tells) -------------------------


def test_browsers_that_are_killed_or_stalled_cost_no_tell(server, study, tmp_path):
    stop, confirmed = threading.Event(), []

    def tell_on():
        while not stop.is_set():
            tell(study, float(len(confirmed)))
            confirmed.append(1)

    thread = threading.Thread(target=tell_on)
    thread.start()
    try:
        for number in range(6):
            profile = f"--user-data-dir={tmp_path / str(number)}"
            assert CHROMIUM is not None
            command = [CHROMIUM, "--headless", *ARGUMENTS, profile, "--remote-debugging-port=0"]
            browser = subprocess.Popen(
                [*command, view_of(server, "edge-7")], stderr=subprocess.DEVNULL, start_new_session=True
            )
            time.sleep(1.0 + 0.5 * number)
            if number % 2:
                os.killpg(browser.pid, signal.SIGSTOP)
                time.sleep(0.5)
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
    finally:
        stop.set()
        thread.join()
    assert server.call("GET", "/studies/edge-7").json["told"] == len(confirmed) > 100
    streams = re.search(r'events",status="200"\} (\d+)', server.call("GET", "/metrics").body.decode())
    assert streams
    assert int(streams[1]) >= 2  # they did follow the study
    assert server.alive()
