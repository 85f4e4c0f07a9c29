"""Figure 3: how much α matters, and whether 0.25 is the best value."""

from dataclasses import replace

from ebbtide import algorithms, benchmarks
from ebbtide.algorithms import Algorithm
from ebbtide.experiments import statistics
from ebbtide.experiments.campaign import grid
from ebbtide.experiments.figures import comparison
from ebbtide.experiments.reproduction.studio import Section, Studio
from ebbtide.experiments.tables import regret_table, value_table
from ebbtide.parts.staleness import WassersteinBudget

ALPHAS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
PROBLEMS = tuple(name for name in benchmarks.PAPER if name != "wlan")  # ten synthetic ones and a real one
ALONE = "eggholder"


def _contender(alpha: float) -> str | Algorithm:
    """W-DBO with this α; its default by name, so that the runs are shared with the table."""
    if alpha == WassersteinBudget().alpha:
        return "w-dbo"
    return replace(algorithms.get("w-dbo"), staleness=WassersteinBudget(alpha=alpha))


def make(studio: Studio) -> Section:
    contenders = {f"{alpha:g}": _contender(alpha) for alpha in ALPHAS}
    summary = studio.run("sensitivity", grid(PROBLEMS, contenders, studio.seeds, studio.protocol))
    studio.save_data(summary, "sensitivity-runs")
    regret = statistics.compare(summary, "average_regret")
    regrets = regret_table(
        regret, f"Average regret ± standard error for each α ({studio.scale}).", main=list(contenders)
    )
    sizes = value_table(statistics.compare(summary, "size").means, "Active observations, mean over the queries.")
    studio.save_table(regrets, "sensitivity")
    studio.save_table(sizes, "sensitivity-sizes")
    averages = statistics.normalised(regret.means).mean()
    best = averages.idxmin()
    answer = "It is the sweet spot here, too." if best == "0.25" else f"The lowest average here is at α = {best}."
    text = (
        "Normalised average over the benchmarks: "
        + ", ".join(f"α = {alpha}: {value:.2f}" for alpha, value in averages.items())
        + f". The paper recommends ¼. {answer}"
    )
    picture = studio.save_figure(comparison.sensitivity(regret, ALONE), "sensitivity")
    caption = f"Regret against α: {ALONE} by itself, and all, normalised (the paper's Figure 3)."
    return Section("Sensitivity to α", [text], [regrets, sizes], [(picture, caption)])
