"""`perf/live.py` with a system in this process, and the parts of the examples that need no system."""

import doctest
import json
import os
import random
import sqlite3
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import ebbtide as eb
from ebbtide import tuning
from ebbtide.cli.commands import ebbtide
from ebbtide.cli.described import space_of

ROOT = Path(__file__).parents[2]
for folder in ("perf", "examples", "docs"):
    sys.path.insert(0, str(ROOT / folder))
import live_run  # noqa: E402
import running  # noqa: E402
import systems  # noqa: E402
from live_contenders import Default, Ebbtide, Grid, ebbtides, limits_of  # noqa: E402
from live_grids import GRIDS  # noqa: E402
from live_judging import best_static, judged, mean_of_day  # noqa: E402
from live_run import Journal, Measurement, turn  # noqa: E402
from systems import SYSTEMS  # noqa: E402
from systems import tuning as tuning_command  # noqa: E402

for system in SYSTEMS.values():
    sys.path.insert(0, str(system.folder))
import measure_cache  # noqa: E402
import measure_load  # noqa: E402
import measure_pipe  # noqa: E402
import measure_pool  # noqa: E402
import start_cache  # noqa: E402
import start_pipe  # noqa: E402

# --- the run ----------------------------------------------------------------------------------------------------------


class World:
    """A clock and a system: a measurement takes a second, and fails for a pool (the first setting) above 100."""

    def __init__(self, start=0.0, die_after=None):
        self.time, self.left, self.loads = start, die_after, []

    def monotonic(self):
        return self.time

    def measure(self, settings, at):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        self.loads.append(at)
        self.time += 1.0
        pool = next(iter(settings.values()))
        value = None if pool > 100 else pool * at
        return tuning.Outcome(value, None, 1.0, {"p99_ms": pool}, {"customers": 10.0 * at})


def contenders():
    return {"default": Default({"pool": 10}), "grid": Grid([{"pool": pool} for pool in (1, 2, 3, 128)])}


def one_run(folder, seconds, **world):
    there = World(**world)
    return live_run.run(Journal(folder / "journal.jsonl"), contenders(), there.measure, seconds, there.monotonic)


def test_every_contender_measures_once_in_each_round_and_each_begins_in_turn():
    names = ["a", "b", "c", "d"]
    rounds = [[turn(4 * lap + place, names) for place in range(4)] for lap in range(8)]
    assert all(sorted(lap) == names for lap in rounds)
    assert [lap[0] for lap in rounds] == names + names


def test_the_measurements_are_interleaved_and_failures_are_kept(tmp_path):
    done = one_run(tmp_path, 10.0)
    assert [one.contender for one in done] == 2 * ["default", "grid", "grid", "default"] + ["default", "grid"]
    assert [one.settings["pool"] for one in done if one.contender == "grid"] == [1, 2, 3, 128, 1]
    assert [one.value is None for one in done if one.contender == "grid"] == [False, False, False, True, False]
    assert [one.began for one in done] == list(range(10))


@pytest.mark.parametrize("killed", range(8))
def test_a_run_that_was_interrupted_goes_on_as_if_nothing_had_happened(tmp_path, killed):
    expected = one_run(tmp_path / "whole", 9.0)
    with pytest.raises(KeyboardInterrupt):
        one_run(tmp_path / "cut", 9.0, die_after=killed)
    # Later, on a machine that has been up for another time.
    assert one_run(tmp_path / "cut", 9.0, start=5000.0) == expected


def test_a_run_that_is_complete_measures_nothing_more(tmp_path):
    expected = one_run(tmp_path, 5.0)
    assert one_run(tmp_path, 5.0, die_after=0) == expected


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    expected = one_run(tmp_path, 6.0)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert len(Journal(path).read()) == 5
    assert one_run(tmp_path, 6.0) == expected


def test_a_journal_from_before_there_was_a_load_can_be_read(tmp_path):
    line = {"contender": "default", "settings": {"pool": 10}, "value": 1.5, "began": 0.0, "ended": 1.0, "trial": None}
    (tmp_path / "journal.jsonl").write_text(json.dumps(line) + "\n")
    (found,) = Journal(tmp_path / "journal.jsonl").read()
    assert (found.value, found.context, found.constraints) == (1.5, None, None)


