"""The tables of the pages, each made from files of docs/data. `measured.py` holds the pages to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import measured_arenas
import measured_live
import numpy as np
import pandas as pd
from scipy.stats import t as student
from scipy.stats import wilcoxon

from ebbtide import benchmarks
from ebbtide.experiments import paper, statistics
from ebbtide.experiments.reproduction import sensitivity, table
from ebbtide.experiments.tables import Table as Printed
from ebbtide.experiments.tables import regret_table, short, value_table, with_error

DATA = Path(__file__).parent / "data"
EIGHT = [*paper.ALGORITHMS, *table.OURS]
Rows = list[list[str]]


@dataclass(frozen=True)
class Table:
    """Which files a table is made from, and the text of its cells; `header` if its columns depend on the data."""

    data: tuple[str, ...]
    rows: Callable[[], Rows]
    header: Callable[[], list[str]] | None = None


@cache
def data(name: str) -> pd.DataFrame:
    return pd.read_csv(DATA / f"{name}.csv", dtype={"algorithm": str, "column": str, "row": str})


def ms(value: float) -> str:
    """Milliseconds: two decimals below one, one below a hundred, none above."""
    if np.isnan(value):
        return "–"
    return f"{value:,.2f}" if value < 0.995 else f"{value:,.1f}" if value < 99.95 else f"{value:,.0f}"


def each(name: str, *formats: str) -> Table:
    """A row for each line of a file, its columns formatted one by one."""

    def rows() -> Rows:
        columns = [data(name)[column] for column in data(name).columns]
        return [[f.format(v) for f, v in zip(formats, line, strict=False)] for line in zip(*columns, strict=True)]

    return Table((name,), rows)


# --- speed --------------------------------------------------------------------------------------------------------


def steps(libraries: list[str]) -> Callable[[], Rows]:
    """A line for each n, a column for each library; in brackets how many times ebbtide's a peer's time is."""
    ours = ("ebbtide", "ebbtide mean", "ebbtide exact", "LAPACK inverse")

    def rows() -> Rows:
        known = data("steps").set_index(["n", "library"])
        return [[str(n), *(cell(known, n, library) for library in libraries)] for n in data("steps")["n"].unique()]

    def cell(known: pd.DataFrame, n: int, library: str) -> str:
        if (n, library) not in known.index:
            return "–"
        line = known.loc[(n, library)]
        text = ms(line["ms"])
        return f"**{text}**" if library == "ebbtide" else text if library in ours else f"{text} ({line['ratio']:,.0f}×)"

    return rows


PEERS = ["wdbo-algo", "Optuna GPSampler", "BoTorch SingleTaskGP + UCB", "bayesian-optimization"]


def criterion() -> Rows:
    def cells(line: pd.Series) -> list[str]:
        ratio = "–" if np.isnan(line["ratio"]) else f"{line['ratio']:,.0f}×"
        times = f"**{ms(line['ebbtide_ms'])}**", ms(line["exact_ms"]), ms(line["theirs_ms"])
        return [f"{line['d']:.0f}", f"{line['n']:.0f}", *times, ratio]

    return [cells(line) for _, line in data("criterion").iterrows()]


def targets() -> Rows:
    return [
        [line.figure, f"**{line.measured:,.1f}**", f"{line.sign} {line.must:g}", f"{line.sign} {line.aim:g}"]
        for line in data("targets").itertuples()
    ]


def consecutive() -> Rows:
    return [
        [
            line.figure,
            f"**{line.measured:.2f}**",
            *("" if pd.isna(bound) else f"{bound:g}" for bound in (line.must, line.aim)),
        ]
        for line in data("consecutive").itertuples()
    ]


def own_pace() -> Rows:
    """A line for each benchmark, with before → now in each cell."""
    columns = {"queries": ",.0f", "median_n": ".0f", "mean_response_ms": ".0f"}
    regrets = ("average_regret", "time_weighted_regret")
    by = data("own-pace").set_index(["benchmark", "engine"])

    def cells(name: str) -> Rows:
        before, now = by.loc[(name, "before")], by.loc[(name, "now")]
        changes = [f"{before[column]:{f}} → {now[column]:{f}}" for column, f in columns.items()]
        return [[name, *changes, *(f"{before[r]:.3g} → **{now[r]:.3g}**" for r in regrets)]]

    return [row for name in data("own-pace")["benchmark"].unique() for row in cells(name)]


def throughput() -> Rows:
    return [
        [
            f"{line.n:.0f}",
            f"{line.service_per_second:.0f}",
            f"{line.bare_per_second:.0f}",
            f"**{line.share:.2f}**",
            f"{line.p50_ms:.0f}",
        ]
        for line in data("throughput").itertuples()
    ]


def long_run() -> Rows:
    return [
        [
            f"{line['from']:.0f}–{line['to']:.0f}",
            *(f"{line[c]:.2f}" for c in ("median_ms", "p99_ms")),
            *(f"{line['active']:.0f}", f"{line['regret']:.3f}", f"{line['timescale_s']:.0f}"),
        ]
        for _, line in data("long-run").iterrows()
    ]


# --- the service and the integrations -----------------------------------------------------------------------------


RESUME = ("{:,}", "{:,}", "{}", "{:.1f}", "{:.1f}", "{:.1f}", "{:.0f}", "{:.0f}")  # milliseconds


def load(file: str) -> Table:
    """Requests, and the commits beside them."""

    def rows() -> Rows:
        busy = data(file).dropna(subset="per_second")
        return [
            [line.request, f"{line.per_second:.0f}", f"{line.p50_ms:.1f}", f"{line.p99_ms:.1f}"]
            for line in busy.itertuples()
        ]

    return Table((file,), rows)


def botorch_loop() -> Rows:
    return [
        [
            *(line.loop, f"{line.queries:.0f}", f"{line.kept:.0f}", f"{line.response_ms:,.0f}"),
            *(f"{line.last_tenth_ms:,.0f}", f"{line.regret:.3f} ± {line.error:.3f}"),
        ]
        for line in data("botorch-loop").itertuples()
    ]


def optuna_samplers() -> Rows:
    return [
        [
            *(line.benchmark, line.sampler, f"{line.trials:.0f}", f"{line.ask_ms:.1f}", f"{line.last_tenth_ms:.1f}"),
            f"{line.regret:.3g} ± {line.error:.2g}",
        ]
        for line in data("optuna-samplers").itertuples()
    ]


# --- real systems -------------------------------------------------------------------------------------------------


def live(name: str) -> Table:
    return Table((name,), lambda: measured_live.rows(data(name)), lambda: measured_live.header(data(name)))


# --- the paper ----------------------------------------------------------------------------------------------------


def means(measure: str, name: str = "table") -> pd.DataFrame:
    return statistics.compare(data(name), measure).means


def averages(name: str = "table", among: list[str] | None = None, measure: str = "average_regret") -> pd.Series:
    """Normalised to 0 for the best and 1 for the worst of some algorithms on each benchmark, then averaged."""
    return statistics.normalised(means(measure, name), among or list(paper.ALGORITHMS)).mean()


def regret(problem: str, algorithm: str = "w-dbo", form: str | None = None) -> str:
    """A mean of the table, in its own precision or in another."""
    compared = statistics.compare(data("table"), "average_regret")
    mean, error = (frame.at[problem, algorithm] for frame in (compared.means, compared.errors))
    return with_error(mean, error).partition(" ±")[0] if form is None else format(mean, form)


def error(problem: str, algorithm: str = "w-dbo") -> str:
    compared = statistics.compare(data("table"), "average_regret")
    return with_error(compared.means.at[problem, algorithm], compared.errors.at[problem, algorithm]).partition("± ")[2]


def average(*names: str) -> tuple[str, ...]:
    found = averages()
    return tuple(f"{found[name]:.2f}" for name in names)


def printed(file: str, make: Callable[[], Printed]) -> Table:
    def rows() -> Rows:
        lines = make().markdown().splitlines()[2:]
        return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]

    return Table((file,), rows, lambda: make().header)


def regrets(name: str, measure: str = "average_regret", published: pd.DataFrame | None = None) -> Table:
    def make() -> Printed:
        main = [f"{alpha:g}" for alpha in sensitivity.ALPHAS] if name == "sensitivity" else list(paper.ALGORITHMS)
        return regret_table(statistics.compare(data(name), measure), "", main=main, published=published)

    return printed(name, make)


def values(measure: str) -> Table:
    return printed("table", lambda: value_table(means(measure), ""))


READINGS = {"deviation": "table", "variance": "table-variance"}


def readings() -> Rows:
    """What of the paper's table is met under each reading of its noise."""
    runs = [data(file) for file in READINGS.values()]
    return [[figure, *(of(each) for each in runs)] for figure, of in AGREEMENT.items()]


