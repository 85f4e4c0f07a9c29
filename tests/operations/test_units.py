"""The systemd units: systemd itself reads them, and rates what they may do."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.cli.commands import ebbtide

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
COMMAND = "/opt/ebbtide/bin/ebbtide"  # where docs/operations.md installs it
NAMES = {"ebbtide.service": "ebbtide.service", "ebbtide-tune@.service": "ebbtide-tune@edge-9.service"}
MOST_EXPOSED = "20"  # of 100, by systemd's own measure; without the restrictions it is above 90

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def analyze(*arguments):
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=NAMES)
def unit(request, tmp_path):
    """A unit whose command is there; a template gets the name of a study."""
    text = (UNITS / request.param).read_text(encoding="utf-8")
    assert f"ExecStart={COMMAND} " in text
    path = tmp_path / NAMES[request.param]
    path.write_text(text.replace(COMMAND, sys.executable), encoding="utf-8")
    return path


def test_systemd_finds_no_mistake(unit):
    assert analyze("verify", str(unit)) == (0, "")


def test_a_mistake_would_be_found(unit):
    unit.write_text(unit.read_text(encoding="utf-8").replace("ProtectHome=yes", "ProtectHome=perhaps"))
    assert "protect home" in analyze("verify", str(unit))[1]


def test_a_unit_may_do_little(unit):
    status, said = analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager", str(unit))
    assert status == 0, said


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_gives_a_command_that_ebbtide_knows(name, tmp_path):
    text = (UNITS / name).read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    (tmp_path / "edge-9.toml").touch()
    values = {"%i": "edge-9", "/etc/ebbtide": str(tmp_path), "$SERVE_OPTIONS": "--port 8411 --access-log"}
    values |= {"$TUNE_OPTIONS": "--every 10s", "$TUNE_COMMAND": "measure --power {power}"}
    for word, value in values.items():
        line = line.replace(word, value)
    _, command, *words = line.split()
    environment = {"EBBTIDE_STORAGE": "sqlite:///tuner.db"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.environ", environment)
        ebbtide.commands[command].make_context(command, words)


def test_the_users_can_be_made():
    made = UNITS / "sysusers.conf"
    done = subprocess.run(["systemd-sysusers", "--dry-run", str(made)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    users = {line.split()[1] for line in made.read_text(encoding="utf-8").splitlines() if line.startswith("u ")}
    units = [(UNITS / name).read_text(encoding="utf-8") for name in NAMES]
    assert users == {line.partition("=")[2] for text in units for line in text.splitlines() if line.startswith("User=")}
