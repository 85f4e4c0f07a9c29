"""Figures 10 and 14: Schwefel and Ackley again, with an anisotropic (ARD) squared-exponential kernel in space."""

from dataclasses import replace

from ebbtide import algorithms, benchmarks
from ebbtide.algorithms import Algorithm
from ebbtide.experiments import paper, statistics
from ebbtide.experiments.campaign import Job, grid
from ebbtide.experiments.figures import comparison
from ebbtide.experiments.reproduction.studio import Section, Studio
from ebbtide.experiments.reproduction.table import EXACT
from ebbtide.experiments.tables import regret_table
from ebbtide.gp.kernels import SquaredExponential

PROBLEMS = ("schwefel", "ackley")


def _anisotropic(name: str, dim: int) -> Algorithm:
    return replace(algorithms.get(name), spatial=SquaredExponential((1.0,) * dim))


def jobs(studio: Studio) -> list[Job]:
    return [
        job
        for problem in PROBLEMS
        for job in grid(
            [problem],
            {name: _anisotropic(name, benchmarks.get(problem).dim) for name in (*paper.ALGORITHMS, EXACT)},
            studio.seeds,
            studio.protocol,
        )
    ]


def make(studio: Studio) -> Section:
    wanted = jobs(studio)
    summary = studio.run("ard", wanted)
    studio.save_data(summary, "ard-runs")
    regret = statistics.compare(summary, "average_regret")
    caption = f"Average regret ± standard error with the ARD squared-exponential kernel ({studio.scale})."
    regrets = studio.save_table(regret_table(regret, caption, main=paper.ALGORITHMS), "ard")
    pictures = []
    for problem in PROBLEMS:
        frames = studio.frames([job for job in wanted if job.benchmark == problem])
        figure = comparison.over_time(f"{problem}, ARD kernel", frames)
        pictures.append(
            (studio.save_figure(figure, f"ard-{problem}"), f"{problem} with one lengthscale per coordinate.")
        )
    order = regret.means[list(paper.ALGORITHMS)].rank(axis=1)["w-dbo"]
    places = ", ".join(f"{problem}: {int(order[problem])}" for problem in PROBLEMS)
    return Section("ARD kernel", [f"W-DBO's place among the six with this kernel: {places}."], [regrets], pictures)