def regret_means(runs: pd.DataFrame) -> pd.DataFrame:
    return statistics.compare(runs, "average_regret").means


def distance(runs: pd.DataFrame, names: list[str]) -> str:
    """By which factor regrets are above or below the paper's: geometric mean. WLAN is in another unit."""
    logs = np.log(regret_means(runs)[names] / paper.AVERAGE_REGRET[names]).drop("wlan")
    return f"{np.exp(logs.abs().mean(axis=None)):.2f}"


def at_most(runs: pd.DataFrame, name: str) -> str:
    below = regret_means(runs)[name].le(paper.AVERAGE_REGRET["w-dbo"]).drop("wlan")
    return f"{below.sum()} of {len(below)}"


def lowest(runs: pd.DataFrame, name: str) -> str:
    best = regret_means(runs)[list(paper.ALGORITHMS)].idxmin(axis=1)
    return f"{(best == name).sum()} of {len(best)}"


def tide_ratio(runs: pd.DataFrame, measure: str = "average_regret") -> str:
    mean, low, high = statistics.geometric(statistics.relative(runs, "w-dbo", measure)["tide"])
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


AGREEMENT: dict[str, Callable[[pd.DataFrame], str]] = {
    "W-DBO: by what factor its regret is off the paper's": lambda runs: distance(runs, ["w-dbo"]),
    "all six algorithms: the same": lambda runs: distance(runs, list(paper.ALGORITHMS)),
    "W-DBO at or below the paper's": lambda runs: at_most(runs, "w-dbo"),
    "`tide` at or below the paper's W-DBO": lambda runs: at_most(runs, "tide"),
    "W-DBO lowest of the six": lambda runs: lowest(runs, "w-dbo"),
    "`tide`'s regret / W-DBO's": tide_ratio,
    "the same, time-weighted": lambda runs: tide_ratio(runs, "time_weighted_regret"),
}


