"""Campaigns on a real local cluster: what is made, what is not made twice, what fails, what is killed."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.contenders import Deadly, Revealing, broken
from helpers.pace import FEW_QUERIES

import ebbtide as eb
from ebbtide.experiments import Protocol, code, store
from ebbtide.experiments.campaign import Job, conduct, grid
from ebbtide.experiments.store import Store

SHORT = Protocol(duration=15.0, compute=FEW_QUERIES)

# Dask's own: sockets and loops that are still closing when a test ends.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def made(tmp_path_factory, cluster):
    """A campaign of eight runs, made once: its jobs, its folder, what came of it, and what was watched."""
    folder, tallies = tmp_path_factory.mktemp("made"), []
    contenders = {"w-dbo": "w-dbo", "mine": eb.Algorithm(acquisition=eb.EI())}
    jobs = grid(["ackley", "wlan"], contenders, seeds=2, protocol=SHORT)
    return jobs, folder, conduct(jobs, Store(folder), scheduler=cluster, watch=tallies.append), tallies


@pytest.mark.slow
def test_a_campaign_is_the_runs_it_is_made_of(made):
    jobs, folder, campaign, tallies = made
    assert campaign.failures == []
    assert len(campaign.summary) == 8
    assert (tallies[-1].total, tallies[-1].done, tallies[-1].failed) == (8, 8, 0)
    assert max(tally.running for tally in tallies) == 1  # the cluster has one worker
    for job, (_, row) in zip(jobs, campaign.summary.iterrows(), strict=True):
        alone = eb.experiments.run(job.problem, job.algorithm, job.seed, SHORT)
        frame = Store(folder).read(job)
        pd.testing.assert_frame_equal(frame[alone.frame.columns], alone.frame, check_exact=True)
        assert row["average_regret"] == alone.average_regret
        assert row["time_weighted_regret"] == alone.time_weighted_regret
        assert (row["problem"], row["algorithm"], row["seed"]) == (job.problem, job.label, job.seed)
        assert row["queries"] == len(frame)
        assert json.loads(row["guards"]) == alone.guards


@pytest.mark.slow
def test_a_stored_run_says_where_it_comes_from(made):
    jobs, folder, *_ = made
    for job in jobs:
        about = Store(folder).read(job).attrs
        assert about["problem"] == eb.benchmarks.get(job.problem).instance
        assert about["algorithm"] == (job.algorithm if job.label == "w-dbo" else repr(job.algorithm))
        assert about["seed"] == job.seed
        assert about["protocol"] == SHORT.as_dict()
        assert about["ebbtide"] == eb.__version__
        assert about["numpy"] == np.__version__
        assert about["code"] == code.of_the_engine()
        assert {"scipy", "python", "machine"} <= about.keys()


@pytest.mark.slow
def test_what_is_stored_is_not_made_again(made):
    """Not even a cluster is needed, or asked for."""
    jobs, folder, first, _ = made
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    tallies = []
    again = conduct(jobs, Store(folder), scheduler="nonsense", watch=tallies.append)
    assert (tallies[-1].stored, tallies[-1].done) == (8, 0)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps
    pd.testing.assert_frame_equal(first.summary, again.summary)


@pytest.mark.slow
def test_a_damaged_file_is_made_again(made, tmp_path, cluster):
    jobs, folder, first, _ = made
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for job, damage in zip(jobs, (b"", b"PAR1 and then nothing"), strict=False):
        Store(tmp_path).path(job.key).write_bytes(damage)
    tallies = []
    again = conduct(jobs, Store(tmp_path), scheduler=cluster, watch=tallies.append)
    assert (tallies[-1].stored, tallies[-1].done) == (6, 2)
    assert again.summary["average_regret"].tolist() == first.summary["average_regret"].tolist()


@pytest.mark.parametrize(
    "other",
    [
        Job("ackley", "w-dbo", "w-dbo", 1, SHORT),
        Job("ackley", "w-dbo", "gp-ucb", 0, SHORT),
        Job("shekel", "w-dbo", "w-dbo", 0, SHORT),
        Job("ackley", "w-dbo", "w-dbo", 0, Protocol(duration=15.0, noise=0.01, compute=FEW_QUERIES)),
        Job("ackley", "w-dbo", "w-dbo", 0, Protocol(duration=15.0, noise_of="deviation", compute=FEW_QUERIES)),
        Job("ackley", "w-dbo", "w-dbo", 0, Protocol(duration=15.0, compute="measured:30")),
        Job("ackley", "w-dbo", eb.Algorithm(staleness=eb.WassersteinBudget(alpha=0.1)), 0, SHORT),
    ],
    ids=lambda job: job.key,
)
def test_another_run_has_another_name(other):
    assert Job("ackley", "w-dbo", "w-dbo", 0, SHORT).key != other.key


def test_a_label_does_not_change_the_run():
    assert Job("ackley", "0.25", "w-dbo", 0, SHORT).key == Job("ackley", "w-dbo", "w-dbo", 0, SHORT).key


def test_changed_code_makes_another_run(tmp_path, monkeypatch):
    """One's own, and ours."""
    module = tmp_path / "mine.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    keys = set()
    for sign in ("", "-"):
        module.write_text(
            "from dataclasses import dataclass\nimport ebbtide as eb\n\n@dataclass(frozen=True)\nclass Mine(eb.UCB):\n"
            f"    def __call__(self, mean, std, context):\n        return {sign}mean, {sign}1.0 + 0 * mean, 0 * mean\n"
        )
        sys.modules.pop("mine", None)
        import mine  # type: ignore[import-not-found]

        keys.add(Job("ackley", "mine", eb.Algorithm(acquisition=mine.Mine()), 0, SHORT).key)
    assert len(keys) == 2
    before = Job("ackley", "w-dbo", "w-dbo", 0, SHORT).key
    monkeypatch.setattr(code, "of_the_engine", lambda: "another digest")
    assert Job("ackley", "w-dbo", "w-dbo", 0, SHORT).key != before


