"""Processes killed (SIGKILL) while they write to a study: see helpers/killing.py."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers import chaos

pytestmark = pytest.mark.slow
MOST = 6  # times that many kills
SCRIPT = Path(__file__).parents[1] / "helpers" / "killing.py"


def killed(folder, manner, kills, *wanted):
    """What was seen. On a busy machine kills come late: there are more of them, until all that is wanted was seen."""
    seen = Counter()
    for seed in range(7, 7 + MOST):
        (folder / str(seed)).mkdir()
        seen.update(killed_once(folder / str(seed), manner, kills, seed))
        if all(seen[word] for word in wanted):
            break
    return seen


def killed_once(folder, manner, kills, seed):
    """In a separate process: the one that runs the tests has threads, which a fork would not copy."""
    command = [sys.executable, "-W", "error", SCRIPT, folder, "--seed", str(seed), "--kills", str(kills)]
    run = subprocess.run(
        [*command, "--manner", manner],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    report = json.loads(run.stdout)
    assert report["problems"] == []
    assert report["seen"]["kills"] >= kills
    return report["seen"]


@pytest.mark.parametrize(
    ("manner", "kills"),
    [
        ("one", 50),
        ("two", 60),
        pytest.param("one", 150, marks=pytest.mark.very_slow),
        pytest.param("two", 150, marks=pytest.mark.very_slow),
    ],
)
def test_what_a_killed_process_was_told_is_recorded_once(manner, kills, on_disk):
    # The kills come during all operations, before and after the commit:
    wanted = ["killed in: tell", "killed in: ask", "tells begun and not recorded", "asks begun and not recorded"]
    seen = killed(on_disk, manner, kills, *wanted)
    assert [word for word in wanted if not seen[word]] == []
    assert seen["tells acknowledged"] > 20
    assert seen["asks acknowledged"] > 20
    assert seen["lines removed"] > 0
    assert seen["a log was left behind"] > 0


@pytest.mark.parametrize("kills", [30, pytest.param(100, marks=pytest.mark.very_slow)])
def test_a_file_whose_creation_was_killed_can_be_used(kills, on_disk):
    seen = killed(on_disk, "birth", kills, "killed in: open")
    assert seen["killed in: open"] > 0
    assert seen.get("no file yet", 0) < seen["kills"]


@pytest.mark.very_slow
def test_a_service_that_is_killed_again_and_again_loses_nothing(on_disk):
    """Over HTTP, with clients that keep asking and telling; `make chaos` does the same with a thousand kills."""
    outcome = chaos.unleash(on_disk, kills=12)
    assert outcome["tells"] > 12
    assert outcome["asks"] > 0


@pytest.mark.very_slow
def test_a_file_that_is_lost_again_and_again_while_it_is_in_use_loses_nothing(on_disk):
    """Deleted, moved away, replaced by a backup, and put back; by a service and another process at the same time."""
    outcome = chaos.unleash(on_disk, kills=4, losses=20)
    assert outcome["tells"] > 24
    assert outcome["refused"] > 0
