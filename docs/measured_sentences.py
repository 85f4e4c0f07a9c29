"""The measured numbers in the sentences of the pages: the words around each, with holes, and what docs/data says.

Keep the words few, so that a page can be reworded; `python docs/measured.py` says which are no longer found.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from measured_tables import average, averages, data, error, mean, means, overall, regret

from ebbtide import benchmarks
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


def tide() -> None:
    clean = row("values", case="clean")
    on("README.md", "values")(
        "has {} of W-DBO's regret ({} to {})", f"{clean['mean']:.2f}", f"{clean['low']:.2f}", f"{clean['high']:.2f}"
    )


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
    on("docs/guide/long-runs.md", "soak-outside-9")("[in {} tells]", f"{data('soak-outside-9')['told'].max():,}")
    asked = data("soak-outside-0").iloc[-1]
    on(page, "soak-outside-0")("ended after {})", f"{asked['told']:,.0f}")
    on(page, "soak-outside-0")(
        "the server stayed at {} MB and its workers at {} MB", f"{asked['server_mb']:.0f}", f"{asked['workers_mb']:.0f}"
    )
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
    minutes = data("table")["wall_s"].sum() / 2.0 / 60.0  # on two cores
    quote("{} runs, ten seeds, in {} minutes", f"{len(data('table'))}", f"{minutes:.0f}")
    quote("The {} runs of the table took {} minutes", f"{len(data('table'))}", f"{minutes:.0f}")
    quote("slowest single run took {} s", f"{data('table')['wall_s'].max():.0f}")
    quote("{} against {} for TV-GP-UCB, {} for R-GP-UCB", *average("w-dbo", "tv-gp-ucb", "r-gp-ucb"))
    theirs = statistics.normalised(paper.AVERAGE_REGRET).mean()
    quote("(the paper: {}, {}, {})", *(f"{theirs[name]:.2f}" for name in ("w-dbo", "tv-gp-ucb", "r-gp-ucb")))
    compared = statistics.compare(data("table"), "average_regret")
    lowest = compared.means[SIX].idxmin(axis=1) == "w-dbo"
    near = compared.overlapping(SIX)["w-dbo"]
    quote("best of the six on {} benchmarks", word(lowest.sum()))
    quote("overlaps the best on the other {}", word((near & ~lowest).sum()))
    quote("on Temperature {} observations", mean("size", "temperature", "r-gp-ucb"))
    quote("buys {} queries", mean("queries", "temperature", "r-gp-ucb"))
    quote("has {} queries to W-DBO's {}", mean("queries", "powell", "r-gp-ucb"), mean("queries", "powell"))
    quote("with {} queries against {}", mean("queries", "rastrigin", "abo"), mean("queries", "rastrigin"))
    errors = compared.errors.loc["rastrigin"]
    quote("its error is {} times as large as W-DBO's", word(errors["abo"] / errors["w-dbo"]))
    same = (compared.means["gp-ucb"] - compared.means["et-gp-ucb"]).abs() < 1e-9
    quote("the same here on {} of twelve", word(same.sum()))
    ratios = (compared.means["w-dbo"] / paper.AVERAGE_REGRET["w-dbo"]).drop("wlan")  # which is in another unit
    far = ratios[ratios >= 2.0]
    quote(
        "W-DBO's regret is {} to {} times the paper's on {} benchmarks",
        *(word(number) for number in (far.min(), far.max(), len(far))),
    )
    missed = data("table").query("problem == 'ackley' and algorithm == 'w-dbo' and average_regret > 5.0")
    quote("{} of ten seeds still miss the hole", word(len(missed)))
    on("docs/limitations.md", "table")("on Ackley {} of ten seeds", word(len(missed)))
    late = statistics.compare(data("table").query("seed >= 3"), "average_regret").means
    unseen = statistics.normalised(late, SIX).mean()
    quote("{} for W-DBO and {} for TV-GP-UCB", f"{unseen['w-dbo']:.2f}", f"{unseen['tv-gp-ucb']:.2f}")
    exact, sizes = overall().loc["w-dbo-exact"], means("size")["w-dbo-exact"] / means("size")["w-dbo"]
    quote("Its regret is {} times W-DBO's", f"{exact['ratio']:.2f}")
    quote("Wilcoxon's p = {}", f"{exact['p']:.2f}")
    quote("its dataset {} times", f"{sizes.mean():.2f}")
    quote = on("docs/results.md", "table", "pilot")
    pilot = data("pilot").set_index(["problem", "algorithm"])
    quote("had W-DBO at {}", f"{pilot.at[('normalised average', 'w-dbo'), 'mean']:.2f}")
    quote("at {} ± {}, last of the six", *(f"{pilot.at[('ackley', 'w-dbo'), c]:.2f}" for c in ("mean", "error")))
    quote("Ackley's regret fell to {} ± {}", regret("ackley"), error("ackley"))
    before = f"{pilot.at[('normalised average', 'tv-gp-ucb'), 'mean']:.2f}"
    quote("({} in the pilot, {} now)", before, *average("tv-gp-ucb"))
    minutes = data("sensitivity").query("algorithm != '0.25'")["wall_s"].sum() / 2.0 / 60.0
    shared = len(data("sensitivity").query("algorithm == '0.25'"))
    quote = on("docs/results.md", "sensitivity")
    quote(
        "({} runs, of which the table had made {}) took {} minutes",
        *(f"{number:.0f}" for number in (len(data("sensitivity")), shared, minutes)),
    )


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
    known = data("variants").set_index(["problem", "algorithm"])["mean"].unstack()
    theirs = paper.AVERAGE_REGRET["w-dbo"]
    near = (known["both"] / theirs.reindex(known.index)).drop("normalised average", errors="ignore") <= 2.0
    quote("on {} of the eleven", word(near.sum()))
    quote(
        "(Rosenbrock {} and the paper {}, Powell {} and {}, Ackley {} and {})",
        *(f"{known.at['rosenbrock', 'both']:.0f}", f"{theirs['rosenbrock']:.0f}"),
        *(f"{known.at['powell', 'both']:.0f}", f"{theirs['powell']:.0f}"),
        *(f"{known.at['ackley', 'both']:.1f}", f"{theirs['ackley']:.1f}"),
    )
    rastrigin, ackley = known.loc["rastrigin"], known.loc["ackley"]
    quote(
        "brings Rastrigin from {} to {} (the paper: {}), Ackley from {} to {}",
        *(f"{rastrigin['w-dbo']:.0f}", f"{rastrigin['β / 4']:.0f}", f"{theirs['rastrigin']:.0f}"),
        *(f"{ackley['w-dbo']:.1f}", f"{ackley['β / 4']:.1f}"),
    )
    quote("Schwefel ({} at best, the paper: {})", f"{known.loc['schwefel'].min():.0f}", f"{theirs['schwefel']:.0f}")
    rosenbrock = benchmarks.get("rosenbrock")
    quote("a noise of deviation {}", f"{rosenbrock.noise_std:.0f}")
    middle = np.median([rosenbrock.optimum(t) for t in np.linspace(0.0, 1.0, 201)])
    quote("between −{} and 0 for half of the run", f"{-middle:.1f}")


# --- the paper's statements ---------------------------------------------------------------------------------------


def found(table: str, name: str, column: object) -> float:
    return float(row("discussion", table=table, row=name, column=str(column))["value"])


def statements() -> None:
    quote = on("docs/paper.md", "sensitivity")
    alphas = means("average_regret", "sensitivity").loc["eggholder"]
    few = ends(alphas[["0.05", "0.1", "0.25"]], ".0f")
    quote("regret {} at α = 0, {} to {} from 0.05 to 0.25, {} at 1", f"{alphas['0']:.0f}", *few, f"{alphas['1']:.0f}")
    by_alpha = averages("sensitivity", list(alphas.index))
    quote("average {} at α = 0, which never forgets, {} at ¼", f"{by_alpha['0']:.2f}", f"{by_alpha['0.25']:.2f}")
    quote("keeps falling: {} at ½, {} at 1", f"{by_alpha['0.5']:.2f}", f"{by_alpha['1']:.2f}")

    quote = on("docs/paper.md", "table")
    quote("normalised average {}; next TV-GP-UCB {}", *average("w-dbo", "tv-gp-ucb"))
    ratios = overall().loc[[name for name in SIX if name != "w-dbo"]]
    quote("{} (TV-GP-UCB) to {} (ABO) times as large", *ends(ratios["ratio"]))
    p = ratios["p"]
    others = p.drop(["tv-gp-ucb", "r-gp-ucb"]).max()
    quote(
        "p is {} for TV-GP-UCB, {} for R-GP-UCB, {} for the others",
        *(f"{value:.3f}" for value in (p["tv-gp-ucb"], p["r-gp-ucb"], others)),
    )
    lowest = means("average_regret")[SIX].idxmin(axis=1) == "w-dbo"
    quote("lowest of the six on {} of twelve", word(lowest.sum()))
    quote("{}, {}; ABO {}", *average("gp-ucb", "et-gp-ucb", "abo"))
    quote("{} and {} against {}", *average("r-gp-ucb", "tv-gp-ucb", "gp-ucb"))
    quote("the lowest regret, {}", regret("ackley", "tv-gp-ucb"))
    quote(
        "{} ± {} at the end (the paper: {})",
        regret("ackley"),
        error("ackley"),
        f"{paper.AVERAGE_REGRET.at['ackley', 'w-dbo']:g}",
    )
    seeds = data("table").query("problem == 'ackley' and algorithm == 'w-dbo'")["average_regret"]
    finds, misses = (f"{seeds[seeds.gt(5.0) == missed].median():.1f}" for missed in (False, True))
    quote("ends near {}, one that does not near {}", finds, misses)
    quote("{} against {}, {}, {}.", *average("gp-ucb", "r-gp-ucb", "tv-gp-ucb", "w-dbo"))
    quote("{} against {} and {} |", *average("gp-ucb", "abo", "et-gp-ucb"))
    response, queries = means("response_s"), means("queries")
    quote("{} s per query on average", f"{response['gp-ucb'].mean():.2f}")
    quote("{} queries, W-DBO {} to {}", f"{queries['gp-ucb'].mean():.0f}", *ends(queries["w-dbo"], ".0f"))
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
    quote("({} and {}). It is competitive", regret("eggholder", "abo"), regret("shekel", "abo"))
    quote("{} against GP-UCB's {}", regret("powell", "et-gp-ucb"), regret("powell", "gp-ucb"))
    quote("TV-GP-UCB have {} to {}", *ends(regrets.loc["powell", ["r-gp-ucb", "w-dbo", "tv-gp-ucb"]], ",.0f"))
    quote("on {} of twelve |", word((regrets["r-gp-ucb"] < regrets["gp-ucb"]).sum()))
    quote("{} to {} s; ABO {} to {} s", *ends(response["r-gp-ucb"]), *ends(response["abo"]))
    quote(
        "first there ({}), second on Eggholder ({}) and Hartmann3 ({})",
        *(regret("temperature", "r-gp-ucb", ".2f"), regret("eggholder", "r-gp-ucb", ".0f")),
        regret("hartmann3", "r-gp-ucb", ".2f"),
    )
    quote("{}, second |", *average("tv-gp-ucb"))
    quote("| {} s |", f"{response['tv-gp-ucb'].mean():.2f}")
    quote("{} to {} s, between", *ends(response["w-dbo"]))
    discussion()


def discussion() -> None:
    """What only the runs themselves tell, by `perf/discussion.py`."""
    quote = on("docs/paper.md", "discussion")
    seeds = {name: f"{found('ackley found', 'seeds', name):.0f}" for name in SIX}
    quote("{} (GP-UCB, ET-GP-UCB, ABO) and {} (R-GP-UCB)", seeds["gp-ucb"], seeds["r-gp-ucb"])
    quote("finds it in {} of 10", seeds["tv-gp-ucb"])
    quote("{} of 10; average", seeds["w-dbo"])
    quote("from {} at 200 s to {} at 400 s", *(f"{found('ackley regret', 'gp-ucb', at):.1f}" for at in (200, 400)))
    quote("regret {} at 200 s, {} at 400 s,", *(f"{found('ackley regret', 'w-dbo', at):.1f}" for at in (200, 400)))
    size = {at: f"{found('ackley size', 'w-dbo', at):.0f}" for at in (100, 200, 300, 350, 400, 500, 600)}
    quote("{} observations at 100 s, {} at 200 s, {} at 300 s", size[100], size[200], size[300])
    quote("from 300 to 400 s ({}, {}, {})", size[300], size[350], size[400])
    quote("{} at 400 s, {} at 500 s, {} at 600 s", size[400], size[500], size[600])
    sudden = ("ackley", "shekel", "temperature", "eggholder")
    drop = {problem: f"{found('drops', 'drop', problem):.0f}" for problem in sudden}
    quote("within 60 s is {} %", drop["ackley"])
    quote("within 60 s: {}, {} and {} %, Eggholder {} %", *drop.values())
    quote("{} % and {} % of all it was told", *(f"{found('drops', 'held', p):.0f}" for p in ("powell", "rosenbrock")))
    quote("{} resets per run", f"{found('resets', 'et-gp-ucb', 'powell'):.1f}")
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
    tide,
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
    "docs/results.md": ("0.9", "0.004", "0.2", "0.6", "0.05", "0.25", "4.1", "0.15", "1,000", "0.225", "0.001"),
    "docs/service.md": ("10,000", "2,000", "1,000", "1,024", "65,536", "0.3"),
}
