"""The whole reproduction, end to end and small: the command, its files, and a look at every picture."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from helpers.pace import FEW_QUERIES
from PIL import Image
from PIL.GifImagePlugin import GifImageFile

import ebbtide as eb
from ebbtide.cli.commands import WHAT, ebbtide
from ebbtide.experiments import Protocol, paper, tables
from ebbtide.experiments.figures import style
from ebbtide.experiments.reproduction import SECTIONS, ard, sensitivity, studio

SLOW, VERY_SLOW = pytest.mark.slow, pytest.mark.very_slow

# Dask's own: sockets and loops that are still closing when a test ends.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


SMALL = ("shekel", "temperature")  # what is computed by hand, and what was measured
SHORT = Protocol(duration=15.0, compute=FEW_QUERIES)


@dataclass(frozen=True)
class Reproduction:
    """What `ebbtide reproduce all --quick` wrote and said, and on what scale it worked."""

    out: Path
    log: str
    problems: tuple[str, ...]
    ard: tuple[str, ...]
    protocol: Protocol

    @property
    def report(self):
        return (self.out / "report.html").read_text(encoding="utf-8")

    def table(self, name):
        return (self.out / "tables" / name).read_text(encoding="utf-8")

    @property
    def pictures(self):
        return [
            *("summary", "sensitivity", "approximation-space", "approximation-criterion", "approximation-ranks"),
            *("distance", "distance-normalised"),
            *(f"ard-{name}" for name in self.ard),
            *(f"curves-{name}" for name in self.problems),
            *("still-six-hump-camel", "still-switching-camel"),
        ]


def small(out, cluster):
    """The command on few benchmarks with runs of 15 s, in this process and on the cluster that is there."""
    arguments = ["reproduce", "all", "--quick", "--out", str(out), "--scheduler", cluster]
    done = CliRunner().invoke(ebbtide, arguments)
    assert done.exit_code == 0, done.output
    return Reproduction(out, done.stderr, SMALL, ("ackley",), SHORT)


def whole(out):
    """The command as a user calls it."""
    command = [sys.executable, "-m", "ebbtide", "reproduce", "all", "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return Reproduction(out, done.stderr, eb.benchmarks.PAPER, ("schwefel", "ackley"), studio.QUICK)


@pytest.fixture(scope="module", params=[pytest.param(small, marks=SLOW), pytest.param(whole, marks=VERY_SLOW)])
def everything(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    if request.param is whole:
        yield whole(out)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eb.benchmarks, "PAPER", SMALL)
        patch.setattr(sensitivity, "PROBLEMS", ("eggholder",))
        patch.setattr(ard, "PROBLEMS", ("ackley",))
        patch.setattr(studio, "QUICK", SHORT)
        patch.setitem(style.RC, "pdf.fonttype", 3)  # cheap to embed
        yield small(out, request.getfixturevalue("cluster"))


def test_all_is_every_section(everything):
    assert set(WHAT) == {*SECTIONS, "all"}
    assert [name for name in SECTIONS if f'<section id="{name}">' not in everything.report] == []
    assert "W-DBO has the lowest normalised average of the six" in everything.log
    assert "report.html" in everything.log
    assert "proves nothing" in everything.report  # a quick look says that it is one


def test_the_report_holds_every_picture_and_fetches_nothing(everything):
    page, figures = everything.report, everything.out / "figures"
    pictures = [*figures.glob("*.png"), *figures.glob("*.gif")]
    stills = [path for path in pictures if path.name.startswith("still-")]  # the report shows the films themselves
    assert page.count("data:image/png;base64,") + page.count("data:image/gif;base64,") == len(pictures) - len(stills)
    assert re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", page) == []
    assert "http://" not in page
    assert "https://" not in page
    assert page.count("<figcaption>") == page.count("<img ")
    assert page.count("<table>") == 10


def test_every_picture_shows_something(everything):
    figures = everything.out / "figures"
    assert sorted(path.stem for path in figures.glob("*.png")) == sorted(everything.pictures)
    for name in everything.pictures:
        pixels = matplotlib.image.imread(figures / f"{name}.png")[..., :3]
        assert min(pixels.shape[:2]) > 400, name
        ink = (pixels < 0.98).any(axis=-1)
        assert 0.01 < ink.mean() < 0.95, name
        quarters = [half for rows in np.array_split(ink, 2) for half in np.array_split(rows, 2, axis=1)]
        assert min(quarter.mean() for quarter in quarters) > 0.001, f"a quarter of {name} is empty"
        colours = np.unique((pixels[::7, ::7] * 16).astype(int).reshape(-1, 3), axis=0)
        assert len(colours) > 10, name
        assert (figures / f"{name}.pdf").read_bytes().startswith(b"%PDF"), name


@pytest.mark.parametrize("name", ["six-hump-camel", "switching-camel"])
def test_the_films_move(everything, name):
    with Image.open(everything.out / "figures" / f"video-{name}.gif") as film:
        assert isinstance(film, GifImageFile)
        assert film.n_frames >= 10
        first = np.asarray(film.convert("RGB"), dtype=float)
        film.seek(film.n_frames - 1)
        assert np.abs(np.asarray(film.convert("RGB"), dtype=float) - first).mean() > 1.0


def test_the_table_is_the_runs(everything):
    """One cell by hand: two runs, made here again."""
    runs = pd.read_csv(everything.out / "tables" / "runs.csv")
    assert len(runs) == 8 * len(everything.problems) * 2
    regrets = [eb.experiments.run("shekel", "w-dbo", seed, everything.protocol).average_regret for seed in (0, 1)]
    long = pd.read_csv(everything.out / "tables" / "regret.csv").set_index(["problem", "algorithm"])
    cell = long.loc["shekel", "w-dbo"]
    assert cell["mean"] == pytest.approx(np.mean(regrets))
    assert cell["standard_error"] == pytest.approx(abs(regrets[0] - regrets[1]) / 2)
    assert cell["paper"] == 1.72
    text = tables.with_error(cell["mean"], cell["standard_error"])
    assert text in everything.table("regret.md")
    assert text.replace("±", r"$\pm$") in everything.table("regret.tex")


def test_the_table_has_ours_behind_the_line(everything):
    latex = everything.table("regret.tex")
    assert latex.startswith(r"\begin{tabular}{lrrrrrr|rr}")
    header = latex.splitlines()[2]
    assert [name.strip(" \\") for name in header.split("&")] == ["benchmark", *paper.ALGORITHMS, "w-dbo-exact", "tide"]
    assert latex.count(r"\midrule") == 3  # header, real-world ones, averages
    assert latex.count(r"\textbf{") == len(everything.problems) + 1  # one in each row


def test_the_budget_counts_time_in_timescales(everything):
    rows = everything.table("budget.md").splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [float(row[0]) for row in cells] == [share * everything.protocol.duration for share in (0.5, 1.0, 3.0)]
    for row in cells:
        # as printed: l_T to two decimals of the axis, and in whole seconds
        assert float(row[2]) == pytest.approx(float(row[0]) * float(row[1]), rel=0.02, abs=0.6)
        least, most = (1.25 ** (1.0 / (float(row[1]) + rounded)) for rounded in (0.005, -0.005))
        assert 0.99 * least <= float(row[3]) <= 1.01 * most


def test_a_second_call_makes_no_run_again(everything):
    out = everything.out
    done = CliRunner().invoke(ebbtide, ["reproduce", "table", "--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"0 of 0 runs done, {16 * len(everything.problems)} stored" in done.stderr
    assert (out / "report-table.html").exists()  # beside the one with everything
    assert '<section id="curves">' in everything.report


@pytest.mark.slow
def test_a_section_that_lacks_runs_is_not_made(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr(eb.benchmarks, "PAPER", SMALL)
    monkeypatch.setattr(studio, "QUICK", SHORT)
    arguments = ["reproduce", "table", "--quick", "--seeds", "1", "--also", "helpers.contenders:broken"]
    done = CliRunner().invoke(ebbtide, [*arguments, "--out", str(tmp_path), "--scheduler", cluster])
    assert done.exit_code == 1
    assert "2 of the runs of `table` failed, so this section is left out" in done.stderr
    assert done.stderr.count("ZeroDivisionError: this acquisition never works") == 2
    assert not (tmp_path / "tables" / "regret.md").exists()


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


@pytest.mark.slow
def test_ones_own_algorithms_in_the_same_table(tmp_path):
    """The installed command, as a user calls it in a folder with a module of theirs; what fails ends it with 1."""
    (tmp_path / "mine.py").write_text(OWN)
    command = [str(Path(sys.executable).with_name("ebbtide")), "compare", "ackley"]
    command += ["--algorithms", "w-dbo,mine:greedy,mine:broken", "--seeds", "2", "--duration", "3", "--out", "results"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("ArithmeticError: never") == 2
    assert "Failed: mine:broken on ackley, seed 0" in done.stderr
    assert "2 seeds" in done.stdout
    assert "w-dbo" in done.stdout  # the others have their columns all the same
    table = (tmp_path / "results" / "regret.md").read_text(encoding="utf-8")
    assert "mine:greedy" in table
    assert "mine:broken" not in table
    assert len(list((tmp_path / "results" / "runs").glob("ackley*_mine-greedy_seed*.parquet"))) == 2
    assert (tmp_path / "results" / "summary.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(pd.read_csv(tmp_path / "results" / "runs.csv")["algorithm"]) == ["mine:greedy"] * 2 + ["w-dbo"] * 2


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


@pytest.mark.slow
def test_plot_draws_a_run_of_ones_own(tmp_path):
    runner = CliRunner()
    made = runner.invoke(ebbtide, ["run", "shekel", "--seeds", "1", "--duration", "4", "--out", str(tmp_path)])
    assert made.exit_code == 0, made.output
    done = runner.invoke(ebbtide, ["plot", str(tmp_path / "shekel_tide_seed0.parquet")])
    assert done.exit_code == 0, done.output
    assert matplotlib.image.imread(tmp_path / "shekel_tide_seed0.png").std() > 0.05
    assert (tmp_path / "shekel_tide_seed0.pdf").exists()
