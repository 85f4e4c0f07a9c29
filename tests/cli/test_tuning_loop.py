"""The loop over evaluations: its pace, failures, troubles and Ctrl-C; and what it says of itself."""

import json
import math
import re
import signal
import subprocess
import sys
from itertools import pairwise

import pytest
from helpers.tuning import AMPLE

import ebbtide as eb
from ebbtide.errors import ConfigurationError, NumericalError, ObservationError, ServiceError, StorageError
from ebbtide.study.gain import Gain
from ebbtide.tuning import Outcome, Status, check, duration, evaluator, line, looked, summary, tune
from ebbtide.tuning.status import in_words

pytestmark = pytest.mark.usefixtures("little_grace")


class Hours:
    """Time that passes only while someone sleeps or works."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Study:
    """The verbs, and nothing else."""

    def __init__(self, hours=None, looking=0.0):
        self.asked, self.told, self.looks, self.troubles = 0, [], [], []
        self.hours, self.looking = hours, looking

    def _trouble(self):
        if self.troubles and (error := self.troubles.pop(0)):
            raise error

    def ask(self, *, lease=None):
        self._trouble()
        self.asked += 1
        return eb.Trial(str(self.asked), {"x": 0.5}, 0.0)

    def tell(self, trial, value=None, *, failed=False, abandoned=False):
        self._trouble()
        if value is not None and value > 1e6:
            raise ObservationError(f"value={value!r} is too much")
        self.told.append((trial.id, "failed" if failed else "abandoned" if abandoned else value))

    def recommend(self):
        if not any(isinstance(outcome, float) for _, outcome in self.told):
            raise eb.NothingKnownError("nothing was told")
        self.looks.append(self.hours.now)
        self.hours.now += self.looking
        if len(self.looks) == 2:
            raise NumericalError("not now")
        return eb.Recommendation({"x": 0.25}, 1.0, 0.1, self.hours.now)


def run(study, hours, outcomes, every=None):
    """The loop over outcomes as (seconds, value); when each evaluation started, and what was shown."""
    starts, shown, left = [], [], list(outcomes)

    def evaluate(params):
        starts.append(hours.now)
        seconds, value = left.pop(0)
        hours.now += seconds
        return Outcome(value, None if value is not None else "broken", seconds)

    options = {"sleep": hours.sleep, "monotonic": hours, "stop_after": len(left)}
    tune(study, evaluate, every=every, show=shown.append, **options)
    return starts, shown


def test_evaluations_start_at_a_pace_and_do_not_bunch_up():
    hours = Hours()
    outcomes = [(1, 1.0), (25, 1.0), (1, 1.0), (10, 1.0), (1, None), (1, 1.0)]
    starts, _ = run(Study(hours), hours, outcomes, every=10.0)
    assert starts == [0, 10, 35, 45, 55, 65]
    assert hours.slept == [9, 9, 9]  # and not after the last


def test_without_a_pace_one_follows_the_other_but_failures_make_no_storm():
    hours = Hours()
    starts, _ = run(Study(hours), hours, [(0.25, 1.0), (0.25, None), (0.25, None), (5, None), (1, 1.0)])
    assert starts == [0, 0.25, 1.25, 2.25, 7.25]


def test_failures_are_told_and_counted():
    hours = Hours()
    study = Study(hours)
    _, shown = run(study, hours, [(1, None), (1, 2.0), (1, 1e7), (1, 3.0)])
    assert study.told == [("1", "failed"), ("2", 2.0), ("3", "failed"), ("4", 3.0)]
    assert [(s.count, s.failed) for s in shown] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert [s.outcome.value for s in shown] == [None, 2.0, None, 3.0]
    assert shown[1].problem == "broken"
    assert shown[3].problem == shown[2].outcome.problem == "value=10000000.0 is too much"
    assert shown[0].best is None
    assert [s.nothing_known for s in shown] == [True, False, False, False]
    assert shown[1].best.params == {"x": 0.25}


def test_the_best_is_looked_up_now_and_then_whatever_that_does():
    hours = Hours()
    study = Study(hours)
    _, shown = run(study, hours, [(0.3, 1.0)] * 12)
    assert len(study.looks) == 3
    assert all(after - before >= 1.0 for before, after in pairwise(study.looks))
    assert [s.best is None for s in shown] == [False] * 4 + [True] * 4 + [False] * 4
    assert [s.age for s in shown] == pytest.approx([0.0, 0.3, 0.6, 0.9] * 3)
    hours = Hours()
    slow = Study(hours, looking=3.0)
    run(slow, hours, [(1, 1.0)] * 40)
    assert len(slow.looks) == 3  # a tenth of the time, after the first


def test_what_may_pass_is_waited_for_and_nothing_is_lost():
    hours = Hours()
    study = Study(hours)
    full = StorageError("the disk is full")
    study.troubles = [ServiceError("no route"), None, full, full, None, NumericalError("singular"), None, full]
    starts, shown = run(study, hours, [(1, 7.0), (1, None)], every=5.0)
    assert study.told == [("1", 7.0), ("2", "failed")]
    assert starts == [1, 6]
    assert hours.slept == [1, 1, 2, 1, 1]
    assert [s.trouble for s in shown if s.trouble] == [
        "no route; trying again in 1 s",
        "the disk is full; trying again in 1 s",
        "the disk is full; trying again in 2 s",
        "singular; trying again in 1 s",
        "the disk is full; trying again in 1 s",
    ]
    assert [(s.count, s.failed) for s in shown if not s.trouble] == [(1, 0), (2, 1)]
    study.troubles = [full] * 9
    hours.slept.clear()
    run(study, hours, [(1, 1.0)])
    assert hours.slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_clock_that_cannot_be_reached_yet_is_waited_for():
    class Remote(Study):
        @property
        def clock(self):
            self._trouble()
            return eb.ManualClock(start=5.0)

    hours = Hours()
    study = Remote(hours)
    study.troubles = [ServiceError("no route")]
    starts, shown = run(study, hours, [(1, 7.0)])
    assert starts == [1]
    assert "no route" in shown[0].trouble


def test_other_errors_of_the_study_end_the_loop():
    study = Study()
    study.troubles = [None, eb.UnknownStudyError("deleted")]
    with pytest.raises(eb.UnknownStudyError):
        run(study, Hours(), [(1, 1.0)])


def test_a_trial_that_somebody_else_has_told_is_let_go():
    """By `ebbtide tell`, say, or by another loop while this one was suspended."""
    opt = stored(eb.ManualClock())
    shown: list[Status] = []
    values = [1.0, 2.0, None, 4.0]

    def evaluate(params):
        if opt.told < 3:
            opt.tell(opt.trial(opt.asked - 1), abandoned=True)
        return Outcome(values[opt.asked - 1], None if values[opt.asked - 1] else "broken", 1.0)

    tune(opt, evaluate, every=None, show=shown.append, stop_after=4, sleep=lambda seconds: None)
    assert [(o.value, o.abandoned) for o in opt.history] == [(None, True)] * 3 + [(4.0, False)]
    assert [(s.count, s.failed) for s in shown] == [(1, 1), (2, 2), (3, 3), (4, 3)]
    assert "was told that it was abandoned before and 2.0 now" in (shown[1].problem or "")


def test_whatever_goes_wrong_with_what_is_only_shown():
    class Confused(Study):
        warnings = ("half of the latest evaluations failed",)

        def recommend(self):
            raise OverflowError("a bug")

    study = Confused()
    _, shown = run(study, Hours(), [(1, 1.0), (1, 2.0)])
    assert study.told == [("1", 1.0), ("2", 2.0)]
    assert [(s.best, s.warnings) for s in shown] == [(None, Confused.warnings)] * 2


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_a_trial_that_is_called_off_is_abandoned(stopped):
    def evaluate(params):
        raise stopped

    study = Study()
    with pytest.raises(stopped):
        tune(study, evaluate, every=None, show=print)
    assert study.told == [("1", "abandoned")]
    study.troubles = [None, StorageError("full")]
    with pytest.raises(stopped):  # and without waiting for the disk
        tune(study, evaluate, every=None, show=print)


def test_ctrl_c_while_a_trial_waits_for_its_moment():
    class Impatient:
        def now(self):
            raise KeyboardInterrupt

    study = Study()
    study.clock = Impatient()  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        tune(study, pytest.fail, every=None, show=print)  # type: ignore[arg-type]
    assert study.told == [("1", "abandoned")]


def stored(clock, **options):
    return eb.Optimizer({"x": eb.Float(0.0, 1.0)}, clock=clock, seed=0, **options)


def test_what_a_killed_loop_left_behind_is_abandoned_once_its_lease_is_over():
    clock = eb.ManualClock(start=100.0)
    opt = stored(clock)
    for lease in (40.0, 40.0, 60.0, None):  # the first two are of a loop with our lease
        opt.ask(lease=lease)
        clock.advance(30.0)
    shown: list[Status] = []

    def evaluate(params):
        clock.advance(5.0)
        return Outcome(1.0, None, 5.0)

    tune(opt, evaluate, every=None, show=shown.append, stop_after=1, lease=40.0)
    assert [(o.trial_id, o.abandoned) for o in opt.history] == [("0", True), ("1", True), ("4", False)]
    assert [trial.id for trial in opt.pending_trials] == ["2", "3"]  # somebody may still tell them
    opt.ask(lease=40.0)
    tune(opt, evaluate, every=None, show=shown.append, stop_after=1, lease=40.0)
    assert [trial.id for trial in opt.pending_trials] == ["2", "3", "5"]  # another loop may be at it
    for _ in range(9):
        tune(opt, evaluate, every=None, show=shown.append, stop_after=1, lease=40.0)
    assert [trial.id for trial in opt.pending_trials] == ["2", "3"]
    assert all(o.value == 1.0 or o.abandoned for o in opt.history)


def test_the_count_goes_on_from_what_was_told_before():
    clock = eb.ManualClock()
    opt = stored(clock)
    shown: list[Status] = []
    for _ in range(2):
        tune(opt, lambda params: Outcome(1.0, None, 0.0), every=None, show=shown.append, stop_after=2)
    assert [line(s, 80).partition(" ")[0] for s in shown] == ["#1", "#2", "#3", "#4"]


def test_what_each_trial_is_for_and_the_gain_over_the_baseline():
    clock = eb.ManualClock()
    opt = stored(clock, start={"x": 0.9}, explore=0.25, baseline={"x": 0.9}, baseline_every=4, direction="maximize")
    shown: list[Status] = []
    hours = Hours()

    def evaluate(params):
        clock.advance(1.0)
        hours.now += 2.0
        return Outcome(10.0 - 10.0 * abs(params["x"] - 0.5), None, 1.0)

    tune(opt, evaluate, every=None, show=shown.append, stop_after=40, sleep=hours.sleep, monotonic=hours)
    lines = [line(s, 1000) for s in shown]
    assert lines[0].startswith("#1 start  x=0.9 → 6")
    words = [text.split()[1] for text in lines]
    assert {"start", "probe", "hold", "baseline"} == set(words)
    assert words == [{"explore": "probe"}.get(o.kind, o.kind) for o in opt.history]
    assert "gain over baseline" not in lines[5]
    gain = opt.gain
    assert gain is not None
    assert gain.baseline == pytest.approx(6.0)
    mean, low, high = gain.relative
    assert 0.0 < low <= mean <= high < 0.7  # 10 instead of 6 at best
    assert f"gain over baseline +{100 * mean:.0f} % (+{100 * low:.0f} … +{100 * high:.0f} %)" in lines[-1]
    said = summary(looked(opt, shown[-1]))
    for word, text in zip(("Best now", "Held last"), said[:2], strict=True):
        found = re.match(rf"{word}: x=([\d.]+)", text)
        assert found is not None
        assert float(found[1]) == pytest.approx(0.5, abs=0.05)
    assert said[2] == f"Gain over the baseline: {in_words(gain)}, from {gain.comparisons} comparisons."


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (Gain(1.2, 0.4, 1.9, 10.0, 7), "+12 % (+4 … +19 %)"),
        (Gain(-0.11, -0.2, -0.02, 10.0, 7), "-1.1 % (-2.0 … -0.2 %)"),
        (Gain(1.5, 0.5, 2.5, -10.0, 7), "+15 % (+5 … +25 %)"),  # better by a size of the baseline's value
        (Gain(0.25, -0.5, 1.0, 0.0, 7), "+0.25 (-0.5 … +1)"),
    ],
)
def test_a_gain_in_words(gain, text):
    assert in_words(gain) == text


def test_ctrl_c_between_two_evaluations():
    def sleep(seconds):
        raise KeyboardInterrupt

    study = Study(Hours())
    with pytest.raises(KeyboardInterrupt):
        tune(study, lambda params: Outcome(1.0, None, 0.0), every=100.0, show=lambda status: None, sleep=sleep)
    assert study.told == [("1", 1.0)]


@pytest.mark.parametrize("algorithm", ["w-dbo", "abo"])
def test_an_optimizer_is_measured_at_the_moments_it_asks_for(algorithm):
    clock = eb.ManualClock()
    opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, algorithm=algorithm, clock=clock, seed=0)
    shown, measured = [], []

    def evaluate(params):
        measured.append(clock.now())
        clock.advance(1.0)
        value = (params["x"] - 0.5 - 0.2 * math.sin(clock.now() / 30.0)) ** 2
        return Outcome(None, "broken", 1.0) if len(measured) == 3 else Outcome(value, None, 1.0)

    hours = Hours()
    tune(opt, evaluate, every=None, show=shown.append, stop_after=15, sleep=hours.sleep, monotonic=hours)
    assert measured == [status.trial.time for status in shown]
    assert [observation.time for observation in opt.history] == measured
    assert [observation.failed for observation in opt.history] == [i == 2 for i in range(15)]
    assert shown[0].best is not None


def test_a_real_command_on_the_systems_clock(tmp_path):
    opt = eb.Optimizer({"power": eb.Float(1.0, 9.0), "codec": eb.Categorical(["a", "b; exit 1"])}, seed=0)
    script = 'echo "measuring $1"; echo "$0"'
    argv = ["sh", "-c", script, "{power}", "{codec}"]
    check(opt.space.parameters, argv, None)
    lines = []
    tune(opt, evaluator(argv, None, AMPLE), every=0.01, show=lambda s: lines.append(line(s, 100)), stop_after=8)
    assert [o.value for o in opt.history] == [o.params["power"] for o in opt.history]
    assert len(lines) == 8
    assert lines[-1].startswith("#8 probe  power=")
    assert "best now: power=" in lines[-1]


INTERRUPTED = """
import json, signal, sys
import ebbtide as eb
from ebbtide.tuning import evaluator, tune

