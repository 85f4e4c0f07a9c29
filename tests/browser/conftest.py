"""A real Chromium, and what must hold for every page in every test."""

import pytest
from helpers.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, SPACE, make_a_past
from helpers.serving import served
from playwright.sync_api import sync_playwright

import ebbtide as eb


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
