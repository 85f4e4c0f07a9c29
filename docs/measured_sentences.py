"""The measured numbers in the sentences of the pages: the words around each, with holes, and what docs/data says.

Keep the words few, so that a page can be reworded; `python docs/measured.py` says which are no longer found.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from measured_tables import average, averages, data, error, means, overall, regret

from ebbtide.experiments import paper, statistics
from ebbtide.experiments.pace import CALIBRATIONS

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
SIX = list(paper.ALGORITHMS)


@dataclass(frozen=True)
class Sentence:
    """A fragment of a page with holes `{}` for its numbers, and the files that they come from."""

    page: str
    data: tuple[str, ...]
    text: str
    values: tuple[str, ...]


SENTENCES: list[Sentence] = []


def on(page: str, *files: str) -> Callable[..., None]:
    """Collects the sentences of a page that quote these files."""

    def quote(text: str, *values: str) -> None:
        SENTENCES.append(Sentence(page, files, text, values))

    return quote


def word(number: float) -> str:
    return WORDS[round(number)]


def ends(values: pd.Series | np.ndarray, form: str = ".2f") -> tuple[str, str]:
    return format(values.min(), form), format(values.max(), form)


def row(name: str, **where: object) -> pd.Series:
    """The one line of a file where columns have these values."""
    lines = data(name)
    for column, value in where.items():
        lines = lines[lines[column] == value]
    (only,) = (line for _, line in lines.iterrows())
    return only


# --- speed, the service, the dashboard, the integrations -----------------------------------------------------------


def performance() -> None:
    tenths = data("long-run")
    level = tenths.iloc[-1] / tenths.iloc[1]
    quote = on("docs/performance.md", "long-run")
    quote("{} asks on a manual clock", f"{tenths['to'].max():,}")
    quote("response time {}, dataset's size {}", f"{level['median_ms']:.2f}", f"{level['active']:.2f}")
    on("docs/guide/long-runs.md", "long-run")("[in {} asks]", f"{tenths['to'].max():,}")
    on("README.md", "long-run")("after {} asks", f"{tenths['to'].max():,}")
    quote = on("docs/performance.md", "paired")
    for text, algorithm in (("in every ask: {} ({} to {}).", "w-dbo"), ("before the last one: {} ({} to {}).", "tide")):
        ratio = row("paired", algorithm=algorithm, benchmark="all")
        quote(text, *(f"{ratio[name]:.2f}" for name in ("mean", "low", "high")))
    quote = on("docs/performance.md", "steps-tide")
    quote(
        "{}, {} and {} times as long as one of W-DBO's", *(f"{ratio:.2f}" for ratio in data("steps-tide")["measured"])
    )
    theirs, ours = (row("steps", n=200, library=name)["ms"] for name in ("BoTorch SingleTaskGP + UCB", "ebbtide"))
    most = row("steps", n=data("steps")["n"].max(), library="ebbtide")
    on("docs/limitations.md", "steps")("with {} active observations, about {} ms", f"{most['n']}", f"{most['ms']:.0f}")
    on("docs/comparison.md", "steps")("n = 200: {} ms, ours: {} ms", f"{theirs:.0f}", f"{ours:.0f}")


def world() -> None:
    ask = row("world-ask", figure="ask")
    on("docs/world.md", "world-ask")("takes {} times as long", f"{ask['measured']:.1f}")


def service() -> None:
    page = "docs/service.md"
    killed = row("chaos")
    quote = on(page, "chaos")
    quote("{} kills and {} lost files", f"{killed['kills']:,.0f}", f"{killed['losses']:,.0f}")
    quote("{} tells confirmed", f"{killed['tells']:,.0f}")
    quote("not ready after {} s at most", f"{killed['not_ready_s']:.1f}")
    killed = row("chaos-postgres")
    quote = on("docs/postgresql.md", "chaos-postgres")
    quote("{} kills of services and {} of the database", f"{killed['kill']:,.0f}", f"{killed['restart']:,.0f}")
    quote(
        "{} connections cut, up to {} of them in the middle of a commit",
        f"{killed['cut connections']:,.0f}",
        f"{killed['cut commit']:,.0f}",
    )
    quote("{} tells were confirmed", f"{killed['tells']:,.0f}")
    fleet = row("fleet-replicas")
    quote = on("docs/postgresql.md", "fleet-replicas")
    quote("{} asks per second instead of {}", f"{fleet['two_per_second']:.1f}", f"{fleet['one_per_second']:.1f}")
    lived = row("hostile")
    quote = on(page, "hostile")
    quote("In {} hostile histories", f"{lived['histories']:,.0f}")
    quote("{} asks and {} restarts", f"{lived['asks']:,.0f}", f"{lived['restarts']:,.0f}")
    sent = row("fuzz")
    quote = on(page, "fuzz")
    quote("Of {} generated requests", f"{sent['requests']:,.0f}")
    quote("grew by more than {} MB", f"{sent['most_growth_mb']:.1f}")
    tell, commit, alone = (row("load-0.3s", request=r) for r in ("tell", "commit, during the load", "commit, alone"))
    quote = on(page, "load-0.3s")
    quote("flushed takes {} ms when nothing else runs", f"{alone['p50_ms']:.1f}")
    quote("p99 is {} times", f"{tell['p99_ms'] / commit['p99_ms']:.1f}")
    quote("({} times the median of a commit", f"{tell['p99_ms'] / alone['p50_ms']:.0f}")
    quote("All {} tells", f"{tell['number']:,.0f}")
    slow, beside = (row("load-1s", request=request)["p99_ms"] for request in ("tell", "commit, during the load"))
    on(page, "load-1s")("of 1 s: {} ms, {} times", f"{slow:.1f}", f"{slow / beside:.1f}")
    on("docs/guide/long-runs.md", "soak-outside-0")("[in {} tells]", f"{data('soak-outside-0')['told'].max():,}")
    smooth = row("dashboard-smoothness")
    quote = on("docs/dashboard.md", "dashboard-smoothness")
    quote("{} tells per second", f"{smooth['tells_per_second']:.0f}")
    quote("for {} % of the time", f"{100 * smooth['busy_share']:.0f}")
    quote("{} tasks per second", f"{smooth['tasks_per_second']:.1f}")
    quote("the longest {} ms", f"{smooth['longest_ms']:.0f}")
    on("docs/dashboard.md", "load-0.3s")("({} ms at its 99th percentile)", f"{tell['p99_ms']:.1f}")
    first = data("dashboard-opening")["pictures_s"].max()
    on("docs/limitations.md", "dashboard-opening")("takes about {} s", f"{first:.0f}")


def calibrations() -> None:
    """How long a modelled step takes: not measured again, but as the code has it."""
    for name, whose in (("botorch", "BoTorch"), ("ebbtide", "this engine")):
        constant, _, square = CALIBRATIONS[name].coefficients
        factor, exponent = f"{square:.2g}".replace("e-0", "e-").split("e-")
        on("docs/experiments.md")(f"| {{}} + {{}}e-{{}} n² s: what {whose} takes", f"{constant:g}", factor, exponent)


def integrations() -> None:
    plain, pruned = data("botorch-loop")["last_tenth_ms"] / 1e3
    on("docs/botorch.md", "botorch-loop")("needs {} s for a step", f"{plain:.1f}")
    on("docs/botorch.md", "botorch-loop")("a step takes {} s and stays there", f"{pruned:.1f}")


# --- the paper's evaluation ---------------------------------------------------------------------------------------


def the_table() -> None:
    quote = on("docs/results.md", "table")
    quote("{} runs, ten seeds", f"{len(data('table'))}")
    theirs, found = statistics.normalised(paper.AVERAGE_REGRET).mean(), averages()
    order = ("w-dbo", "tv-gp-ucb", "r-gp-ucb")
    quote("{} against {} for TV-GP-UCB and {} for R-GP-UCB", *(f"{found[name]:.2f}" for name in order))
    quote("(the paper: {}, {}, {})", *(f"{theirs[name]:.2f}" for name in order))
    compared = statistics.compare(data("table"), "average_regret")
    lowest = compared.means[SIX].idxmin(axis=1) == "w-dbo"
    near = compared.overlapping(SIX)["w-dbo"]
    quote("best of the six on {} benchmarks", word(lowest.sum()))
    quote("overlaps the best on {} more", word((near & ~lowest).sum()))
    logs = statistics.relative(data("table"), to="w-dbo")
    mean, low, high = statistics.geometric(logs["tide"])
    by_problem = np.exp(logs["tide"].groupby(level="problem").mean())
    quote(
        "has {} of W-DBO's regret** ({} to {}; Wilcoxon's p is {} over the benchmarks",
        *(f"{value:.2f}" for value in (mean, low, high)),
        f"{overall().at['tide', 'p']:.4f}",
    )
    quote("at most {} times W-DBO's on a benchmark (Eggholder)", f"{by_problem['eggholder']:.2f}")
    lowest_of_all = compared.means.idxmin(axis=1) == "tide"
    quote("the lowest of all eight on {} of the twelve benchmarks", word(lowest_of_all.sum()))
    for page in ("README.md", "docs/tide.md"):
        on(page, "table")("has {} of W-DBO's regret ({} to {})", *(f"{value:.2f}" for value in (mean, low, high)))
    below = compared.means.le(paper.AVERAGE_REGRET["w-dbo"], axis=0).drop("wlan")  # which is in another unit
    quote(
        "on {} of the eleven that can be compared, `tide` on {}", word(below["w-dbo"].sum()), word(below["tide"].sum())
    )
    exact, sizes = overall().loc["w-dbo-exact"], means("size")["w-dbo-exact"] / means("size")["w-dbo"]
    quote("Its regret is {} times W-DBO's", f"{exact['ratio']:.2f}")
    quote("Wilcoxon's p = {}", f"{exact['p']:.2f}")
    quote("its dataset {} times", f"{sizes.mean():.2f}")


def approximation() -> None:
    """The bound beside the criterion, for d = 1, 3, 5 and the shortest and the longest lengthscale."""
    found = data("approximation-criterion").groupby("d")
    short, long = found.first(), found.last()

    def percent(values: pd.Series) -> list[str]:
        return [f"{100 * value:.0f}" for value in values]

    quote = on("docs/results.md", "approximation-criterion")
    quote("(at l_S = 3, {}, {} and {} % for d = 1, 3, 5", *percent(long["space"]))
    quote(
        "(at l_S = 0.15, {}, {} and {} % against {}, {} and {} %)",
        *percent(short["deviation"]),
        *percent(short["space"]),
    )
    quote("in only {} % of the datasets", f"{100 * data('approximation-criterion')['first'].mean():.0f}")
    ranks = ends(data("approximation-criterion")["rank"])
    real = ends(data("approximation-ranks").set_index("elapsed_s").median())
    for page in ("docs/results.md", "docs/limitations.md"):
        on(page, "approximation-criterion")("{} to {} on draws", *ranks)
    on("docs/results.md", "approximation-ranks")("{} to {} (Eggholder", *real)
    on("docs/limitations.md", "approximation-ranks")("{} to {} on what W-DBO holds", *real)
    quote = on("docs/paper.md", "approximation-criterion")
    quote("rank correlation {} to {}", *ranks)
    quote("at l_S = 0.15: {}, {}, {} %", *percent(short["bound"]))
    quote("at l_S = 3: {}, {}, {} %", *percent(long["bound"]))
    space = data("approximation-space")
    quote = on("docs/paper.md", "approximation-space")
    quote("critical {}, {}, {};", *(f"{value:.3f}" for value in space["critical"]))
    quote("steps of 2 %, at {}, {}, {}", *(f"{value:.3f}" for value in space["peak"]))
    quote("at most {} % for d = 1, {} % for d = 3, {} % for d = 5", *percent(space["largest_relative"]))


def what_speed_buys() -> None:
    runs = data("own-pace").set_index(["engine", "benchmark"])
    now, before = runs.loc["now"], runs.loc["before"]
    often = [word(float(end)) for end in ends(now["queries"] / before["queries"], ".0f")]
    lost = ends(now["average_regret"] / before["average_regret"])
    quote = on("docs/paper.md", "own-pace")
    quote("{} to {} times the sampling frequency has {} to {} times the regret", *often, *lost)
    kept, response = f"{now['median_n'].median():.0f}", ends(now["mean_response_ms"], ".0f")
    quote("keeps the {} observations that `max_active` allows, and a query takes {} to {} ms", kept, *response)


def variants() -> None:
    quote = on("docs/results.md", "variants")
    lines = data("variants").set_index(["problem", "algorithm"])
    known, errors = lines["mean"].unstack(), lines["error"].unstack()
    theirs = paper.AVERAGE_REGRET["w-dbo"].reindex(known.index)
    met = known.le(theirs, axis=0).sum()
    quote("on {} of the eleven instead of {}", word(met["ResponseBudget"]), word(met["w-dbo"]))
    ratios = known["ResponseBudget"] / known["w-dbo"]
    quote("its regret is {} of what it was on average", f"{np.exp(np.log(ratios).mean()):.2f}")
    greedy, weighted, quiet = (f"ResponseBudget, {what}" for what in ("β / 4", "weighted mean", "noise / 5"))
    quote("Rastrigin is at {} (the paper: {})", f"{known.at['rastrigin', greedy]:.0f}", f"{theirs['rastrigin']:.0f}")
    quote(
        "Rastrigin is at {} and Schwefel at {} ± {} ({})",
        *(f"{known.at[name, weighted]:.0f}" for name in ("rastrigin", "schwefel")),
        f"{errors.at['schwefel', weighted]:.0f}",
        f"{theirs['schwefel']:.0f}",
    )
    columns = ("noise of the variance", "w-dbo", "ResponseBudget", quiet)
    quote(
        "W-DBO is at {}, with that of the deviation at {}, when it counts what memory costs at {}, and with a fifth of "
        "that noise at {} ({})",
        *(f"{known.at['rosenbrock', column]:.1f}" for column in columns),
        f"{theirs['rosenbrock']:.1f}",
    )


# --- the paper's statements ---------------------------------------------------------------------------------------


def found(table: str, name: str, column: object) -> float:
    return float(row("discussion", table=table, row=name, column=str(column))["value"])


def statements() -> None:
    quote = on("docs/paper.md", "sensitivity")
    alphas = means("average_regret", "sensitivity").loc["eggholder"]
    quote("regret {} at α = 0, {} at ¼, {} at 1", *(f"{alphas[alpha]:.0f}" for alpha in ("0", "0.25", "1")))
    by_alpha = averages("sensitivity", list(alphas.index))
    quote("average {} at α = 0, which never forgets, {} at ¼", f"{by_alpha['0']:.2f}", f"{by_alpha['0.25']:.2f}")
    quote("keeps falling: {} at ½, {} at 1", f"{by_alpha['0.5']:.2f}", f"{by_alpha['1']:.2f}")

    quote = on("docs/paper.md", "table")
    quote("normalised average {}; next TV-GP-UCB {}", *average("w-dbo", "tv-gp-ucb"))
    ratios = overall().loc[[name for name in SIX if name != "w-dbo"]]
    quote("{} (R-GP-UCB) to {} (ABO) times as large", *ends(ratios["ratio"]))
    p = ratios["p"]
    quote(
        "p is {} for TV-GP-UCB, and at most {} for the others",
        *(f"{value:.3f}" for value in (p["tv-gp-ucb"], p.drop("tv-gp-ucb").max())),
    )
    compared = statistics.compare(data("table"), "average_regret")
    lowest, near = compared.means[SIX].idxmin(axis=1) == "w-dbo", compared.overlapping(SIX)["w-dbo"]
    quote("lowest of the six on {} of twelve", word(lowest.sum()))
    quote("within the error of the lowest on {} more", word((near & ~lowest).sum()))
    quote("GP-UCB {}, ET-GP-UCB {}, ABO {}", *average("gp-ucb", "et-gp-ucb", "abo"))
    quote("{} and {} against {}", *average("r-gp-ucb", "tv-gp-ucb", "gp-ucb"))
    quote(
        "{} ± {} at the end (the paper: {})",
        regret("ackley"),
        error("ackley"),
        f"{paper.AVERAGE_REGRET.at['ackley', 'w-dbo']:g}",
    )
    quote("{} against {}, {}, {}.", *average("gp-ucb", "r-gp-ucb", "tv-gp-ucb", "w-dbo"))
    quote("{} against {} and {} |", *average("gp-ucb", "abo", "et-gp-ucb"))
    response, queries = means("response_s"), means("queries")
    quote("{} s per query on average", f"{response['gp-ucb'].mean():.2f}")
    quote("{} queries, W-DBO {} to {}", f"{queries['gp-ucb'].mean():.0f}", *ends(queries["w-dbo"], ",.0f"))
    weighted = averages(measure="time_weighted_regret")
    quote("{}, last; by time-weighted regret {}", *average("abo"), f"{weighted['abo']:.2f}")
    slow, timescale = ["powell", "rosenbrock", "styblinski-tang"], means("timescale_s")["w-dbo"]
    quote(
        "on Powell ({} s), Rosenbrock ({} s) and Styblinski-Tang ({} s)", *(f"{timescale[name]:,.0f}" for name in slow)
    )
    regrets = means("average_regret")
    quote(
        "ABO makes {}, {} and {} queries and has {}, {} and {} times",
        *(f"{queries.at[name, 'abo']:.0f}" for name in slow),
        *(f"{regrets.at[name, 'abo'] / regrets.at[name, 'w-dbo']:.1f}" for name in slow),
    )
    quote("on Eggholder ({}), in the middle on Shekel ({})", regret("eggholder", "abo"), regret("shekel", "abo"))
    quote("lowest regret of the six: {}, W-DBO {}", regret("powell", "et-gp-ucb"), regret("powell"))
    quote("| on {} of twelve |", word((regrets["r-gp-ucb"] < regrets["gp-ucb"]).sum()))
    quote("{} to {} s; ABO {} to {} s", *ends(response["r-gp-ucb"]), *ends(response["abo"]))
    quote(
        "second after W-DBO on all three ({}, {} and {})",
        *(regret("eggholder", "r-gp-ucb", ".0f"), regret("hartmann3", "r-gp-ucb", ".2f")),
        regret("temperature", "r-gp-ucb", ".2f"),
    )
    quote("{}, second |", *average("tv-gp-ucb"))
    quote("| {} s |", f"{response['tv-gp-ucb'].mean():.2f}")
    quote("{} to {} s, between", *ends(response["w-dbo"]))
    discussion()


def discussion() -> None:
    """What only the runs themselves tell, by `perf/discussion.py`."""
    quote = on("docs/paper.md", "discussion")
    seeds = {name: f"{found('ackley found', 'seeds', name):.0f}" for name in SIX}
    quote("{} (GP-UCB), {} (ET-GP-UCB) and {} (ABO)", *(seeds[name] for name in ("gp-ucb", "et-gp-ucb", "abo")))
    quote("TV-GP-UCB finds it in {} of 10, and R-GP-UCB in {}", seeds["tv-gp-ucb"], seeds["r-gp-ucb"])
    quote("{} of 10 seeds; average", seeds["w-dbo"])
    quote("from {} at 200 s to {} at 400 s", *(f"{found('ackley regret', 'gp-ucb', at):.1f}" for at in (200, 400)))
    quote("regret {} at 200 s, {} at 400 s,", *(f"{found('ackley regret', 'w-dbo', at):.1f}" for at in (200, 400)))
    size = {at: f"{found('ackley size', 'w-dbo', at):.0f}" for at in (100, 200, 300, 400, 500, 600)}
    quote("{} observations at 100 s, {} at 200 s, {} at 300 s", size[100], size[200], size[300])
    quote("falls from {} at 300 s to {} at 400 s", size[300], size[400])
    quote("{} at 400 s, {} at 500 s, {} at 600 s", size[400], size[500], size[600])
    sudden = ("ackley", "shekel", "temperature", "eggholder")
    drop = {problem: f"{found('drops', 'drop', problem):.0f}" for problem in sudden}
    quote("within 60 s is {} %", drop["ackley"])
    quote("within 60 s: {}, {} and {} %, Eggholder {} %", *drop.values())
    quote("{} % and {} % of all it was told", *(f"{found('drops', 'held', p):.0f}" for p in ("powell", "rosenbrock")))
    reset = {problem: found("resets", "et-gp-ucb", problem) for problem in ("hartmann6", "ackley", "shekel", "powell")}
    often = f"{reset['hartmann6']:.1f}", f"{reset['ackley']:.1f}", f"{reset['shekel']:.0f}"
    quote("resets per run: {} on Hartmann6, {} on Ackley, but {} on Shekel", *often)
    quote("{} resets per run, and", f"{reset['powell']:.1f}")
    for problem in ("Shekel", "Ackley", "Powell", "Hartmann6"):
        shares = [f"{found('noise', problem.lower(), moment):.0f}" for moment in (60, 150, 300, 600)]
        quote(f"{problem} {{}}, {{}}, {{}}, {{}} %", *shares)
    first, second = data("videos")[["removed", "told"]].to_numpy()
    on("docs/paper.md", "videos")("{} of {} and {} of {} observations removed", *map(str, [*first, *second]))
    budgets = data("budget")
    exponents = budgets["duration_s"] / budgets["timescale_s"]
    quote = on("docs/paper.md", "budget")
    quote("{} to {} (the paper: 3/5)", *ends(1.0 / exponents))
    quote("D/l_T of {} to {} for durations", *ends(exponents))
    quote("the budgets are {} to {}", *ends(budgets["grown"], ".1f"))
    quote("10^{}, 10^{}, 10^{} |", *(f"{seconds * np.log10(1.25):.0f}" for seconds in budgets["duration_s"]))


for collect in (
    performance,
    world,
    service,
    calibrations,
    integrations,
    the_table,
    approximation,
    what_speed_buys,
    variants,
    statements,
):
    collect()

# Numbers on the pages of results that are not measured: versions, settings, limits, the paper's own.
SETTINGS: dict[str, tuple[str, ...]] = {
    "README.md": ("3.11",),
    "docs/botorch.md": (),
    "docs/optuna.md": (),
    "docs/comparison.md": ("5.0", "0.18", "3.2"),
    "docs/dashboard.md": ("100,000",),
    "docs/limitations.md": ("2,000",),
    "docs/paper.md": ("5.1", "5.2", "0.05", "0.25", "0.15", "1,800", "0.1", "0.5", "0.8"),
    "docs/performance.md": ("3.11", "2.4", "1.17", "1.0.7", "5.0", "0.18", "2.13", "3.4", "1.3"),
    "docs/results.md": ("0.13", "4.5", "0.001", "0.9", "0.004", "0.2", "0.05", "0.25", "4.1", "0.15"),
    "docs/service.md": ("10,000", "2,000", "1,000", "1,024", "65,536", "0.3"),
}