def controls() -> Rows:
    """A line for each of ours and each rival: the ratio of the regrets on each benchmark, and over all."""
    found = data("controls").query("measure == 'average_regret'")
    return [
        [ours, rival, *_ratios(lines.set_index("problem"))]
        for (ours, rival), lines in found.groupby(["ours", "rival"], sort=False)
    ]


def _ratios(lines: pd.DataFrame) -> list[str]:
    whole = lines.loc["all"]
    each_ = [f"{lines.at[problem, 'ratio']:.2f}" for problem in benchmarks.PAPER]
    return [*each_, f"**{whole['ratio']:.2f}**", f"{whole['low']:.2f} to {whole['high']:.2f}", p_of(whole)]


def controls_header() -> list[str]:
    return ["", "/", *benchmarks.PAPER, "all", "95 % interval", "p"]


def p_of(line: pd.Series) -> str:
    return "< 0.001" if line["p"] < 0.001 else f"{line['p']:.2g}"


def readme_averages() -> Rows:
    found = averages(among=EIGHT)
    return [[f"**{found[name]:.2f}**" if name == found.idxmin() else f"{found[name]:.2f}" for name in EIGHT]]


@cache
def relative() -> pd.DataFrame:
    """Logarithms of the regrets, relative to W-DBO's under the same seed."""
    return statistics.relative(data("table"), to="w-dbo")


def overall() -> pd.DataFrame:
    """Of each algorithm: its regret relative to W-DBO's, geometric mean over the benchmarks, and Wilcoxon's p."""
    by_problem = relative().groupby("problem").mean().drop(columns="w-dbo")
    tested = {name: wilcoxon(by_problem[name]).pvalue for name in by_problem}
    return pd.DataFrame({"ratio": np.exp(by_problem.mean()), "p": pd.Series(tested)})


def exact() -> Rows:
    """`w-dbo-exact` relative to `w-dbo`: its regret with the 95 % interval, its dataset's size."""
    ratios = relative()["w-dbo-exact"].groupby("problem")
    half = student.ppf(0.975, ratios.size() - 1) * ratios.sem()
    sizes = means("size")["w-dbo-exact"] / means("size")["w-dbo"]
    lines = {
        "regret": np.exp(ratios.mean()),
        "from": np.exp(ratios.mean() - half),
        "to": np.exp(ratios.mean() + half),
        "size": sizes,
    }
    return [[name, *(f"{line[problem]:.2f}" for problem in benchmarks.PAPER)] for name, line in lines.items()]


def spread(line: pd.Series) -> str:
    return f"{short(line['mean'])} ± {short(line['error'])}"


def variants_header() -> list[str]:
    columns = [name if name != "w-dbo" else "as above" for name in data("variants")["algorithm"].unique()]
    return ["W-DBO on", *columns, "the paper"]


def variants() -> Rows:
    known = data("variants").set_index(["problem", "algorithm"])
    columns = list(data("variants")["algorithm"].unique())
    problems = [name for name in data("variants")["problem"].unique() if name in benchmarks.PAPER]
    return [
        [
            problem,
            *(spread(known.loc[(problem, column)]) for column in columns),
            f"{paper.AVERAGE_REGRET.at[problem, 'w-dbo']:g}",
        ]
        for problem in problems
    ]


