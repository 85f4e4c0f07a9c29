"""The documentation is run, and knows every guard, warning and public name."""

import re
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


def test_the_readmes_code_runs_from_top_to_bottom():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 5
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


def test_the_readme_names_every_guard():
    assert [name for name in get_args(Guard) if f"`{name}`" not in README] == []


def test_the_tree_of_errors_is_drawn_completely():
    import ebbtide.errors

    names = [name for name, thing in vars(ebbtide.errors).items() if isinstance(thing, type)]
    assert [name for name in names if name not in ebbtide.errors.__doc__] == []


def test_the_public_names_exist():
    assert [name for name in eb.__all__ if not hasattr(eb, name)] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/how-it-works.md", "docs/performance.md"])
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