DIGESTS = """
import pathlib, sys
import ebbtide.experiments.code as code

def digest():
    code.of_the_engine.cache_clear()
    return code.of_the_engine()

print(code.__file__, digest())
for name in sys.argv[1:]:
    with (pathlib.Path(code.__file__).parents[1] / name).open("a") as file:
        file.write("# more\\n")
    print(name, digest())
"""


@pytest.mark.slow
def test_the_digest_is_of_what_decides(tmp_path):
    """A change of a table's layout leaves it, a change of the engine does not."""
    shutil.copytree(Path(eb.__file__).parent, tmp_path / "ebbtide", ignore=shutil.ignore_patterns("__pycache__"))
    names = ["experiments/tables.py", "cli/commands.py", "files.py", "gp/inference.py", "experiments/pace.py"]
    command = [sys.executable, "-c", DIGESTS, *names]
    environment = {"PYTHONPATH": str(tmp_path), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
    (file, first), *changed = map(str.split, done.stdout.splitlines())
    assert file.startswith(str(tmp_path))
    assert [name for name, _ in changed] == names
    found = [digest for _, digest in changed]
    assert found[:3] == [first] * 3
    assert len({first, *found[3:]}) == 3


def test_a_second_campaign_leaves_the_first_ones_files_alone(tmp_path):
    part = tmp_path / ".run.parquet.1.part"
    part.write_bytes(b"being written")
    Store(tmp_path)
    assert part.exists()


def test_an_algorithm_without_a_name_is_refused():
    class Nameless(eb.UCB):
        __repr__ = object.__repr__

    @dataclass(frozen=True)
    class WithFunction(eb.UCB):
        helper: object = len

    def local():
        pass

    for part in (Nameless(), WithFunction(helper=local)):
        with pytest.raises(eb.ConfigurationError, match="frozen dataclass"):
            _ = Job("ackley", "mine", eb.Algorithm(acquisition=part), 0, SHORT).key


@pytest.mark.slow
def test_a_failing_run_is_reported_and_stops_nobody(tmp_path, cluster):
    contenders = {"broken": broken, "w-dbo": "w-dbo"}
    jobs = grid(["ackley"], contenders, seeds=2, protocol=SHORT)
    campaign = conduct(jobs, Store(tmp_path), scheduler=cluster)
    assert sorted((failure.job.label, failure.job.seed) for failure in campaign.failures) == [
        ("broken", 0),
        ("broken", 1),
    ]
    assert "ZeroDivisionError: this acquisition never works" in campaign.failures[0].traceback
    assert "in __call__" in campaign.failures[0].traceback
    assert list(campaign.summary["algorithm"]) == ["w-dbo", "w-dbo"]


@pytest.mark.very_slow
def test_workers_of_its_own_keep_the_memory_that_they_free(tmp_path):
    """A quarter of a run's time would be page faults."""
    revealing = eb.Algorithm(acquisition=Revealing(variable="MALLOC_TRIM_THRESHOLD_"))
    (failure,) = conduct([Job("ackley", "revealing", revealing, 0, SHORT)], Store(tmp_path)).failures
    assert "the variable is None" in failure.traceback


@pytest.mark.very_slow
def test_a_worker_that_dies_costs_only_its_run(tmp_path):
    deadly = eb.Algorithm(acquisition=Deadly(folder=str(tmp_path)))
    store = Store(tmp_path / "runs")
    campaign = conduct(grid(["ackley"], {"deadly": deadly, "w-dbo": "w-dbo"}, seeds=2, protocol=SHORT), store)
    assert (tmp_path / "death-0").exists()  # it did die
    assert campaign.failures == []
    assert len(campaign.summary) == 4
    by_label = campaign.summary.set_index(["algorithm", "seed"])["average_regret"]
    assert by_label["deadly", 0] == by_label["w-dbo", 0]  # UCB all the same, once it lives


@pytest.mark.very_slow
def test_a_run_that_kills_every_worker_is_given_up_and_nobody_else(tmp_path):
    """Those that were only waiting are not blamed."""
    deadly = eb.Algorithm(acquisition=Deadly(folder=str(tmp_path), deaths=100))
    store = Store(tmp_path / "runs")
    jobs = grid(["ackley", "shekel"], ["w-dbo", "random", "gp-ucb"], seeds=2, protocol=SHORT)
    jobs.insert(1, Job("ackley", "deadly", deadly, 0, SHORT))
    campaign = conduct(jobs, store)
    (failure,) = campaign.failures
    assert failure.job.label == "deadly"
    assert "KilledWorker" in failure.traceback
    assert len(campaign.summary) == 12


@pytest.mark.very_slow
def test_a_killed_campaign_goes_on_where_it_stopped(tmp_path, cluster, own_modules):
    """The process is killed while some runs are stored and others are being made; what was written stays as it is."""
    command = [sys.executable, "-m", "ebbtide", "compare", "ackley", "--algorithms", "gp-ucb,helpers.contenders:held"]
    command += ["--seeds", "2", "--duration", "3", "--out", "."]
    runs = tmp_path / "runs"
    (tmp_path / "hold").touch()
    options = {"cwd": tmp_path, "env": own_modules}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    deadline = time.monotonic() + 120.0
    while not ((tmp_path / "waiting").exists() and list(runs.glob("*.parquet"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    stamps = {path: path.stat().st_mtime_ns for path in runs.glob("*.parquet")}
    assert 1 <= len(stamps) <= 2  # the runs of `held` cannot end
    for path in stamps:
        store.read(path)  # whole
    torn = runs / ".torn.parquet.1.part"
    torn.write_bytes(b"half a file")
    os.utime(torn, (0.0, 0.0))  # long ago
    (tmp_path / "hold").unlink()
    command += ["--scheduler", cluster]  # wherever it goes on
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr
    found = re.search(r"done, (\d+) stored", done.stderr)
    assert found
    assert int(found[1]) == len(stamps)
    assert len(list(runs.glob("*.parquet"))) == 4
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert not torn.exists()  # what was being written just now may stay for an hour: it could be another's
    summary = pd.read_csv(tmp_path / "runs.csv")
    assert len(summary) == 4
    alone = eb.experiments.run("ackley", "gp-ucb", 1, Protocol(duration=3.0))
    (row,) = summary[(summary.algorithm == "gp-ucb") & (summary.seed == 1)].itertuples()
    assert row.average_regret == pytest.approx(alone.average_regret, rel=1e-12)


@pytest.mark.slow
def test_code_that_a_worker_lacks_fails_its_runs_alone(tmp_path, monkeypatch, cluster):
    """The module is here and not there: those runs are reported, the others made."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "only_here.py").write_text(
        "from dataclasses import dataclass\nimport ebbtide as eb\n\n"
        "@dataclass(frozen=True)\nclass Mine(eb.UCB):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "here"))
    import only_here  # type: ignore[import-not-found]

    contenders = {"mine": eb.Algorithm(acquisition=only_here.Mine()), "random": "random"}
    jobs = grid(["ackley"], contenders, seeds=1, protocol=SHORT)
    campaign = conduct(jobs, Store(tmp_path / "runs"), scheduler=cluster)
    (failure,) = campaign.failures
    assert "No module named 'only_here'" in failure.traceback
    assert list(campaign.summary["algorithm"]) == ["random"]


def test_a_cluster_that_does_not_answer_is_said(tmp_path):
    with pytest.raises(eb.ConfigurationError, match="tcp://host:8786"):
        conduct(grid(["ackley"], ["w-dbo"], 1, SHORT), Store(tmp_path), scheduler="nonsense")


def test_a_worker_with_other_code_is_refused():
    from ebbtide.experiments.campaign import execute

    with pytest.raises(eb.ConfigurationError, match="install the same"):
        execute(b"", "another digest")


def test_an_unknown_algorithm_is_said_before_the_work():
    with pytest.raises(eb.ConfigurationError, match="magic"):
        grid(["ackley"], ["magic"], seeds=1)


# --- files ----------------------------------------------------------------------------------------------------


def test_a_stored_frame_tells_when_each_query_was_forgotten(tmp_path):
    run = eb.experiments.run("eggholder", "w-dbo", 0, Protocol(duration=150.0, compute=FEW_QUERIES))
    store.write(run, tmp_path / "run.parquet")
    frame = store.read(tmp_path / "run.parquet")
    gone = frame["forgotten_t"].notna()
    initial = sum(o.removed_at is not None for o in run.history[:15])
    # The last ask of all, whose query came too late to be made, may have removed a few more.
    assert gone.sum() + initial >= frame["removed"].sum() > 20
    assert (frame["forgotten_t"][gone] > frame["t"][gone]).all()
    assert (frame["timescale_s"] > 0).all()
    assert eb.experiments.run("eggholder", "gp-ucb", 0, SHORT).timescales.size > 0
    assert np.isnan(eb.experiments.run("eggholder", "gp-ucb", 0, SHORT).timescales).all()


def test_a_file_that_is_no_run_is_said(tmp_path):
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    with pytest.raises(eb.ConfigurationError, match="cannot be read"):
        store.read(tmp_path / "junk.parquet")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(eb.ConfigurationError, match="not written by ebbtide"):
        store.read(tmp_path / "other.parquet")


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    run = eb.experiments.run("ackley", "random", 0, SHORT)
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        store.write(run, tmp_path / "run.parquet")
    assert list(tmp_path.iterdir()) == []
