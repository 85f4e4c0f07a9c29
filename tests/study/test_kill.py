"""Processes killed (SIGKILL) while they write to a study: see helpers/killing.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import chaos

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[1] / "helpers" / "killing.py"


def killed(folder, manner, kills):
    """In a separate process: the one that runs the tests has threads, which a fork would not copy."""
    command = [sys.executable, "-W", "error", SCRIPT, folder, "--seed", "7", "--kills", str(kills), "--manner", manner]
    run = subprocess.run(
        command, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300
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
    seen = killed(on_disk, manner, kills)
    # The kills came during all operations, before and after the commit:
    assert seen["tells acknowledged"] > 20
    assert seen["asks acknowledged"] > 20
    assert seen["lines removed"] > 0
    assert seen["killed in: tell"] > 0
    assert seen["killed in: ask"] > 0
    assert seen["tells begun and not recorded"] > 0
    assert seen["asks begun and not recorded"] > 0
    assert seen["a log was left behind"] > 0


@pytest.mark.parametrize("kills", [30, pytest.param(100, marks=pytest.mark.very_slow)])
def test_a_file_whose_creation_was_killed_can_be_used(kills, on_disk):
    seen = killed(on_disk, "birth", kills)
    assert seen["killed in: open"] > 0
    assert seen["no file yet"] < kills


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
