"""The documentation is run, and knows every guard, warning and public name."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import matplotlib.image
import pytest

import ebbtide as eb
from ebbtide.guards import Guard

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)])
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(page)
    if any("__main__" in block for block in blocks):  # it starts processes, so it is a script
        (tmp_path / "page.py").write_text("\n".join(blocks), encoding="utf-8")
        subprocess.run([sys.executable, "page.py"], check=True, timeout=300)
        return
    namespace = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)


def test_there_is_code_to_run():
    assert len(python_blocks("README.md")) >= 5
    assert len(python_blocks("docs/algorithms.md")) >= 3


def test_the_policy_of_the_guide_is_short_and_forgets():
    """Ten lines, and they do what they say."""
    (block, *_) = python_blocks("docs/algorithms.md")
    policy = block[block.index("@dataclass") : block.index("mine =")].strip()
    assert len([line for line in policy.splitlines() if line.strip()]) <= 10
    namespace = {"__name__": "page"}
    exec(compile(block, "docs/algorithms.md", "exec"), namespace)
    outcome = eb.experiments.run("eggholder", namespace["mine"], seed=0)
    ages = [o.removed_at - o.time for o in outcome.history if o.removed_at is not None]
    assert len(ages) > 100


@pytest.mark.parametrize("name", [*eb.algorithms.names(), *eb.benchmarks.names()])
def test_every_algorithm_and_benchmark_is_documented(name):
    pages = (ROOT / "docs" / "algorithms.md").read_text() + (ROOT / "docs" / "benchmarks.md").read_text()
    assert f"`{name}`" in pages


def test_every_make_target_is_documented():
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert [target for target in targets if f"make {target}" not in pages] == []


def test_the_readme_names_every_guard():
    assert [name for name in get_args(Guard) if f"`{name}`" not in README] == []


def test_the_tree_of_errors_is_drawn_completely():
    import ebbtide.errors

    names = [name for name, thing in vars(ebbtide.errors).items() if isinstance(thing, type)]
    assert [name for name in names if name not in ebbtide.errors.__doc__] == []


def test_the_public_names_exist():
    assert [name for name in eb.__all__ if not hasattr(eb, name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_demo_runs_without_a_terminal_and_draws_its_picture(tmp_path):
    picture = tmp_path / "demo.png"
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), "--seeds", "1", "--out", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "never forgetting" in done.stdout
    assert "t = 110" in done.stdout
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > 800
    assert pixels.std() > 0.1  # not a blank page


def console_lines(page, containing):
    """The commands of the console block that holds a word, with the line that is shown below each."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [block for block in blocks if containing in block]
    parts = re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2].strip()) for part in parts]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
def test_the_curl_example_works_as_printed(tmp_path):
    serve = console_lines("README.md", "ebbtide serve")[-1][0]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    server = subprocess.Popen(serve.split(), cwd=tmp_path, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE)
    try:
        assert b"http://127.0.0.1:8411" in server.stdout.readline(), "is the port taken?"
        for command, shown in console_lines("README.md", "curl"):
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
            answer = json.loads(done.stdout)
            assert "error" not in answer
            assert not shown or answer.keys() == json.loads(shown).keys()
    finally:
        server.terminate()
        server.wait(timeout=60)
        server.stdout.close()


def test_every_command_and_option_is_documented():
    """In the help, that is, and every command on a page."""
    from ebbtide.cli.commands import ebbtide

    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in ebbtide.commands if f"ebbtide {name}" not in pages] == []
    assert [name for name, command in ebbtide.commands.items() if not command.help] == []