def inference() -> Rows:
    rows = []
    for problem, lines in data("inference").groupby("problem", sort=False):
        best = lines["mean"].idxmin()
        if problem == "normalised average":
            rows.append(["*normalised average*", *(f"{mean:.2f}" for mean in lines["mean"])])
        else:
            cells = [(spread(line), i == best) for i, line in lines.iterrows()]
            rows.append([str(problem), *(f"**{cell}**" if bold else cell for cell, bold in cells)])
    return rows


def budget() -> Rows:
    return [
        [
            *(f"{line.duration_s:g}", f"{line.timescale_s / line.duration_s:.2f}", f"{line.timescale_s:.0f}"),
            *(f"{1.25 ** (line.duration_s / line.timescale_s):.2f}", f"{line.grown:.2f}"),
            *(f"10^{line.duration_s * np.log10(1.25):.0f}", f"{line.queries:.0f}", f"{line.removed:.0f}"),
        ]
        for line in data("budget").itertuples()
    ]


def failures() -> Rows:
    shown = ["fails", "algorithm", "on_failure", "fewest", "most", "longest"]
    return [[*(str(line[name]) for name in shown), f"{line['value']:.2f}"] for _, line in data("failures").iterrows()]


def recommendations() -> Rows:
    """A line for each benchmark: with 150 asks, and under the protocol of the tables."""
    files = {"recommendations": ["median", "mean"], "recommendations-protocol": ["median", "mean", "low", "high"]}
    indexed = {name: data(name).set_index("benchmark") for name in files}
    return [
        [str(name), *(f"{indexed[file].at[name, column]:.2f}" for file, columns in files.items() for column in columns)]
        for name in indexed["recommendations"].index
    ]


def siblings(odd: bool) -> Callable[[], Rows]:
    """The 20th studies of the families, or those that are unlike the others; ratios with their 95 % intervals."""

    def rows() -> Rows:
        known = data("siblings")
        lines = [line for _, line in known[(known["study"] != "20th") == odd].iterrows()]
        if odd:
            return [[line["study"], regret(line)] for line in lines]
        return [[line["family"], *steady(line), regret(line)] for line in lines]

    def steady(line: pd.Series) -> list[str]:
        ratio = f"{line['ratio']:.2f} ({line['low']:.2f} to {line['high']:.2f})"
        return [f"{line['alone']:.0f}", f"{line['with_family']:.0f}", ratio]

    def regret(line: pd.Series) -> str:
        return f"{line['regret']:.2f} ({line['regret_low']:.2f} to {line['regret_high']:.2f})"

    return rows


OTHERS = ("sparse-0.15-0.1", "sparse-0.5-0.5")  # other processes than the usual one


def sparse(ending: str, files: Sequence[str] = ("sparse",), what: Sequence[str] = ("dim",)) -> Callable[[], Rows]:
    """A line for each number of parameters, or `what` differs otherwise, and of queries per l_T; tide with its 95 %
    interval.
    """
    cases = [*what, "queries"]
    columns = [f"{name}{ending}" for name in ("sliding-window", "w-dbo", "tide", "limit")]

    def rows() -> Rows:
        return [row for file in files for row in of(data(file))]

    def of(lines: pd.DataFrame) -> Rows:
        known = lines.set_index([*cases, "contender"]).sort_index()
        return [
            [*map(str, case), *(cell(known.loc[(*case, name)]) for name in ["hold the start", *columns])]
            for case in lines[cases].drop_duplicates().itertuples(index=False)
        ]

    def cell(line: pd.Series) -> str:
        text = f"{line['ratio']:.2f}"
        return f"**{text}** ({line['low']:.2f} to {line['high']:.2f})" if "tide" in str(line.name) else text

    return rows


def arenas(rows: Callable[[pd.DataFrame], Rows], header: Callable[[pd.DataFrame], list[str]]) -> Table:
    return Table(("arenas",), lambda: rows(data("arenas")), lambda: header(data("arenas")))


def world(figure: str) -> Table:
    """A line for each case: the ratio, and its 95 % interval (of the ask: the quartiles)."""

    def rows() -> Rows:
        lines = data("world")[data("world")["figure"] == figure].itertuples()
        return [[line.case, f"**{line.measured:.2f}**", f"{line.low:.2f} to {line.high:.2f}"] for line in lines]

    return Table(("world",), rows)


