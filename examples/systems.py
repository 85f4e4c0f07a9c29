"""The examples with real systems: how each is started, measured, and set if nobody tunes it.

    python examples/systems.py postgresql --minutes 15

tunes one with `ebbtide tune`; `make run` in its folder installs what it needs and calls this. With `--with-load`, the
study is told of the load before each ask, and has a limit to keep.
"""

import argparse
import contextlib
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = ("postgresql", "zstd-pipe", "redis-cache")
sys.path[:0] = [str(HERE), *(str(HERE / folder) for folder in FOLDERS)]

import measure_load
import start_cache
import start_pipe
import start_postgresql
from running import DAY, environment, terminated_as_interrupted

Settings = dict[str, float]


@dataclass(frozen=True)
class System:
    """A real system with some settings, and a script that prints how well it does under them: more is better."""

    name: str
    unit: str
    started: Callable[[], AbstractContextManager[dict[str, str]]]
    script: str
    default: Settings
    load: Callable[[float, float], dict[str, float]] | None = None  # at a time, with a day of some length; if measured

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def space(self) -> Path:
        return self.folder / "space.toml"

    @property
    def space_with_load(self) -> Path:
        return self.folder / "space-with-load.toml"

    @property
    def load_command(self) -> list[str]:
        """What prints the load of now."""
        return [sys.executable, str(self.folder / "measure_load.py")]

    def command(self, *options: str) -> list[str]:
        """The measuring script, with `{name}` where a setting belongs."""
        settings = [word for name in self.default for word in (f"--{name.replace('_', '-')}", f"{{{name}}}")]
        return [sys.executable, str(self.folder / self.script), *settings, *options]


SYSTEMS = {
    system.name: system
    for system in (
        System(
            "postgresql",
            "transactions/s within 30 ms",
            start_postgresql.started,
            "measure_pool.py",
            {"pool": 10, "work_mem": 4096},  # a common pool; PostgreSQL's own default
            measure_load.load,
        ),
        System("zstd-pipe", "MB/s", start_pipe.started, "measure_pipe.py", {"level": 3, "window": 21}),  # zstd's own
        System("redis-cache", "right answers/s", start_cache.started, "measure_cache.py", {"ttl": 1000.0, "block": 1}),
    )
}


EBBTIDE = [sys.executable, "-m", "ebbtide"]


def tuning(system: System, database: Path, with_load: bool = False) -> list[str]:
    """The command that tunes a system: half of the asks probe. It is told the load, or that it comes back every day."""
    default = ",".join(f"{name}={json.dumps(value)}" for name, value in system.default.items())
    space = system.space_with_load if with_load else system.space
    study = ["--storage", f"sqlite:///{database}", "--name", system.name, "--space", str(space)]
    asked = ["--direction", "maximize", "--explore", "50%", "--start", default]
    compared = ["--baseline", default, "--baseline-every", "20"]
    known = ["--context-command", shlex.join(system.load_command)] if with_load else ["--cycle", f"day={DAY:g}s"]
    return [*EBBTIDE, "tune", *study, *asked, *compared, *known, "--timeout", "20s", "--", *system.command()]


def tune(system: System, minutes: float, out: Path, with_load: bool) -> None:
    """Tune a system for some minutes, or until Ctrl-C; then write the report."""
    out.mkdir(parents=True, exist_ok=True)
    database, report = out / "study.db", out / "report.html"
    with system.started() as variables, environment(variables):
        print(f"{system.name}: {system.unit}; Ctrl-C stops", flush=True)
        process = subprocess.Popen(tuning(system, database, with_load), start_new_session=True)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(60.0 * minutes)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
    subprocess.run([*EBBTIDE, "report", str(database), "--out", str(report)], check=True)
    print(f"open {report}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for the study and the report  [default: out or out/with-load, beside space.toml]",
    )
    parser.add_argument("--with-load", action="store_true", help="measure the load before each ask, and keep a limit")
    options = parser.parse_args()
    system = SYSTEMS[options.system]
    if options.with_load and system.load is None:
        known = ", ".join(name for name, other in SYSTEMS.items() if other.load is not None)
        parser.error(f"--with-load: the load of {system.name} is not measured, only that of {known}; leave it out")
    out = options.out or system.folder / ("out/with-load" if options.with_load else "out")
    with terminated_as_interrupted():
        tune(system, options.minutes, out, options.with_load)


if __name__ == "__main__":
    main()