signal.signal(signal.SIGINT, signal.default_int_handler)
opt = eb.Optimizer({"x": eb.Float(0.0, 1.0)}, seed=0)
try:
    tune(opt, evaluator(json.loads(sys.argv[1]), None, 1000.0), every=1.0, show=print)
except KeyboardInterrupt:
    print(json.dumps([observation.abandoned for observation in opt.history]))
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_command_and_tells_that_it_was_called_off(lifeline):
    command = json.dumps(lifeline.holding("sleep 1000 & sleep 1000"))
    loop = subprocess.Popen([sys.executable, "-c", INTERRUPTED, command], stdout=subprocess.PIPE, text=True)
    with loop:
        lifeline.wait_for_a_sign()
        loop.send_signal(signal.SIGINT)
        said, _ = loop.communicate(timeout=AMPLE)
    assert loop.returncode == 0
    assert json.loads(said) == [True]
    lifeline.assert_ended()


# --- for people -----------------------------------------------------------------------------------------------

TRIAL = eb.Trial("7", {"power": 3.21044, "width": 4, "codec": "a\nb", "fast": True}, 0.0)
BEST = eb.Recommendation({"power": 12345.678, "width": 4}, 4.8, 0.2149, 0.0)


def test_a_status_line():
    status = Status(
        count=123, failed=2, trial=TRIAL, outcome=Outcome(4.52, None, 1.0), best=BEST, problem="exit code 1"
    )
    full = "#123 probe  power=3.21 width=4 codec=a b fast=true → 4.52   best now: power=12346 width=4, 4.80 ± 0.21"
    full += "   2 failed: exit code 1"
    assert line(status, 200) == line(status, len(full)) == full
    assert line(status, 20) == full[:19] + "…"
    assert all(len(line(status, width)) <= width for width in range(1, 150))