# --- the judgement ----------------------------------------------------------------------------------------------------

DAY = 40.0


def measured(contender, pool, values):
    """One value for each time."""
    return [Measurement(contender, {"pool": pool}, value, at, at + 1.0) for at, value in values.items()]


def all_day(day, value):
    """At four times of the day, counted from 1."""
    return {DAY * (day - 1) + at: value for at in (1.0, 11.0, 21.0, 31.0)}


def test_the_static_setting_is_chosen_on_odd_days_and_judged_on_even_ones():
    grid = [
        *measured("grid", 1, all_day(1, 50.0) | all_day(2, 20.0) | all_day(3, 52.0) | all_day(4, 30.0)),
        *measured("grid", 2, all_day(1, 40.0) | all_day(2, 99.0) | all_day(3, 40.0) | all_day(4, 99.0)),
    ]
    default = measured("default", 10, all_day(1, 8.0) | all_day(2, 12.0) | all_day(3, 8.0) | all_day(4, None))
    rows = {row["contender"]: row for row in judged(grid + default, DAY, "grid", {})}
    assert json.loads(str(rows["best static"]["settings"])) == {"pool": 1}
    assert rows["best static"]["even_days"] == 25.0
    assert pd.isna(rows["best static"]["all_days"])
    assert rows["best static"]["later_days"] == 25.0
    assert rows["default"]["all_days"] == 7.0  # what failed counts as 0
    assert rows["default"]["later_days"] == pytest.approx(20.0 / 3.0)
    assert rows["default"]["even_days"] == 6.0
    assert rows["default"]["failed"] == 4
    assert rows["default"]["measured"] == 16


def test_measuring_more_often_at_noon_gains_nothing():
    assert (
        mean_of_day(measured("grid", 1, {1.0: 0.0, 11.0: 8.0, 12.0: 8.0, 13.0: 8.0, 21.0: 8.0, 31.0: 0.0}), DAY) == 4.0
    )


def test_a_setting_that_was_measured_at_noon_only_is_not_the_best_of_the_day():
    grid = measured("grid", 1, all_day(1, 5.0)) + measured("grid", 2, {15.0: 90.0, 25.0: 80.0})
    assert best_static(grid, DAY) == {"pool": 1}


def test_the_table_of_a_page_has_means_and_errors_over_the_runs(monkeypatch):
    import measured_tables

    lines = [
        *(
            {"repeat": r, "contender": "default", "all_days": 100.0, "even_days": 50.0, "measured": 10, "failed": 0}
            for r in (0, 1)
        ),
        {"repeat": 0, "contender": "ebbtide", "all_days": 120.0, "even_days": 70.0, "measured": 10, "failed": 1},
        {"repeat": 1, "contender": "ebbtide", "all_days": 140.0, "even_days": 70.0, "measured": 10, "failed": 0},
        *({"repeat": r, "contender": "best static", "even_days": 60.0, "measured": 4, "failed": 0} for r in (0, 1)),
    ]
    monkeypatch.setattr(measured_tables, "data", lambda name: pd.DataFrame(lines))
    table = measured_tables.live("live-postgresql")
    assert table.header is not None
    assert table.header() == ["", "all days", "even days", "above the default", "failed"]
    assert table.rows() == [
        ["default", "100.0 ± 0.0", "50.0 ± 0.0", "–", "0 %"],
        ["ebbtide", "130.0 ± 10.0", "70.0 ± 0.0", "30.0 ± 10.0 %", "5 %"],
        ["best static", "–", "60.0 ± 0.0", "20.0 ± 0.0 %", "0 %"],
    ]


