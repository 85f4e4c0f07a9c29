"""Campaigns on a real local cluster: what is made, what is not made twice, what fails, what is killed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ebbtide as eb
from ebbtide.experiments import Protocol, code, store
from ebbtide.experiments.campaign import Job, conduct, grid
from ebbtide.experiments.store import Store

SHORT = Protocol(duration=30.0)

# Dask's own: sockets and loops that are still closing when a test ends.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@dataclass(frozen=True)
class Failing(eb.UCB):
    """An acquisition that cannot be evaluated."""

    def __call__(self, mean, std, context):
        raise ZeroDivisionError("this acquisition never works")


@dataclass(frozen=True)
class Deadly(eb.UCB):
    """An acquisition that kills its process, as often as the folder lacks marks."""

    folder: str = ""
    deaths: int = 1

    def __call__(self, mean, std, context):
        for k in range(self.deaths):
            try:
                (Path(self.folder) / f"death-{k}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(mean, std, context)


def test_a_campaign_is_the_runs_it_is_made_of(tmp_path):
    tallies = []
    jobs = grid(["ackley", "wlan"], ["w-dbo", "gp-ucb"], seeds=2, protocol=SHORT)
    campaign = conduct(jobs, Store(tmp_path), watch=tallies.append)
    assert campaign.failures == []
    assert len(campaign.summary) == 8
    assert (tallies[-1].total, tallies[-1].done, tallies[-1].failed) == (8, 8, 0)
    assert max(tally.running for tally in tallies) >= 1
    for job, (_, row) in zip(jobs, campaign.summary.iterrows(), strict=True):
        alone = eb.experiments.run(job.problem, job.algorithm, job.seed, SHORT)
        frame = Store(tmp_path).read(job)
        pd.testing.assert_frame_equal(frame[alone.frame.columns], alone.frame, check_exact=True)
        assert row["average_regret"] == alone.average_regret
        assert row["time_weighted_regret"] == alone.time_weighted_regret
        assert (row["problem"], row["algorithm"], row["seed"]) == (job.problem, job.algorithm, job.seed)
        assert row["queries"] == len(frame)
        assert json.loads(row["guards"]) == alone.guards


def test_a_stored_run_says_where_it_comes_from(tmp_path):
    (job,) = grid(["hartmann3"], {"mine": eb.Algorithm(acquisition=eb.EI())}, seeds=1, protocol=SHORT)
    conduct([job], Store(tmp_path))
    about = Store(tmp_path).read(job).attrs
    assert about["problem"] == "hartmann3"
    assert about["algorithm"] == repr(job.algorithm)
    assert about["seed"] == 0
    assert about["protocol"] == SHORT.as_dict()
    assert about["ebbtide"] == eb.__version__
    assert about["numpy"] == np.__version__
    assert about["code"] == code.of_the_engine()
    assert {"scipy", "python", "machine"} <= about.keys()


def test_what_is_stored_is_not_made_again(tmp_path):
    jobs = grid(["shekel"], ["w-dbo", "random"], seeds=1, protocol=SHORT)
    first = conduct(jobs, Store(tmp_path))
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    tallies = []
    again = conduct(jobs, Store(tmp_path), watch=tallies.append)
    assert (tallies[-1].stored, tallies[-1].done) == (2, 0)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps
    pd.testing.assert_frame_equal(first.summary, again.summary)


@pytest.mark.parametrize(
    "other",
    [
        Job("ackley", "w-dbo", "w-dbo", 1, SHORT),
        Job("ackley", "w-dbo", "gp-ucb", 0, SHORT),
        Job("shekel", "w-dbo", "w-dbo", 0, SHORT),
        Job("ackley", "w-dbo", "w-dbo", 0, Protocol(duration=30.0, noise=0.01)),
        Job("ackley", "w-dbo", "w-dbo", 0, Protocol(duration=30.0, compute="measured:30")),
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
        import mine

        keys.add(Job("ackley", "mine", eb.Algorithm(acquisition=mine.Mine()), 0, SHORT).key)
    assert len(keys) == 2
    before = Job("ackley", "w-dbo", "w-dbo", 0, SHORT).key
    monkeypatch.setattr(code, "of_the_engine", lambda: "another digest")
    assert Job("ackley", "w-dbo", "w-dbo", 0, SHORT).key != before


def test_the_digest_is_of_what_decides(tmp_path, monkeypatch):
    """A change of a table's layout leaves it, a change of the engine does not."""
    package = tmp_path / "ebbtide"
    shutil.copytree(Path(eb.__file__).parent, package)
    script = "import ebbtide.experiments.code as c; print(c.__file__, c.of_the_engine())"

    def digest():
        environment = {"PYTHONPATH": str(tmp_path), "PATH": ""}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60)
        file, found = done.stdout.split()
        assert file.startswith(str(tmp_path))
        return found

    first = digest()
    for name in ("experiments/tables.py", "cli/commands.py"):
        (package / name).write_text((package / name).read_text(encoding="utf-8") + "# more\n", encoding="utf-8")
        assert digest() == first
    for name in ("inference.py", "experiments/pace.py"):
        (package / name).write_text((package / name).read_text(encoding="utf-8") + "# more\n", encoding="utf-8")
        assert digest() != first


