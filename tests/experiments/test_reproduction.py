"""The whole reproduction, end to end and small: the command, its files, and a look at every picture."""

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from PIL import Image

import ebbtide as eb
from ebbtide.cli.commands import WHAT, ebbtide
from ebbtide.experiments import Protocol, paper, statistics, tables
from ebbtide.experiments.reproduction import SECTIONS


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """`ebbtide reproduce all --quick`, as a user calls it."""
    out = tmp_path_factory.mktemp("paper")
    command = [sys.executable, "-m", "ebbtide", "reproduce", "all", "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return out, done.stderr


def test_all_is_every_section(everything):
    out, log = everything
    assert set(WHAT) == {*SECTIONS, "all"}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert [name for name in SECTIONS if f'<section id="{name}">' not in page] == []
    assert "W-DBO has the lowest normalised average of the six" in log
    assert "report.html" in log
    assert "proves nothing" in page  # a quick look says that it is one


def test_the_report_holds_every_picture_and_fetches_nothing(everything):
    out, _ = everything
    page = (out / "report.html").read_text(encoding="utf-8")
    pictures = [*(out / "figures").glob("*.png"), *(out / "figures").glob("*.gif")]
    stills = [path for path in pictures if path.name.startswith("still-")]  # the report shows the films themselves
    assert page.count("data:image/png;base64,") + page.count("data:image/gif;base64,") == len(pictures) - len(stills)
    assert re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", page) == []
    assert "http://" not in page
    assert "https://" not in page
    assert page.count("<figcaption>") == page.count("<img ")
    assert page.count("<table>") == 10


EXPECTED = [
    *("summary", "sensitivity", "approximation-space", "approximation-criterion", "approximation-ranks"),
    *("distance", "distance-normalised", "ard-schwefel", "ard-ackley"),
    *(f"curves-{name}" for name in eb.benchmarks.PAPER),
    *("still-six-hump-camel", "still-switching-camel"),
]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_picture_shows_something(everything, name):
    out, _ = everything
    pixels = matplotlib.image.imread(out / "figures" / f"{name}.png")[..., :3]
    assert min(pixels.shape[:2]) > 400
    ink = (pixels < 0.98).any(axis=-1)
    assert 0.01 < ink.mean() < 0.95
    quarters = [half for rows in np.array_split(ink, 2) for half in np.array_split(rows, 2, axis=1)]
    assert min(quarter.mean() for quarter in quarters) > 0.001  # no quarter is empty
    assert len(np.unique((pixels[::7, ::7] * 16).astype(int).reshape(-1, 3), axis=0)) > 10  # colours
    assert (out / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_no_picture_was_forgotten(everything):
    out, _ = everything
    assert sorted(path.stem for path in (out / "figures").glob("*.png")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", ["six-hump-camel", "switching-camel"])
def test_the_films_move(everything, name):
    out, _ = everything
    with Image.open(out / "figures" / f"video-{name}.gif") as film:
        assert film.n_frames >= 10
        first = np.asarray(film.convert("RGB"), dtype=float)
        film.seek(film.n_frames - 1)
        assert np.abs(np.asarray(film.convert("RGB"), dtype=float) - first).mean() > 1.0


def test_the_table_is_the_runs(everything):
    """One cell by hand: two runs of 40 s, made here again."""
    out, _ = everything
    runs = pd.read_csv(out / "tables" / "runs.csv")
    assert len(runs) == 7 * 12 * 2
    regrets = [eb.experiments.run("shekel", "w-dbo", seed, Protocol(duration=40.0)).average_regret for seed in (0, 1)]
    long = pd.read_csv(out / "tables" / "regret.csv").set_index(["problem", "algorithm"])
    cell = long.loc["shekel", "w-dbo"]
    assert cell["mean"] == pytest.approx(np.mean(regrets))
    assert cell["standard_error"] == pytest.approx(abs(regrets[0] - regrets[1]) / 2)
    assert cell["paper"] == 1.72
    text = tables.with_error(cell["mean"], cell["standard_error"])
    assert text in (out / "tables" / "regret.md").read_text(encoding="utf-8")
    assert text.replace("±", r"$\pm$") in (out / "tables" / "regret.tex").read_text(encoding="utf-8")


def test_the_table_has_ours_behind_the_line(everything):
    out, _ = everything
    latex = (out / "tables" / "regret.tex").read_text(encoding="utf-8")
    assert latex.startswith(r"\begin{tabular}{lrrrrrr|r}")
    header = latex.splitlines()[2]
    assert [name.strip(" \\") for name in header.split("&")] == ["benchmark", *paper.ALGORITHMS, "w-dbo-exact"]
    assert latex.count(r"\midrule") == 3  # header, real-world ones, averages
    assert latex.count(r"\textbf{") == 13  # one a line


def test_the_budget_counts_time_in_timescales(everything):
    out, _ = everything
    rows = (out / "tables" / "budget.md").read_text(encoding="utf-8").splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["20", "40", "120"]
    for row in cells:
        # as printed: to two or three digits
        assert float(row[2]) == pytest.approx(float(row[0]) * float(row[1]), rel=0.15)
        assert float(row[3]) == pytest.approx(1.25 ** (1.0 / float(row[1])), rel=0.1)


def test_a_second_call_makes_no_run_again(everything):
    out, _ = everything
    done = CliRunner().invoke(ebbtide, ["reproduce", "table", "--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "0 of 0 runs done, 168 stored" in done.stderr
    assert (out / "report-table.html").exists()  # beside the one with everything
    assert '<section id="curves">' in (out / "report.html").read_text(encoding="utf-8")


OWN = """
from dataclasses import dataclass
import ebbtide as eb


@dataclass(frozen=True)
class Greedy(eb.UCB):
    def __call__(self, mean, std, context):
        return mean, 1.0 + 0.0 * mean, 0.0 * mean


@dataclass(frozen=True)
class Never(eb.UCB):
    def __call__(self, mean, std, context):
        raise ArithmeticError("never")


greedy = eb.Algorithm(acquisition=Greedy())
broken = eb.Algorithm(acquisition=Never())
"""


@pytest.fixture
def command(tmp_path):
    """The installed command, as a user calls it in a folder with a module of theirs."""
    (tmp_path / "mine.py").write_text(OWN)
    executable = Path(sys.executable).with_name("ebbtide")

    def call(*arguments):
        return subprocess.run([executable, *arguments], capture_output=True, text=True, timeout=300, cwd=tmp_path)

    return call


def test_ones_own_algorithm_in_the_same_table(tmp_path, command):
    short = ["--seeds", "2", "--duration", "30", "--out", "results"]
    done = command("compare", "ackley", "--algorithms", "w-dbo,mine:greedy", *short)
    assert done.returncode == 0, done.stderr
    assert "mine:greedy" in (tmp_path / "results" / "regret.md").read_text(encoding="utf-8")
    assert len(pd.read_csv(tmp_path / "results" / "runs.csv")) == 4
    assert "2 seeds" in done.stdout


def test_failing_runs_end_the_command_with_their_tracebacks(command):
    short = ["--seeds", "1", "--duration", "30", "--out", "results"]
    done = command("compare", "ackley", "--algorithms", "mine:broken,random", *short)
    assert done.returncode == 1
    assert "ArithmeticError: never" in done.stderr
    assert "Failed: mine:broken on ackley, seed 0" in done.stderr
    assert "random" in done.stdout  # its line is there


def test_a_section_that_lacks_runs_is_not_made(tmp_path, command):
    done = command("reproduce", "table", "--quick", "--seeds", "1", "--also", "mine:broken", "--out", "paper")
    assert done.returncode == 1
    assert "12 of the runs of `table` failed: it is not made without them" in done.stderr
    assert done.stderr.count("ArithmeticError: never") == 12
    assert not (tmp_path / "paper" / "tables" / "regret.md").exists()


# --- statistics and tables ------------------------------------------------------------------------------------


def summary(regrets):
    rows = [
        {"problem": problem, "algorithm": name, "seed": seed, "average_regret": value}
        for (problem, name), values in regrets.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_the_papers_averages_are_the_papers():
    """Its last line, from its other lines; it prints 0.47 for R-GP-UCB, which its figures make 0.477."""
    averages = statistics.normalised(paper.AVERAGE_REGRET).mean()
    assert averages.to_dict() == pytest.approx(
        {"gp-ucb": 0.48, "r-gp-ucb": 0.47, "tv-gp-ucb": 0.29, "et-gp-ucb": 0.54, "abo": 0.62, "w-dbo": 0.01}, abs=0.007
    )


def test_others_are_measured_on_the_scale_of_the_main_ones():
    means = pd.DataFrame({"a": [1.0, 5.0], "b": [3.0, 1.0], "ours": [0.0, 3.0]}, index=["p", "q"])
    scaled = statistics.normalised(means, among=["a", "b"])
    assert scaled["ours"].tolist() == [-0.5, 0.5]
    assert scaled["a"].tolist() == [0.0, 1.0]


def test_equal_regrets_are_no_division_by_zero():
    means = pd.DataFrame({"a": [2.0], "b": [2.0]}, index=["p"])
    assert statistics.normalised(means).to_numpy().tolist() == [[0.0, 0.0]]


def test_who_overlaps_the_best():
    """Student's t with two degrees of freedom: 4.30 standard errors to each side."""
    compared = statistics.compare(
        summary({("p", "best"): [1.0, 1.1, 0.9], ("p", "near"): [1.3, 1.5, 1.4], ("p", "far"): [9.0, 9.1, 9.2]}),
        "average_regret",
    )
    assert compared.errors.at["p", "best"] == pytest.approx(0.1 / np.sqrt(3))
    assert compared.overlapping(["best", "near", "far"]).loc["p"].to_dict() == {
        "best": True,
        "near": True,
        "far": False,
    }


def test_best_bold_and_overlapping_underlined():
    compared = statistics.compare(
        summary(
            {
                ("p", "a"): [1.0, 1.1, 0.9],
                ("p", "b"): [1.3, 1.5, 1.4],
                ("p", "c"): [9.0, 9.1, 9.2],
                ("p", "ours"): [0.1, 0.2, 0.3],
            }
        ),
        "average_regret",
    )
    table = tables.regret_table(compared, "a caption", main=["a", "b", "c"])
    marks = [(cell.bold, cell.underlined) for cell in table.rows[0][1:]]
    assert marks == [(True, False), (False, True), (False, False), (False, False)]
    assert "**1.000 ± 0.058**" in table.markdown()
    assert "<u>1.400 ± 0.058</u>" in table.markdown()
    assert r"\underline{1.400 $\pm$ 0.058}" in table.latex()
    assert "{lrrr|r}" in table.latex()
    assert '<td class="line-left">' in table.html()
    assert [cell.text for cell in table.rows[-1]] == ["normalised average", "0.00", "0.05", "1.00", "-0.10"]


def test_names_cannot_break_a_page_or_a_document():
    table = tables.Table("<b>&", ["<i>", "50 % & more_of {it}"], [[tables.Cell("<script>"), tables.Cell("a\\b")]])
    assert "<script>" not in table.html()
    assert "<b>" not in table.html()
    assert r"50 \% \& more\_of \{it\}" in table.latex()
    assert r"a\textbackslash{}b" in table.latex()


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1,234"), (0.01234, "0.0123"), (float("nan"), "–"), (99.96, "100")]
)
def test_short_numbers(value, text):
    assert tables.short(value) == text


# --- the command line -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["compare", "nothing", "--out", "x"], "benchmark 'nothing' is unknown"),
        (["compare", "ackley", "--algorithms", "magic", "--out", "x"], "algorithm='magic' is unknown"),
        (["compare", "ackley", "--algorithms", "no_such_module:mine", "--out", "x"], "could not be imported"),
        (["compare", "ackley", "--algorithms", "math:pi", "--out", "x"], "not an eb.Algorithm"),
        (["compare", "math:pi", "--out", "x"], "not an eb.benchmarks.Problem"),
        (["compare", "ackley"], "Missing option"),
        (["compare", "ackley", "--out", "x", "--scheduler", "nowhere"], "no Dask scheduler answers"),
        (["reproduce", "everything", "--out", "x"], "'table'"),
        (["reproduce", "table"], "Missing option"),
        (["plot", "nothing.parquet"], "does not exist"),
        (["plot", "junk.parquet"], "cannot be read"),
        (["reproduce", "distances", "--out", "junk.parquet/x"], "Not a directory"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    done = CliRunner().invoke(ebbtide, arguments)
    assert done.exit_code in (1, 2)
    assert complaint in done.stderr
    assert "Traceback" not in done.output


def test_plot_draws_a_run_of_ones_own(tmp_path):
    runner = CliRunner()
    made = runner.invoke(ebbtide, ["run", "shekel", "--seeds", "1", "--duration", "40", "--out", str(tmp_path)])
    assert made.exit_code == 0, made.output
    done = runner.invoke(ebbtide, ["plot", str(tmp_path / "shekel_w-dbo_seed0.parquet")])
    assert done.exit_code == 0, done.output
    assert matplotlib.image.imread(tmp_path / "shekel_w-dbo_seed0.png").std() > 0.05
    assert (tmp_path / "shekel_w-dbo_seed0.pdf").exists()