def test_the_table_has_a_column_for_the_days_after_the_first_if_they_were_judged():
    import measured
    import measured_live

    rows = [
        {"contender": "default", "all_days": 100.0, "later_days": 90.0, "even_days": 50.0, "measured": 10, "failed": 0},
        {"contender": "grid", "later_days": 95.0, "even_days": 60.0, "measured": 4, "failed": 0},
    ]
    found = pd.DataFrame([{"repeat": 0, **row} for row in rows])
    header = measured_live.header(found)
    assert header == ["", "all days", "from the second day on", "even days", "above the default", "failed"]
    assert measured_live.rows(found)[1] == ["grid", "–", "95.0", "60.0", "20.0 %", "0 %"]
    assert measured._header(["", "failed"]) == "| | failed |\n|---|---|\n"


# --- the contenders ---------------------------------------------------------------------------------------------------


def run_with_the_day(folder, seconds, **world):
    there = World(**world)
    told = Ebbtide("told", SYSTEMS["zstd-pipe"], 0, folder / "study.db", {"cycles": {"day": 8.0}})
    return live_run.run(Journal(folder / "journal.jsonl"), {"told": told}, there.measure, seconds, there.monotonic)


def test_a_study_that_was_told_of_the_day_goes_on_after_an_interruption(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_with_the_day(tmp_path, 12.0, die_after=9)
    done = run_with_the_day(tmp_path, 12.0, start=5000.0)
    assert [one.began for one in done] == list(range(12))
    assert done[0].settings == SYSTEMS["zstd-pipe"].default
    with eb.Optimizer.open(f"sqlite:///{tmp_path / 'study.db'}", "told") as study:
        assert (study.asked, study.told) == (13, 12)
        assert study.definition.conditions.cycles == {"day": 8.0}
        assert [seen.value for seen in study.history] == [one.value for one in done]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_contender_that_is_told_of_the_day(name, tmp_path):
    contenders = ebbtides(SYSTEMS[name], 0, 60.0, tmp_path / "study.db")
    assert contenders["ebbtide"].told == {}
    assert contenders["ebbtide, told of the day"].told == {"cycles": {"day": 60.0}}


def run_with_the_load(folder, seconds, **world):
    there = World(**world)
    told = ebbtides(SYSTEMS["postgresql"], 0, 8.0, folder / "study.db")
    return live_run.run(Journal(folder / "journal.jsonl"), told, there.measure, seconds, there.monotonic)


def test_on_postgresql_studies_are_told_of_the_load_and_of_the_limit(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_with_the_load(tmp_path, 16.0, die_after=7)
    done = run_with_the_load(tmp_path, 16.0, start=5000.0)
    assert [one.context for one in done] == [{"customers": 10.0 * at} for at in range(16)]
    assert all(one.constraints == {"p99_ms": one.settings["pool"]} for one in done)
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    with eb.Optimizer.open(storage, "ebbtide, told of the load") as study:
        mine = [one for one in done if one.contender == "ebbtide, told of the load"]
        assert [seen.context for seen in study.history] == [one.context for one in mine]
        assert study.trial(mine[1].trial).context == measure_load.load(mine[1].began, 8.0)  # as known at the ask
        assert study.violations is None
    with eb.Optimizer.open(storage, "ebbtide, told of the load and the limit") as study:
        assert study.violations.counted == 4
        assert study.violations.target == 0.05
    with eb.Optimizer.open(storage, "ebbtide") as study:
        assert not study.definition.conditions.given


def test_how_often_a_limit_was_broken_is_counted_for_everybody():
    p99 = [("ebbtide", 40.0), ("ebbtide", 51.0), ("ebbtide", 60.0), ("ebbtide", 50.0), ("default", 10.0)]
    done = [Measurement(name, {"pool": 1}, 1.0, 0.0, 1.0, constraints={"p99_ms": value}) for name, value in p99]
    done.append(Measurement("ebbtide", {"pool": 128}, None, 0.0, 1.0))  # it failed, and has no p99
    rows = {row["contender"]: row for row in judged(done, DAY, "grid", limits_of(SYSTEMS["postgresql"]))}
    assert rows["ebbtide"]["violations"] == 0.5
    assert rows["default"]["violations"] == 0.0
    assert limits_of(SYSTEMS["zstd-pipe"]) == {}


def test_the_table_says_how_often_the_limit_was_broken():
    import measured_live

    row = {"repeat": 0, "contender": "default", "all_days": 9.0, "even_days": 9.0, "measured": 1, "failed": 0}
    found = pd.DataFrame([row | {"violations": 0.125}])
    assert measured_live.header(found)[-2:] == ["failed", "broke the limit"]
    assert measured_live.rows(found)[0][-2:] == ["0 %", "12.5 %"]


def test_the_figure_shows_the_contenders_that_took_part(tmp_path):
    from live_figure import draw

    system = SYSTEMS["postgresql"]
    measurements = [
        Measurement(name, {"pool": pool, "work_mem": 64}, 9.0 * pool, at, at + 1.0)
        for at, (name, pool) in enumerate([("ebbtide", 1), ("ebbtide, told of the day", 2), ("grid", 3), ("grid", 3)])
    ]
    draw(tmp_path / "run.png", system, space_of(system.space), measurements, 4.0, "grid")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


# --- the systems ------------------------------------------------------------------------------------------------------


def test_the_examples_in_the_docstrings():
    for module in (running, live_run, measure_load, measure_pool):
        assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_default_and_the_grid_lie_within_the_ranges(name):
    space = space_of(SYSTEMS[name].space)
    distinct = {json.dumps(settings) for settings in GRIDS[name]}
    assert len(distinct) == len(GRIDS[name]) >= 12
    for settings in (SYSTEMS[name].default, *GRIDS[name]):
        space.check(settings)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_command_takes_every_setting(name):
    system = SYSTEMS[name]
    tuning.check(list(space_of(system.space).parameters), system.command(), None)
    assert (system.folder / system.script).exists()


def test_with_the_load_the_same_settings_are_tuned():
    system = SYSTEMS["postgresql"]
    assert space_of(system.space_with_load).to_json() == space_of(system.space).to_json()


def first_trial(command, value):
    """`ebbtide tune` as a system is tuned, but with a measurement that prints `value`."""
    options = command[3:]  # after python -m ebbtide
    at = options.index("--")
    stub = [sys.executable, "-c", "import os; print(os.environ['PRINTED'])", *options[at + 1 :]]
    run = [*options[:at], "--trials", "1", "--", *stub]
    done = CliRunner(env={"PRINTED": value}).invoke(ebbtide, run)
    assert done.exit_code == 0, done.output
    study = options[options.index("--name") + 1]
    return eb.Optimizer.open(options[options.index("--storage") + 1], study)


@pytest.mark.parametrize("name", SYSTEMS)
def test_make_run_tunes_a_study_that_knows_the_day_and_begins_with_the_default(name, tmp_path):
    database, system = tmp_path / "study.db", SYSTEMS[name]
    with first_trial(tuning_command(system, database), "1.0") as study:
        assert study.definition.conditions.cycles == {"day": 300.0}
        assert study.definition.live.baseline_every == 20
        assert study.history[0].params == system.default


def test_make_run_with_load_measures_the_load_and_counts_the_violations(tmp_path):
    printed = json.dumps({"value": 9.0, "constraints": {"p99_ms": 51.0}, "context": {"customers": 40}})
    command = tuning_command(SYSTEMS["postgresql"], tmp_path / "study.db", with_load=True)
    with first_trial(command, printed) as study:
        assert study.definition.conditions.cycles == {}
        assert study.history[0].context == {"customers": 40.0}
        assert study.violations.rate == 1.0
        assert study.violations.target == 0.05


def test_a_system_whose_load_is_not_measured_is_not_run_with_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["systems.py", "zstd-pipe", "--with-load"])
    with pytest.raises(SystemExit):
        systems.main()
    assert "the load of zstd-pipe is not measured, only that of postgresql" in capsys.readouterr().err


def test_the_load_of_postgresql_goes_from_reports_to_customers():
    shares = [measure_load.load(at, 300.0)["customers"] for at in (0.0, 75.0, 150.0, 225.0, 300.0)]
    assert shares == [0, 50, 100, 50, 0]
    commands = [measure_pool.pgbench(10, share, Path("logs")) for share in shares[:2]]
    assert [(argv[-3], argv[-1]) for argv in commands] == [
        ("browse.sql@0", "report.sql@100"),
        ("browse.sql@50", "report.sql@50"),
    ]


def test_the_latencies_are_those_of_all_threads(tmp_path):
    # client, number, µs, script, seconds and µs since 1970, as pgbench --log writes them
    (tmp_path / "transactions.4711").write_text("0 1 12345 0 1700000000 5\n0 2 20000 1 1700000000 9\n")
    (tmp_path / "transactions.4711.1").write_text("1 1 1500 0 1700000000 7\n")
    assert sorted(measure_pool.latencies_ms(tmp_path)) == [1.5, 12.345, 20.0]
    assert measure_pool.p99([20.0, 1.5]) == 20.0


REPORT = """pgbench (15.18 (Debian 15.18-0+deb12u1))
number of clients: 10
number of transactions actually processed: 1207
number of transactions above the 30.0 ms latency limit: 181/1207 (14.996%)
latency average = 8.270 ms
tps = 1210.500000 (without initial connection time)
"""


def test_only_transactions_within_the_limit_are_goodput():
    assert measure_pool.goodput(REPORT) == pytest.approx(1210.5 * 1026 / 1207)
    assert measure_pool.goodput(REPORT.replace("181/1207", "0/0")) == 0.0
    with pytest.raises(ValueError, match="not a report"):
        measure_pool.goodput("connection refused")


@pytest.mark.parametrize(("level", "option"), [(19, "-19"), (1, "-1"), (0, "--fast=1"), (-5, "--fast=6")])
def test_levels_below_one_are_the_fast_ones(level, option):
    assert measure_pipe.compressor(level, 21)[1:3] == [option, "--zstd=wlog=21"]


def test_the_log_is_the_same_every_time_and_every_line_is_json():
    log = start_pipe.access_log(20_000)
    assert log == start_pipe.access_log(20_000)
    assert 20_000 <= len(log) < 21_000
    assert {"time", "session", "path"} <= set(json.loads(log.splitlines()[-1]))


def test_the_link_carries_everything_unchanged():
    pipes = [os.pipe(), os.pipe()]
    sent = bytes(range(256)) * 200
    with (
        open(pipes[0][0], "rb") as source,
        open(pipes[1][1], "wb", buffering=0) as target,
        open(pipes[1][0], "rb") as out,
    ):
        link = threading.Thread(target=measure_pipe.carry, args=(source, target, 1e9))
        link.start()
        with open(pipes[0][1], "wb") as into:
            into.write(sent)
        assert out.read() == sent
        link.join()


def test_a_page_of_the_shop_begins_with_its_version_and_comes_with_its_block(tmp_path):
    start_cache.fill(tmp_path / "shop.db", products=40)
    shop = measure_cache.Shop(str(tmp_path / "shop.db"), random.Random(0))
    shop.change(100)
    pages = shop.pages(13, block=8)
    assert sorted(pages) == list(range(8, 16))
    assert {key: int(page.partition(b"|")[0]) for key, page in pages.items()} == dict(enumerate(shop.versions[8:16], 8))
    assert sum(shop.versions) == 100
    with sqlite3.connect(tmp_path / "shop.db") as database:
        sold = database.execute("SELECT sum(amount) FROM sale WHERE product = 13").fetchone()[0]
    database.close()
    assert int(pages[13].rpartition(b"|")[2]) == sold
    shop.database.close()


def test_variables_of_a_system_are_gone_afterwards(monkeypatch):
    monkeypatch.setenv("PGPORT", "5432")
    monkeypatch.delenv("REDIS_PORT", raising=False)
    with running.environment({"PGPORT": "1", "REDIS_PORT": "2"}):
        assert (os.environ["PGPORT"], os.environ["REDIS_PORT"]) == ("1", "2")
    assert os.environ["PGPORT"] == "5432"
    assert "REDIS_PORT" not in os.environ
