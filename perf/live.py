"""Real systems under a load that drifts: ebbtide, the default, Optuna's TPE and static settings, measured in turn.

ebbtide takes part twice: as it is, and told that the load comes back every day. On PostgreSQL, where the load is
measured, it takes part twice more: told of the load, and told of the load and of a limit that p99 must keep.

    make perf-live                                      # all systems, three times 20 minutes each: three hours
    python perf/live.py --system postgresql --minutes 15 --repeats 1

Everything measured is kept in out/live; the same command goes on where it was interrupted. Days are 300 s long; the
best static setting is chosen on the odd days and judged on the even ones. The systems must be installed, which
`make perf-live` does. `--record` writes the data and the figures of the documentation; then
`python docs/measured.py --write` puts the tables on its pages.
"""

import argparse
import math
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from live_contenders import Default, Grid, ebbtides, limits_of
from live_figure import draw
from live_grids import GRIDS
from live_judging import VIOLATIONS, judged
from live_run import Contender, Journal, Measurement, run
from live_tpe import Tpe
from record import RECORD, add_option, record
from running import DAY, environment, terminated_as_interrupted
from systems import SYSTEMS, Settings, System

from ebbtide import tuning
from ebbtide.cli.described import space_of

GRID = "grid"
TIMEOUT = 20.0  # seconds for a measurement


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="one of them; may be given several times")
    parser.add_argument("--minutes", type=float, default=20.0, help="of each run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--day", type=float, default=DAY, help="seconds after which the load repeats")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "live")
    add_option(parser)
    options = parser.parse_args()
    systems = [SYSTEMS[name] for name in options.system or SYSTEMS]
    with terminated_as_interrupted():
        try:
            for repeat in range(options.repeats):
                for system in systems:
                    one_run(system, repeat, options)
        except KeyboardInterrupt:
            sys.exit("Stopped; run the same command again to continue.")
    for system in systems:
        conclude(system, options)


def journal_of(system: System, repeat: int, options: argparse.Namespace) -> Journal:
    out: Path = options.out
    return Journal(out / f"{system.name}-day{options.day:g}" / str(repeat) / "journal.jsonl")


def one_run(system: System, repeat: int, options: argparse.Namespace) -> None:
    """A run, or what is missing of it."""
    seconds, day = 60.0 * options.minutes, float(options.day)
    journal = journal_of(system, repeat, options)
    before = journal.read()
    if before and before[-1].ended >= seconds:
        return
    contenders = contenders_of(system, repeat, day, journal.path.with_name("study.db"))

    def measure(settings: Settings, at: float) -> tuning.Outcome:
        command = system.command("--at", f"{at:.3f}", "--day", f"{day:g}")
        outcome = tuning.evaluator(command, None, TIMEOUT)(settings)
        shown = outcome.problem if outcome.value is None else f"{outcome.value:.1f}"
        print(f"{system.name} {repeat} {at:7.1f} s  {settings} → {shown}", flush=True)
        return outcome

    with system.started() as variables, environment(variables):
        run(journal, contenders, measure, seconds, time.monotonic)


def contenders_of(system: System, seed: int, day: float, database: Path) -> dict[str, Contender]:
    return {
        **ebbtides(system, seed, day, database),
        "default": Default(system.default),
        "TPE": Tpe(space_of(system.space), system.default, seed),
        GRID: Grid(GRIDS[system.name]),
    }


def conclude(system: System, options: argparse.Namespace) -> None:
    """Print how everybody did; with `--record`, write it for the documentation."""
    runs = [journal_of(system, repeat, options).read() for repeat in range(options.repeats)]
    rows = [
        {"repeat": repeat, **row}
        for repeat, measured in enumerate(runs)
        for row in judged(measured, options.day, GRID, limits_of(system))
    ]
    print(f"\n{system.name}, {system.unit}:")
    for row in rows:
        print("  ".join(f"{name} {_short(name, value)}" for name, value in row.items()))
    figure(options.out / f"{system.name}.png", system, runs[0], options.day)
    record(f"live-{system.name}", rows, "make perf-live")
    if RECORD in sys.argv:
        figure(ROOT / "docs" / "figures" / f"live-{system.name}.png", system, runs[0], options.day)


def figure(path: Path, system: System, measured: list[Measurement], day: float) -> None:
    draw(path, system, space_of(system.space), measured, day, GRID)
    print(f"written: {path}", file=sys.stderr)


def _short(name: str, value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "–" if math.isnan(value) else f"{value:.1%}" if name == VIOLATIONS else f"{value:.1f}"


if __name__ == "__main__":
    main()
