"""The figures behind docs/paper.md: what the paper says about the algorithms, checked in our runs of its table.

    ebbtide reproduce table --out paper
    python perf/discussion.py paper

Prints Markdown.
"""

import argparse
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
from record import add_option, record
from scipy.stats import t as student
from scipy.stats import wilcoxon

import ebbtide as eb
from ebbtide.experiments import paper, statistics
from ebbtide.experiments.protocol import NoiseOf
from ebbtide.experiments.reproduction import table
from ebbtide.experiments.reproduction.studio import Studio
from ebbtide.experiments.simulation import Simulation

ACKLEY_MOMENTS = np.array([100.0, 200.0, 250.0, 300.0, 350.0, 400.0, 500.0, 600.0])
NOISE_MOMENTS = (60.0, 150.0, 300.0, 600.0)
RESETTING = ("et-gp-ucb", "r-gp-ucb")
WITHIN = 0.1  # of the experiment: how sudden a drop of the dataset's size is


FOUND: list[dict[str, object]] = []  # what is recorded


def show(name: str, title: str, data: pd.DataFrame, digits: int) -> None:
    """Print a table, and keep its figures under a short name."""
    sys.stdout.write(f"\n### {title}\n\n")
    FOUND.extend(
        {"table": name, "row": i, "column": column, "value": value}
        for i, row in data.iterrows()
        for column, value in row.items()
    )
    lines = [["", *map(str, data.columns)], ["---"] * (len(data.columns) + 1)]
    lines += [[str(i), *(f"{v:.{digits}f}" for v in row)] for i, row in zip(data.index, data.to_numpy(), strict=True)]
    sys.stdout.write("\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n")


def of(studio: Studio, problem: str) -> dict[str, list[pd.DataFrame]]:
    return studio.frames([job for job in table.jobs(studio) if job.benchmark == problem])


def over_time(studio: Studio, problem: str) -> None:
    """Average regret so far and dataset size, mean over the seeds."""
    frames = of(studio, problem)
    moments = ACKLEY_MOMENTS / studio.protocol.duration
    measures = [
        ("regret", "average regret so far", statistics.running_regret),
        ("size", "active observations", statistics.size),
    ]
    for name, title, measure in measures:
        rows = {label: np.mean([measure(f, moments) for f in several], axis=0) for label, several in frames.items()}
        data = pd.DataFrame(rows, index=[f"{m:g}" for m in ACKLEY_MOMENTS]).T
        show(f"{problem} {name}", f"{problem}: {title}, at a time (s)", data, 2 if name == "regret" else 0)


def found_the_hole(studio: Studio) -> None:
    """How many seeds lose less than a random query does while Ackley's hole is open, between 250 and 350 s."""
    protocol = studio.protocol

    def open_loss(frame: pd.DataFrame) -> float:
        seconds = protocol.duration * frame["t"]
        return float(frame["regret"][(seconds > 250.0) & (seconds < 350.0)].mean())

    random = eb.experiments.run("ackley", "random", 0, protocol).frame
    frames = of(studio, "ackley")
    rows = {name: [sum(open_loss(f) < 0.5 * open_loss(random) for f in several)] for name, several in frames.items()}
    title = "ackley: seeds with a mean regret below half of the random control's between 250 and 350 s"
    show("ackley found", title, pd.DataFrame(rows, index=["seeds"]), 0)


def drops(studio: Studio) -> None:
    """W-DBO: what share of all told it holds at the end, and the largest relative drop within a tenth of the run."""
    rows = {}
    for problem in eb.benchmarks.PAPER:
        several = studio.frames([j for j in table.jobs(studio) if j.benchmark == problem and j.label == "w-dbo"])[
            "w-dbo"
        ]
        kept = np.mean([f["n"].iloc[-1] / (len(f) + studio.protocol.n_initial) for f in several])
        rows[problem] = [100.0 * kept, 100.0 * np.mean([largest_drop(f) for f in several])]
    title = "w-dbo: observations held at the end (% of all told), and largest drop within a tenth of the run (%)"
    show("drops", title, pd.DataFrame(rows, index=["held", "drop"]), 0)


