"""The documentation is run, and knows every guard, warning and public name."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import matplotlib.image
import pytest

import ebbtide as eb
from ebbtide.guards import Guard

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]
INTEGRATIONS = ["docs/botorch.md", "docs/optuna.md"]  # run by tests/integrations, where torch and Optuna are


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", text(page), flags=re.DOTALL)


def python_blocks(page):
    return blocks(page, "python")


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page) and page not in INTEGRATIONS])
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = python_blocks(page)
    if any("__main__" in block for block in code):  # it starts processes, so it is a script
        (tmp_path / "page.py").write_text("\n".join(code), encoding="utf-8")
        subprocess.run([sys.executable, "page.py"], check=True, timeout=300)
        return
    namespace = {"__name__": "page"}
    for block in code:
        exec(compile(block, page, "exec"), namespace)


def test_there_is_code_to_run():
    assert len(python_blocks("README.md")) >= 1
    assert len([page for page in PAGES if python_blocks(page)]) >= 15
    assert all(python_blocks(page) for page in INTEGRATIONS)


def test_the_readmes_example_has_ten_lines():
    (block,) = python_blocks("README.md")
    used = [line for line in block.splitlines() if line and not line.startswith(("import", "assert"))]
    assert len(used) <= 10


def test_the_policy_of_the_guide_is_short_and_forgets():
    """Ten lines, and they do what they say."""
    (block, *_) = python_blocks("docs/guide/policies.md")
    policy = block[block.index("@dataclass") : block.index("mine =")].strip()
    assert len([line for line in policy.splitlines() if line.strip()]) <= 10
    namespace = {"__name__": "page"}
    exec(compile(block, "docs/guide/policies.md", "exec"), namespace)
    outcome = eb.experiments.run("eggholder", namespace["mine"], seed=0)
    ages = [o.removed_at - o.time for o in outcome.history if o.removed_at is not None]
    assert len(ages) > 100


@pytest.mark.parametrize("name", [*eb.algorithms.names(), *eb.benchmarks.names()])
def test_every_algorithm_and_benchmark_is_documented(name):
    assert f"`{name}`" in text("docs/algorithms.md") + text("docs/benchmarks.md")


def test_every_make_target_is_documented():
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    pages = "".join(map(text, PAGES))
    assert [target for target in targets if f"make {target}" not in pages] == []


def test_every_guard_and_warning_is_explained():
    names = [*get_args(Guard), *(name for name in eb.__all__ if name.endswith("Warning"))]
    assert [name for name in names if f"`{name}`" not in text("docs/troubleshooting.md")] == []


def test_the_tree_of_errors_is_drawn_completely():
    import ebbtide.errors

    names = [name for name, thing in vars(ebbtide.errors).items() if isinstance(thing, type)]
    assert [name for name in names if name not in ebbtide.errors.__doc__] == []


def test_the_public_names_exist():
    assert [name for name in eb.__all__ if not hasattr(eb, name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)[)#]", text(page)):
        assert ((ROOT / page).parent / target).exists(), target


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


def console_lines(page):
    """Every command of a page's console blocks, with the line that is shown below it."""
    parts = [re.split(r"^\$ ", b.replace("\\\n", " "), flags=re.MULTILINE)[1:] for b in blocks(page, "console")]
    return [(part.partition("\n")[0], part.partition("\n")[2].strip()) for block in parts for part in block]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
def test_the_commands_of_the_service_page_work_as_printed(tmp_path):
    """A service, curl against it, and the shell against its file, while it runs."""
    (tmp_path / "space.toml").write_text(blocks("docs/service.md", "toml")[0], encoding="utf-8")
    serve, *lines = [
        line for line in console_lines("docs/service.md") if not line[0].startswith(("pip", "EBBTIDE_TOKEN"))
    ]
    lines = [line for line in lines if not line[0].startswith("ebbtide tune")]  # never ends
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    server = subprocess.Popen(serve[0].split(), cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
    try:
        assert b"http://127.0.0.1:8411" in server.stdout.readline(), "is the port taken?"
        for command, shown in lines:
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, (command, done.stderr)
            answer = json.loads(done.stdout or "{}")
            assert "error" not in answer, command
            assert not shown or answer.keys() == json.loads(shown).keys()
        assert len(lines) == 8
    finally:
        server.terminate()
        server.wait(timeout=60)
        server.stdout.close()


SHOWN = [(page, command) for page in PAGES for command, _ in console_lines(page)]


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=[command[:40] for _, command in SHOWN])
def test_every_command_that_is_shown_is_one(page, command, tmp_path, monkeypatch):
    """Commands of ours are parsed with all their options, make's targets and pip's extras exist."""
    from ebbtide.cli.commands import ebbtide

    monkeypatch.chdir(tmp_path)
    for name in ("space.toml", "tuner.db"):
        (tmp_path / name).touch()
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "temperature_w-dbo_seed0.parquet").touch()
    words = shlex.split(re.sub(r"^[A-Z_]+=\$\(.*?\) ", "", command), comments=True)
    if words[0] == "ebbtide":
        ebbtide.commands[words[1]].make_context(words[1], words[2:])
    elif words[0] == "make":
        assert f"\n{words[1]}:" in text("Makefile")
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
        assert set(re.findall(r"[a-z]+", words[2])) <= extras.keys()
    else:
        assert words[0] in ("curl", "python3")


def test_files_that_are_shown_can_be_read():
    for page in PAGES:
        for block in blocks(page, "toml"):
            tomllib.loads(block)
        for block in blocks(page, "ini"):
            configparser.ConfigParser(strict=False).read_string(block)


def test_every_command_and_option_is_documented():
    """In the help, that is, and every command on a page."""
    from ebbtide.cli.commands import ebbtide

    pages = "".join(map(text, PAGES))
    assert [name for name in ebbtide.commands if f"ebbtide {name}" not in pages] == []
    assert [name for name, command in ebbtide.commands.items() if not command.help] == []