TABLES = {
    "steps": Table(("steps",), steps(["ebbtide", "ebbtide mean", "ebbtide exact", *PEERS, "LAPACK inverse"])),
    "steps-short": Table(("steps",), steps(["ebbtide", *PEERS])),
    "criterion": Table(("criterion",), criterion),
    "targets": Table(("targets",), targets),
    "consecutive": Table(("consecutive",), consecutive),
    "own-pace": Table(("own-pace",), own_pace),
    "throughput": Table(("throughput",), throughput),
    "long-run": Table(("long-run",), long_run),
    "resume": each("resume", *RESUME),
    "resume-postgresql": each("resume-postgresql", *RESUME),
    "load": load("load-0.3s"),
    "postgresql-load": load("postgresql-load-0.3s"),
    "fleet-studies": each("fleet-studies", "{:,.0f}", "{:.1f}", "{:.1f}", "{:.1f}"),
    "hidden": each("hidden", "{}", "{}", "{}", "{:.2f}", "{:.0%}"),
    "worst": each("worst", "{}", "{:.2f}"),
    "unread": each("unread", "{}", "{:,}", "{:.1f}", "{:.0f}", "{:.1f}", "{:.1f}", "{:.0f}"),
    "first-ask": each("first-ask", "{}", "{:,}", "{:.2f}", "{:.2f}", "{:,}"),
    **{
        f"arenas-peers-{asks}": arenas(partial(measured_arenas.peers_rows, asks=asks), measured_arenas.peers_header)
        for asks in measured_arenas.ASKS
    },
    "arenas-beginnings": arenas(measured_arenas.beginnings_rows, measured_arenas.beginnings_header),
    "arenas-static": arenas(measured_arenas.static_rows, measured_arenas.static_header),
    "arenas-regrets": arenas(measured_arenas.regrets_rows, measured_arenas.regrets_header),
    "arenas-grid": arenas(measured_arenas.grid_rows, measured_arenas.grid_header),
    "pace-botorch": each("pace-botorch", "{}", "{:.2f}", "{:.2f}"),
    "soak": each("soak-outside-0", "{:,}", "{:.1f}", "{:.0f}", "{:.0f}", "{}", "{:.1f}", "{:.1f}", "{:.1f}", "{:.1f}"),
    "dashboard-opening": each("dashboard-opening", "{}", "{:.2f}", "{:.2f}"),
    "dashboard-tells": each("dashboard-tells", "{}", "{:,}", "{:.1f}", "{:.1f}", "{:.1f}"),
    "botorch-loop": Table(("botorch-loop",), botorch_loop),
    "optuna-samplers": Table(("optuna-samplers",), optuna_samplers),
    "averages": Table(("table",), readme_averages),
    "regret": regrets("table", published=paper.AVERAGE_REGRET),
    "time-weighted-regret": regrets("table", "time_weighted_regret"),
    "size": values("size"),
    "queries": values("queries"),
    "sensitivity": regrets("sensitivity"),
    "ard": regrets("ard"),
    "exact": Table(("table",), exact),
    "variants": Table(("variants",), variants, variants_header),
    "controls": Table(("controls",), controls, controls_header),
    "readings": Table(tuple(READINGS.values()), readings),
    "regret-variance": regrets("table-variance", published=paper.AVERAGE_REGRET),
    "inference": Table(("inference",), inference),
    "budget": Table(("budget",), budget),
    "values": each("values", *["{}"] * 2, *["{:.2f}"] * 3, "{}"),
    "failures": Table(("failures",), failures),
    "recommendations": Table(("recommendations", "recommendations-protocol"), recommendations),
    "reading": each("reading", "{}", *["{:.2f}"] * 3),
    "jumps": each("jumps", *["{}"] * 2, *["{:.2f}"] * 3, "{}"),
    "tracker": each("tracker", *["{}"] * 2, *["{:.2f}"] * 3),
    "tracker-dense": each("tracker-dense", *["{}"] * 2, *["{:.2f}"] * 3, "{}", *["{:.2f}"] * 3),
    "siblings-20th": Table(("siblings",), siblings(odd=False)),
    "siblings-odd": Table(("siblings",), siblings(odd=True)),
    "sparse": Table(("sparse",), sparse("")),
    "sparse-start": Table(("sparse",), sparse(" + start")),
    "sparse-others": Table(OTHERS, sparse(" + start", OTHERS, ("lengthscale", "noise"))),
    **{
        f"world-{figure}": world(figure)
        for figure in ("context", "irrelevant", "cycle", "no-cycle", "violations", "limits")
    },
    **{path.stem: live(path.stem) for path in sorted(DATA.glob("live-*.csv"))},
}
