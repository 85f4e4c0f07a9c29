"""The documentation is run, and covers every guard, warning, command and public name."""

import ast
import configparser
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import click
import pytest
from click.testing import CliRunner
from helpers.serving import served

import ebbtide as eb
from ebbtide.cli.commands import ebbtide
from ebbtide.guards import Guard
from ebbtide.service import (
    Limits,
    chunks,
    descriptors,
    middleware,
    protocol,
    reader,
    routes_read,
    schemas,
    server,
    workers,
)
from ebbtide.service.studies import ANSWER_S, MAX_DEFINITION
from ebbtide.service.worker import Bounds
from ebbtide.study.conditions import MAX_CONSTRAINTS, MAX_CYCLES, MAX_WIDTH
from ebbtide.study.limits import MAX_NAME
from ebbtide.tuning import context

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "demo.py"
PAGES = ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]
ELSEWHERE = {"docs/botorch.md", "docs/optuna.md", "docs/service.md"}  # in tests/integrations; below, with a service
SLOW = {"docs/experiments.md", "docs/guide/live-systems.md", "docs/guide/policies.md"} | {
    f"docs/guide/{page}.md" for page in ("context", "cycles", "constraints")
}


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", text(page), flags=re.DOTALL)


def python_blocks(page):
    return blocks(page, "python")


def run(page, edit=str):
    """Run a page's Python blocks from top to bottom, in this process."""
    namespace = {"__name__": "__main__"}  # a block that starts processes is guarded as in a script
    for block in python_blocks(page):
        exec(compile(edit(block), page, "exec"), namespace)


RUNNABLE = [
    pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else [])
    for page in PAGES
    if python_blocks(page) and page not in ELSEWHERE
]


# Dask leaves sockets and event loops that are still closing when a test ends.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", RUNNABLE)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)


def test_there_is_code_to_run():
    assert len(python_blocks("README.md")) >= 1
    assert len([page for page in PAGES if python_blocks(page)]) >= 15
    assert all(python_blocks(page) for page in ELSEWHERE | SLOW)


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
    protocol = eb.experiments.Protocol(duration=120.0)
    history = eb.experiments.run("eggholder", namespace["mine"], seed=0, protocol=protocol).history
    removed = [o.removed_at for o in sorted(history, key=lambda o: o.time)]
    gone = [at for at in removed if at is not None]
    assert 40 < len(gone) < len(removed)
    assert removed[: len(gone)] == sorted(gone)  # the oldest go first, and what is active is the newest


@pytest.mark.parametrize("name", [*eb.algorithms.names(), *eb.benchmarks.names(), *eb.benchmarks.ARENAS])
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


@pytest.mark.slow
def test_the_demo_runs_without_a_terminal_and_draws_its_picture(tmp_path, monkeypatch, capsys):
    import matplotlib.image

    picture = tmp_path / "demo.png"
    monkeypatch.setattr(sys, "argv", [str(DEMO), "--seeds", "1", "--out", str(picture)])
    runpy.run_path(str(DEMO), run_name="__main__")
    shown = capsys.readouterr().out
    assert "never forgetting" in shown
    assert "t = 110" in shown
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > 800
    assert pixels.std() > 0.1  # not a blank page


