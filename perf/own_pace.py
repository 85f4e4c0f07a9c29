"""What a faster engine is worth: W-DBO for 600 s, its own response times deciding how often it may query.

    python perf/own_pace.py --before ../ebbtide-before/src          two hours on one core; goes on if interrupted
    python perf/own_pace.py --before ../ebbtide-before/src --benchmarks shekel --duration 60

Each run is a process of its own. A response time is the processor time of one thread, so that other programs on the
machine do not count. "before" is the code of another checkout.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from record import add_option, record

from ebbtide.experiments.pace import Measured
from ebbtide.experiments.protocol import Protocol
from ebbtide.experiments.simulation import run

BENCHMARKS = ("rosenbrock", "hartmann6", "powell", "eggholder", "shekel", "hartmann3")
OUT = Path("out/own-pace")


@dataclass(frozen=True)
class ProcessorTime(Measured):
    """The response time as it would be if nothing else ran."""

    def stopwatch(self, n: int) -> Callable[[], float]:
        start = time.process_time()
        return lambda: time.process_time() - start


def one(benchmark: str, duration: float) -> dict[str, float]:
    """A run with the code that this process has imported."""
    found = run(benchmark, "w-dbo", seed=0, protocol=Protocol(duration=duration, compute=ProcessorTime()))
    n, response = found.columns["n"], 1e3 * found.columns["response_s"]
    return {
        "queries": len(n),
        "median_n": float(np.median(n)),
        "largest_n": int(n.max()),
        "median_response_ms": round(float(np.median(response)), 2),
        "mean_response_ms": round(float(response.mean()), 2),
        "average_regret": float(found.average_regret),
        "time_weighted_regret": float(found.time_weighted_regret),
    }


def in_a_process(label: str, source: Path, benchmark: str, duration: float) -> dict[str, float]:
    """A run with the code of a checkout; one that was made already is read."""
    path = OUT / f"{label}-{benchmark}-{duration:g}.json"
    if not path.exists():
        sys.stderr.write(f"{label}: {benchmark}\n")
        command = [sys.executable, "-W", "ignore", __file__, "--one", benchmark, "--duration", f"{duration:g}"]
        environment = os.environ | {"PYTHONPATH": str(source.resolve()), "OPENBLAS_NUM_THREADS": "1"}
        written = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        OUT.mkdir(parents=True, exist_ok=True)
        path.write_text(written, encoding="utf-8")
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="src of another checkout")
    parser.add_argument("--benchmarks", nargs="*", default=BENCHMARKS)
    parser.add_argument("--duration", type=float, default=600.0)
    parser.add_argument("--one", metavar="BENCHMARK", help="one run in this process; prints JSON")
    add_option(parser)
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(json.dumps(one(chosen.one, chosen.duration)))
        return
    sources = {"now": Path(__file__).parents[1] / "src"} | ({"before": chosen.before} if chosen.before else {})
    rows: list[dict[str, object]] = []
    for benchmark in chosen.benchmarks:
        for label, source in sources.items():
            found = in_a_process(label, source, benchmark, chosen.duration)
            rows.append({"benchmark": benchmark, "engine": label, **found})
            print(rows[-1], flush=True)
    record("own-pace", rows, "python perf/own_pace.py")


if __name__ == "__main__":
    main()