def largest_drop(frame: pd.DataFrame) -> float:
    t, n = frame["t"].to_numpy(), frame["n"].to_numpy()
    return max(
        1.0 - float(n[(t >= now) & (t <= now + WITHIN)].min()) / float(size) for now, size in zip(t, n, strict=True)
    )


def resets(studio: Studio) -> None:
    """How often ET-GP-UCB and R-GP-UCB start again, a run."""
    rows = {}
    for problem in eb.benchmarks.PAPER:
        jobs = [job for job in table.jobs(studio) if job.benchmark == problem]
        frames = studio.frames(jobs)
        rows[problem] = [
            np.mean([(f["removed"] > 0).sum() for f in frames[name]]) for name in ("et-gp-ucb", "r-gp-ucb")
        ]
    show("resets", "resets per run", pd.DataFrame(rows, index=["et-gp-ucb", "r-gp-ucb"]), 1)


def noise(studio: Studio) -> None:
    """The share of the variance that ET-GP-UCB takes for noise, over time (seed 0)."""
    rows = {}
    for problem in ("hartmann6", "shekel", "ackley", "powell"):
        simulation = Simulation(eb.benchmarks.get(problem), eb.algorithms.get("et-gp-ucb"), 0, studio.protocol)
        seen: list[tuple[float, float]] = []

        def look(elapsed: float, optimizer: eb.Optimizer = simulation.optimizer, seen: list = seen) -> None:  # type: ignore[type-arg]
            seen.append((elapsed, 100.0 * optimizer.hyperparameters["noise"]))

        simulation.observe_initially()
        simulation.pursue(look)
        times, values = np.array(seen).T
        rows[problem] = [float(np.median(values[np.abs(times - moment) < 20.0])) for moment in NOISE_MOMENTS]
    title = "et-gp-ucb: fitted noise (% of the variance of what it has seen), seed 0, at a time (s)"
    show("noise", title, pd.DataFrame(rows, index=[f"{moment:g}" for moment in NOISE_MOMENTS]).T, 0)


def responses(summary: pd.DataFrame) -> None:
    title = "response time (s), mean over the queries"
    show("response", title, statistics.compare(summary, "response_s").means[list(paper.ALGORITHMS)], 2)


def paired(summary: pd.DataFrame) -> None:
    """Regret relative to W-DBO's under the same seed: geometric means, over a benchmark's seeds and over all."""
    ratios = statistics.relative(summary, to="w-dbo").groupby("problem", sort=False)
    sizes = statistics.compare(summary, "size").means
    half = student.ppf(0.975, ratios.size().iloc[0] - 1) * ratios.sem()["w-dbo-exact"]
    exact = ratios.mean()["w-dbo-exact"]
    rows = {"regret": exact, "from": exact - half, "to": exact + half}
    data = np.exp(pd.DataFrame(rows))
    data["size"] = sizes["w-dbo-exact"] / sizes["w-dbo"]
    title = "w-dbo-exact relative to w-dbo: regret with its 95 % interval, and size"
    show("exact", title, data.reindex(list(eb.benchmarks.PAPER)).T, 2)
    others = [name for name in ratios.mean().columns if name != "w-dbo"]
    means = {name: [np.exp(ratios.mean()[name].mean()), wilcoxon(ratios.mean()[name]).pvalue] for name in others}
    title = "regret relative to w-dbo's: geometric mean over the benchmarks, and Wilcoxon's p"
    show("ratios", title, pd.DataFrame(means, index=["ratio", "p"]), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of `ebbtide reproduce table`")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--noise-of", choices=get_args(NoiseOf), default="variance", help="as of `ebbtide reproduce`")
    add_option(parser)
    chosen = parser.parse_args()
    studio = Studio(chosen.folder, wanted_seeds=chosen.seeds, noise_of=chosen.noise_of)
    over_time(studio, "ackley")
    found_the_hole(studio)
    drops(studio)
    resets(studio)
    noise(studio)
    summary = studio.run("table", table.jobs(studio))
    responses(summary)
    paired(summary)
    record("discussion", FOUND, "python perf/discussion.py paper")


if __name__ == "__main__":
    main()