def test_other_status_lines():
    assert line(Status(), 80) == "#0"
    failed = Status(count=1, failed=1, trial=TRIAL, outcome=Outcome(None, "boo", 1.0), problem="boo")
    assert line(failed, 80) == "#1 probe  power=3.21 width=4 codec=a b fast=true → failed   1 failed: boo"
    unknown = Status(before=4, count=1, trial=TRIAL, outcome=Outcome(None, "boo", 1.0), nothing_known=True)
    assert line(unknown, 90) == "#5 probe  power=3.21 width=4 codec=a b fast=true → failed   nothing is known yet"
    assert line(Status(best=BEST, age=0.9), 80) == "#0   best now: power=12346 width=4, 4.80 ± 0.21"
    assert line(Status(best=BEST, age=12.3), 80) == "#0   best 12 s ago: power=12346 width=4, 4.80 ± 0.21"
    assert summary(Status(nothing_known=True)) == ["Nothing is known yet: no evaluation has given a value."]
    assert (
        line(Status(count=3, trial=TRIAL, trouble="full; trying again in 1 s"), 80) == "#3  full; trying again in 1 s"
    )


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (4.8, 0.2149, "4.80 ± 0.21"),
        (1234.5, 30.0, "1234 ± 30"),
        (0.5, 1e-12, "0.5 ± 1e-12"),
        (-3e9, 2e8, "-3e+09 ± 2e+08"),
        (2.0, 0.0, "2 ± 0"),
        (1.0, 9.99, "1.0 ± 10.0"),
    ],
)
def test_a_belief_has_sensible_digits(mean, std, text):
    assert line(Status(best=eb.Recommendation({"x": 1}, mean, std, 0.0)), 80) == f"#0   best now: x=1, {text}"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("1.5", 1.5), (" .5 s ", 0.5), ("3.", 3.0)],
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-1s", "0", "0ms", "nan", "inf", "1e3", "5d", "1 0", "٣s", "9" * 400, "400000h"]
)
def test_what_is_no_duration(text):
    with pytest.raises(ConfigurationError, match=re.escape(repr(text))):
        duration(text)