def test_the_demo_says_something_before_it_imports_anything_heavy():
    """Without any installed package it fails, but only after its first line."""
    done = subprocess.run([sys.executable, "-S", "-E", str(DEMO)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("ebbtide")
    assert "ModuleNotFoundError" in done.stderr


def test_the_demo_needs_only_its_extra():
    """`make demo` installs the package and its extra `demo`, and nothing else."""
    project = tomllib.loads(text("pyproject.toml"))["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["demo"]]
    imports = [node for node in ast.walk(ast.parse(DEMO.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        name.partition(".")[0]
        for node in imports
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert names - sys.stdlib_module_names - {"ebbtide"} <= {re.split(r"[^a-z]", each)[0] for each in required}


def console_lines(page):
    """Every command of a page's console blocks, with the line that is shown below it."""
    parts = [re.split(r"^\$ ", b.replace("\\\n", " "), flags=re.MULTILINE)[1:] for b in blocks(page, "console")]
    return [(part.partition("\n")[0], part.partition("\n")[2].strip()) for block in parts for part in block]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The command that the service page starts with, on a free port."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "space.toml").write_text(blocks("docs/service.md", "toml")[0], encoding="utf-8")
    (serve,) = [command for command, _ in console_lines("docs/service.md") if command.startswith("ebbtide serve")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with served(folder, *shlex.split(serve)[2:]) as server:
            yield server


def on_its_port(server):
    """What the page prints with the default port, with the server's instead."""
    return lambda printed: re.sub(r"(?<=:)8411\b", str(server.port), printed)


@pytest.mark.slow
def test_the_code_of_the_service_page_runs_from_top_to_bottom(service, monkeypatch):
    monkeypatch.chdir(service.folder)
    run("docs/service.md", on_its_port(service))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_service_page_work_as_printed(service, monkeypatch):
    """curl against the service, and the shell against its file, while it runs."""
    monkeypatch.chdir(service.folder)
    left_out = ("pip", "ebbtide serve", "EBBTIDE_TOKEN", "ebbtide tune")  # setting up, and what never ends
    lines = [line for line in console_lines("docs/service.md") if not line[0].startswith(left_out)]
    for command, shown in lines:
        program, *words = shlex.split(on_its_port(service)(command))
        answer = json.loads(curl(words) if program == "curl" else shell(words))
        assert "error" not in answer, command
        assert not shown or answer.keys() == json.loads(shown).keys()
    assert len(lines) == 8


def curl(words):
    return subprocess.run(["curl", *words], capture_output=True, text=True, timeout=60, check=True).stdout


def shell(words):
    done = CliRunner().invoke(ebbtide, words)
    assert done.exit_code == 0, (words, done.output)
    return done.stdout


SHOWN = [(page, command) for page in PAGES for command, _ in console_lines(page)]


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=[command[:40] for _, command in SHOWN])
def test_every_command_that_is_shown_is_one(page, command, tmp_path, monkeypatch):
    """Our commands are parsed with all their options; make's targets and pip's extras exist."""
    monkeypatch.chdir(tmp_path)
    for name in ("space.toml", "tuner.db"):
        (tmp_path / name).touch()
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "temperature_tide_seed0.parquet").touch()
    words = shlex.split(re.sub(r"^[A-Z_]+=\$\(.*?\) ", "", command), comments=True)
    if words[0] == "ebbtide":
        depth = 2 if words[1] in ebbtide.commands and isinstance(ebbtide.commands[words[1]], click.Group) else 1
        name = " ".join(words[1 : 1 + depth])
        COMMANDS[name].make_context(name, words[1 + depth :])
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


def test_the_page_of_conditions_has_the_limits_of_the_code():
    page = text("docs/guide/conditions.md")
    for what, most in (("each choice", MAX_WIDTH), ("cycles", MAX_CYCLES), ("constraints", MAX_CONSTRAINTS)):
        assert f"{what} | {most} |" in page
    assert f"constraints have at most {MAX_NAME} characters" in page
    assert f"longer than {context.TIME_LIMIT:g} s, and at most {context.LONGEST / 2**10:g} KiB are read" in page


def test_the_page_of_tenants_has_the_limits_and_the_scopes_of_the_code():
    page = text("docs/tenants.md")
    asks = f"at most {schemas.MAX_ASKS} asks (for at most {Limits().trials} trials in all)"
    assert f"{asks}, and `POST /tell` at most {schemas.MAX_TELLS} tells" in page
    assert re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE) == ["read", "ask", "tell", "admin"]
    assert f"limit={routes_read.STUDIES}`" in text("docs/service.md")


def test_the_service_page_has_the_limits_of_the_code():
    limits = Limits()
    mib, kib = limits.body / 2**20, protocol.MAX_HEAD / 2**10
    assert protocol.HEAD_S == middleware.BODY_S
    sentence = (
        f"{kib:g} KiB of headers and a body of {mib:g} MiB, each within {middleware.BODY_S:g} s; "
        f"{limits.connections:,} connections, of them {limits.connections_per_address:,} from one address; "
        f"{limits.rate:,.0f} requests per second from one address, and {protocol.MAX_PIPELINED} in a row before the "
        f"first is answered; "
        f"{limits.studies:,} studies (or `--max-studies`), each with a definition of at most {MAX_DEFINITION:,} "
        f"characters and {limits.width} coordinates (a category has one per choice); {limits.trials} trials per ask; "
        f"{limits.streams} event streams; {reader.MAX_WAITING} long answers that wait for the database. A context has "
        f"at most {MAX_WIDTH} coordinates, and there are at most {MAX_CYCLES} cycles and {MAX_CONSTRAINTS} constraints."
    )
    bounds = Bounds()
    models = (
        f"A model may take {bounds.seconds:g} s and {bounds.memory >> 20:,} MB, and every ask is answered within "
        f"{ANSWER_S:g} s, if need be with a 503. Algorithms that keep everything (`gp-ucb`, `abo`, …) get models of at "
        f"most {limits.active:,} observations"
    )
    page = " ".join(text("docs/service.md").split())
    assert sentence in page
    assert models in page
    assert f"(`nice` {workers.NICENESS})" in page
    assert f"Requests in progress have {server.GRACE_S} s" in page
    assert f"more than {limits.active:,} observations" in text("docs/limitations.md")
    assert f"{chunks.CHUNK / 2**10:g} KiB within {protocol.WRITE_S:g} s" in page
    assert f"If {reader.MAX_WAITING} long answers (" in page
    assert f"it needs {descriptors.OWN} for itself" in page


def every(group, before=""):
    """Every command by its name; instead of a group, the commands in it."""
    found = {}
    for name, command in group.commands.items():
        found |= every(command, f"{before}{name} ") if isinstance(command, click.Group) else {before + name: command}
    return found


COMMANDS = every(ebbtide)
OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, click.Option)
]


def test_every_command_and_option_is_documented():
    """On a page that somebody wrote, as well as in the reference, which is made from the help texts."""
    pages = [text(page) for page in PAGES]
    about = {name: "".join(page for page in pages if f"ebbtide {name}" in page) for name in COMMANDS}
    assert [name for name, found in about.items() if not found] == []
    shown = {name: set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", found)) for name, found in about.items()}
    assert [(name, option.name) for name, option in OPTIONS if not shown[name] & {*option.opts}] == []


def test_every_command_and_option_has_a_help_text():
    assert [name for name, command in COMMANDS.items() if not command.help] == []
    assert [(name, option.name) for name, option in OPTIONS if not option.help] == []
