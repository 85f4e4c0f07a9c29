"""One Dask cluster for all tests that only need some cluster: a scheduler and a worker, on ports that are free."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TESTS = str(Path(__file__).parents[1])


@pytest.fixture(scope="session")
def own_modules():
    """The environment of a process that can import `helpers`, as a user's process can import their modules."""
    before = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": TESTS if before is None else f"{before}{os.pathsep}{TESTS}"}


def address_in(file):
    """None until it is written, and written completely."""
    try:
        return json.loads(file.read_text())["address"]
    except (FileNotFoundError, json.JSONDecodeError):
        return None


@pytest.fixture(scope="session")
def cluster(tmp_path_factory, own_modules):
    """The address of a cluster started by command line, with one worker in another folder."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    environment = own_modules | {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}  # it samples all the time
    options: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": folder,
        "env": environment,
    }
    dask = str(Path(sys.executable).with_name("dask"))
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    scheduler = [dask, "scheduler", *common, "--host", "127.0.0.1", "--port", "0"]
    worker = [dask, "worker", *common, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny"]
    with subprocess.Popen(scheduler, **options) as first, subprocess.Popen(worker, **options) as second:
        deadline = time.monotonic() + 120.0
        while (address := address_in(file)) is None:
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.05)
        yield address
        second.kill()  # terminated at the same time, the one may wait for the other
        first.kill()
