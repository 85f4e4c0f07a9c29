import importlib
import subprocess
import sys

import pandas as pd
import pytest
from click.testing import CliRunner

import ebbtide as eb
from ebbtide.cli.commands import ebbtide

SHORT = ["--duration", "4", "--seeds", "2"]


@pytest.fixture
def cli():
    return CliRunner()


def test_run_prints_a_table(cli):
    done = cli.invoke(ebbtide, ["run", "hartmann3", "-a", "w-dbo", "-a", "random", *SHORT])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert "hartmann3: 2 runs of 4 s, noise 5 % of the variance, modelled:botorch" in " ".join(done.stdout.split())
    (row,) = (line for line in lines if "w-dbo" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    protocol = eb.experiments.Protocol(duration=4.0)
    runs = [eb.experiments.run("hartmann3", "w-dbo", seed, protocol) for seed in (0, 1)]
    mean = sum(outcome.average_regret for outcome in runs) / 2
    assert cells[1].startswith(f"{mean:.4g} ± ")
    assert cells[3] == f"{sum(len(outcome.columns['t']) for outcome in runs) / 2:.0f}"
    assert "hartmann3" in done.stderr  # the progress bar stays out of the table


def test_the_noise_can_be_a_share_of_the_deviation(cli):
    done = cli.invoke(ebbtide, ["run", "hartmann3", "-a", "w-dbo", "--noise-of", "deviation", *SHORT])
    assert done.exit_code == 0, done.output
    assert "noise 5 % of the deviation" in " ".join(done.stdout.split())
    protocol = eb.experiments.Protocol(duration=4.0, noise_of="deviation")
    mean = sum(eb.experiments.run("hartmann3", "w-dbo", seed, protocol).average_regret for seed in (0, 1)) / 2
    assert f"{mean:.4g} ± " in done.stdout


def test_run_writes_frames_with_their_provenance(cli, tmp_path):
    done = cli.invoke(ebbtide, ["run", "wlan", "-a", "et-gp-ucb", *SHORT, "--out", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == ["wlan_et-gp-ucb_seed0.parquet", "wlan_et-gp-ucb_seed1.parquet"]
    frame = pd.read_parquet(files[1])
    assert frame.attrs["seed"] == 1
    expected = eb.experiments.run("wlan", "et-gp-ucb", 1, eb.experiments.Protocol(duration=4.0)).frame
    pd.testing.assert_frame_equal(frame[expected.columns], expected)


OWN = """
import numpy as np
import ebbtide as eb


class Slope(eb.benchmarks.Problem):
    bounds = np.array([[-1.0, 1.0]])

    def values(self, X, t):
        return X[:, 0] * (1.0 - t)


greedy = eb.Algorithm(acquisition=eb.UCB(beta=0.0))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a module of one's own, which is gone afterwards."""
    (tmp_path / "slopes.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("slopes", None)


@pytest.mark.slow
def test_run_takes_algorithms_and_benchmarks_of_ones_own(cli, own):
    arguments = ["run", "slopes:Slope", "-a", "slopes:greedy", "-a", "random", *SHORT, "--out", "new"]
    done = cli.invoke(ebbtide, arguments)
    assert done.exit_code == 0, done.output
    assert "slopes:Slope: 2 runs of 4 s" in done.stdout
    (row,) = (line for line in done.stdout.splitlines() if "slopes:greedy" in line)
    slopes = importlib.import_module("slopes")
    problem, protocol = slopes.Slope(), eb.experiments.Protocol(duration=4.0)
    runs = [eb.experiments.run(problem, slopes.greedy, seed, protocol) for seed in (0, 1)]
    mean = sum(outcome.average_regret for outcome in runs) / 2
    assert row.strip("│").split("│")[1].strip().startswith(f"{mean:.4g} ± ")
    assert (own / "new" / "slopes-Slope_slopes-greedy_seed1.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "nothing"], "temperature"),
        (["run", "ackley", "-a", "magic"], "w-dbo"),
        (["run", "math:pi"], "not an eb.benchmarks.Problem"),
        (["run", "ackley", "-a", "math:pi"], "not an eb.Algorithm"),
        (["run", "ackley", "-a", "no_such_module:mine"], "could not be imported"),
        (["run", "ackley", "--seeds", "0"], "0 is not in the range"),
        (["run", "ackley", "--compute", "modelled:abacus"], "modelled:botorch"),
        (["run", "ackley", "--duration", "-5"], "duration=-5.0"),
        (["run", "ackley", "--duration", "0.1"], "no query landed"),
        (["run", "ackley", "--noise-of", "amplitude"], "'variance', 'deviation'"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(cli, arguments, complaint):
    done = cli.invoke(ebbtide, arguments)
    assert done.exit_code in (1, 2)
    assert complaint in done.stderr
    assert "Traceback" not in done.output


def test_a_folder_that_cannot_be_written_to_is_said_before_the_work(cli, tmp_path):
    (tmp_path / "file").write_text("")
    done = cli.invoke(ebbtide, ["run", "ackley", "--out", str(tmp_path / "file" / "x")])
    assert done.exit_code == 1
    assert "choose a folder" in done.stderr


def test_help_names_every_benchmark_and_algorithm(cli):
    words = cli.invoke(ebbtide, ["run", "--help"]).output.replace(",", " ").replace(".", " ").split()
    names = [*eb.benchmarks.names(), *eb.benchmarks.ARENAS, *eb.algorithms.names()]
    assert [name for name in names if name not in words] == []


def test_the_command_as_it_is_installed():
    command = [sys.executable, "-m", "ebbtide", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert eb.__version__ in done.stdout


@pytest.mark.slow
def test_without_click_the_command_says_what_to_install():
    script = "import sys; sys.modules['click'] = None; from ebbtide.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'ebbtide[cli]', or in a checkout: pip install '.[cli]'" in done.stderr
    assert "Traceback" not in done.stderr