def test_a_damaged_file_is_made_again(tmp_path):
    jobs = grid(["ackley"], ["random"], seeds=3, protocol=SHORT)
    first = conduct(jobs, Store(tmp_path))
    for job, damage in zip(jobs, (b"", b"PAR1 and then nothing"), strict=False):
        Store(tmp_path).path(job.key).write_bytes(damage)
    tallies = []
    again = conduct(jobs, Store(tmp_path), watch=tallies.append)
    assert (tallies[-1].stored, tallies[-1].done) == (1, 2)
    assert again.summary["average_regret"].tolist() == first.summary["average_regret"].tolist()


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


def test_a_failing_run_is_reported_and_stops_nobody(tmp_path):
    contenders = {"broken": eb.Algorithm(acquisition=Failing()), "w-dbo": "w-dbo"}
    campaign = conduct(grid(["ackley"], contenders, seeds=2, protocol=SHORT), Store(tmp_path))
    assert sorted((failure.job.label, failure.job.seed) for failure in campaign.failures) == [
        ("broken", 0),
        ("broken", 1),
    ]
    assert "ZeroDivisionError: this acquisition never works" in campaign.failures[0].traceback
    assert "in __call__" in campaign.failures[0].traceback
    assert list(campaign.summary["algorithm"]) == ["w-dbo", "w-dbo"]


def test_a_worker_that_dies_costs_only_its_run(tmp_path):
    deadly = eb.Algorithm(acquisition=Deadly(folder=str(tmp_path)))
    store = Store(tmp_path / "runs")
    campaign = conduct(grid(["ackley"], {"deadly": deadly, "w-dbo": "w-dbo"}, seeds=2, protocol=SHORT), store)
    assert (tmp_path / "death-0").exists()  # it did die
    assert campaign.failures == []
    assert len(campaign.summary) == 4
    by_label = campaign.summary.set_index(["algorithm", "seed"])["average_regret"]
    assert by_label["deadly", 0] == by_label["w-dbo", 0]  # UCB all the same, once it lives


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


def test_a_killed_campaign_goes_on_where_it_stopped(tmp_path):
    """The process is killed, twice, while runs are being made; what was written stays as it is."""
    command = [sys.executable, "-m", "ebbtide", "compare", "ackley", "shekel", "hartmann3", "--algorithms"]
    command += ["w-dbo,gp-ucb", "--seeds", "2", "--duration", "80", "--out", str(tmp_path)]
    runs, seen = tmp_path / "runs", {}
    for enough in (2, 5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120.0
        while len(list(runs.glob("*.parquet"))) < enough and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        process.wait()
        assert len(list(runs.glob("*.parquet"))) >= enough
        for path in runs.glob("*.parquet"):
            store.read(path)  # whole
            assert seen.setdefault(path, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
    torn = runs / ".torn.parquet.1.part"
    torn.write_bytes(b"half a file")
    os.utime(torn, (0.0, 0.0))  # long ago
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    stored = int(re.search(r"done, (\d+) stored", done.stderr)[1])
    assert len(seen) <= stored < 12  # a worker of the killed one may have finished its run
    assert len(list(runs.glob("*.parquet"))) == 12
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in seen.items())
    assert not torn.exists()  # what the killed ones were writing just now may stay for an hour: it could be another's
    summary = pd.read_csv(tmp_path / "runs.csv")
    assert len(summary) == 12
    alone = eb.experiments.run("shekel", "gp-ucb", 1, Protocol(duration=80.0))
    (row,) = summary[(summary.problem == "shekel") & (summary.algorithm == "gp-ucb") & (summary.seed == 1)].itertuples()
    assert row.average_regret == pytest.approx(alone.average_regret, rel=1e-12)


@pytest.fixture
def address(tmp_path):
    """A cluster by command line: a scheduler, and a worker in another folder."""
    dask = Path(sys.executable).with_name("dask")
    file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    common = ["--scheduler-file", str(file), "--dashboard-address", "127.0.0.1:0"]
    scheduler = [dask, "scheduler", *common, "--host", "127.0.0.1", "--port", "0"]
    worker = [dask, "worker", *common, "--nthreads", "1"]
    with subprocess.Popen(scheduler, **quiet) as first, subprocess.Popen(worker, **quiet) as second:
        deadline = time.monotonic() + 60.0
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
        second.terminate()
        first.terminate()


def test_an_existing_cluster_is_used(tmp_path, address):
    tallies = []
    jobs = grid(["ackley"], ["w-dbo"], seeds=2, protocol=SHORT)
    campaign = conduct(jobs, Store(tmp_path / "runs"), scheduler=address, watch=tallies.append)
    assert campaign.failures == []
    assert max(tally.running for tally in tallies) == 1
    alone = [eb.experiments.run("ackley", "w-dbo", seed, SHORT).average_regret for seed in (0, 1)]
    assert campaign.summary["average_regret"].tolist() == alone


def test_code_that_a_worker_lacks_fails_its_runs_alone(tmp_path, monkeypatch, address):
    """The module is here and not there: those runs are reported, the others made."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "only_here.py").write_text(
        "from dataclasses import dataclass\nimport ebbtide as eb\n\n"
        "@dataclass(frozen=True)\nclass Mine(eb.UCB):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "here"))
    import only_here

    contenders = {"mine": eb.Algorithm(acquisition=only_here.Mine()), "random": "random"}
    jobs = grid(["ackley"], contenders, seeds=1, protocol=SHORT)
    campaign = conduct(jobs, Store(tmp_path / "runs"), scheduler=address)
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
    run = eb.experiments.run("eggholder", "w-dbo", 0, Protocol(duration=150.0))
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
