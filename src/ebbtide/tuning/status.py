"""The loop's state, and how it is put for people."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.records import Recommendation, Trial, Violations
from ebbtide.study.gain import Gain
from ebbtide.tuning.outcome import Outcome, one_line
from ebbtide.tuning.template import written

STALE = 1.0  # seconds after which what was best is no longer called the best now
KINDS = {"explore": "probe", "hold": "hold", "start": "start", "baseline": "baseline"}


@dataclass(frozen=True)
class Status:
    """The loop's state after an evaluation, or while the study cannot be reached."""

    count: int = 0  # evaluations told since the start of the loop
    failed: int = 0  # of them
    before: int = 0  # evaluations told before
    trial: Trial | None = None
    outcome: Outcome | None = None
    held: tuple[Mapping[str, Any], float] | None = None  # the latest setting held, with its value
    best: Recommendation | None = None
    age: float = 0.0  # seconds since the best was computed
    nothing_known: bool = False  # no value was ever told
    gain: Gain | None = None  # over the baseline
    violations: Violations | None = None  # of the constraints
    context_problem: str | None = None  # why the context of the trial is from earlier
    beside: str | None = None  # why what was printed beside a value was not told
    warnings: tuple[str, ...] = ()
    problem: str | None = None  # of the latest failure
    trouble: str | None = None  # why nothing can be asked or told at present


def line(status: Status, width: int) -> str:
    """A status in one line of at most `width` characters."""
    parts = ["  ".join(filter(None, [_number(status), _now(status)]))]
    if status.gain is not None:  # first, because a narrow terminal cuts the end
        parts.append(f"gain over baseline {in_words(status.gain)}")
    if status.violations is not None:
        parts.append(_broken(status.violations))
    if status.context_problem is not None:
        parts.append(f"context from earlier: {status.context_problem}")
    if status.beside is not None:
        parts.append(f"only the value was told: {status.beside}")
    if status.nothing_known:
        parts.append("nothing is known yet")
    elif status.best is not None:
        when = "now" if status.age < STALE else f"{status.age:.0f} s ago"
        parts.append(f"best {when}: {_believed(status.best)}")
    if status.failed:
        parts.append(": ".join(filter(None, [f"{status.failed} failed", status.problem])))
    text = "   ".join(parts)
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def summary(status: Status) -> list[str]:
    """What there is to say at the end, in sentences."""
    said = []
    if status.nothing_known:
        said.append("Nothing is known yet: no evaluation has given a value.")
    elif status.best is not None:
        said.append(f"Best now: {_believed(status.best)}.")
    if status.held is not None:
        params, value = status.held
        said.append(f"Held last: {_listed(params)} → {_compact(value)}.")
    if (gain := status.gain) is not None:
        said.append(f"Gain over the baseline: {in_words(gain)}, from {gain.comparisons} comparisons.")
    if status.violations is not None and status.violations.rate is not None:
        said.append(f"Constraints: {_broken(status.violations)}.")
    return said


def in_words(gain: Gain) -> str:
    """A gain with its interval: in percent of the baseline, or in the objective's unit if that is 0.

    >>> in_words(Gain(mean=1.2, low=0.4, high=1.9, baseline=10.0, comparisons=7))
    '+12 % (+4 … +19 %)'
    """
    if gain.relative is None:
        return f"{gain.mean:+.3g} ({gain.low:+.3g} … {gain.high:+.3g})"
    mean, low, high = (100.0 * part for part in gain.relative)
    digits = 0 if high - low >= 5.0 else 1
    return f"{mean:+.{digits}f} % ({low:+.{digits}f} … {high:+.{digits}f} %)"


def _broken(violations: Violations) -> str:
    """How often constraints were broken.

    >>> _broken(Violations(rate=0.04, counted=250, target=0.05, per_constraint={}))
    'violations 4.0 % of 250 (wanted: at most 5 %)'
    """
    if violations.rate is None:
        return "no constraint was measured yet"
    wanted = f"wanted: at most {100.0 * violations.target:g} %"
    return f"violations {100.0 * violations.rate:.1f} % of {violations.counted} ({wanted})"


def _number(status: Status) -> str:
    number = f"#{status.before + status.count}"
    return number if status.trial is None or status.trouble is not None else f"{number} {KINDS[status.trial.kind]}"


def _now(status: Status) -> str:
    if status.trouble is not None:
        return status.trouble
    if status.trial is None or status.outcome is None:
        return ""
    value = status.outcome.value
    return f"{_listed(status.trial.params)} → {'failed' if value is None else _compact(value)}"


def _believed(best: Recommendation) -> str:
    return f"{_listed(best.params)}, {_uncertain(best.mean, best.std)}"


def _listed(params: Mapping[str, Any]) -> str:
    return " ".join(f"{one_line(name)}={_compact(value)}" for name, value in params.items())


def _compact(value: Any) -> str:
    if not isinstance(value, float):
        return one_line(written(value))
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def _uncertain(mean: float, std: float) -> str:
    """Two digits of the deviation, and the mean to the same place."""
    if not (0.0 < std < math.inf and math.isfinite(mean)):
        return f"{_compact(mean)} ± {_compact(std)}"
    decimals = max(1 - math.floor(math.log10(std)), 0)
    if decimals > 6 or max(abs(mean), std) >= 1e7:
        return f"{mean:.4g} ± {std:.2g}"
    return f"{mean:.{decimals}f} ± {std:.{decimals}f}"
