"""What somebody who runs a study should know, in plain sentences: why it may not pay, and what to do about it."""

import numpy as np

from ebbtide.clock import DAY, GRACE, SystemClock, is_far_ahead
from ebbtide.study.broken_limits import broken_limits
from ebbtide.study.engine import Engine
from ebbtide.study.unknown_cycle import unknown_cycle

ENOUGH = 15  # measurements per l_T: below, a fixed setting is often as good (docs/how-often.md)
CERTAIN = 30  # values without which the fitted l_T says little
LATELY = 20  # evaluations among which failures are counted
AT_FLOOR = 1.05  # of the lowest l_T that is fitted


def advice(engine: Engine) -> list[str]:
    """The sentences that apply now; none if there is nothing to say."""
    sentences = (
        _wrong_clock(engine),
        _drift(engine),
        unknown_cycle(engine),
        broken_limits(engine),
        _failures(engine),
        _no_holds(engine),
    )
    return [sentence for sentence in sentences if sentence is not None]


def _wrong_clock(engine: Engine) -> str | None:
    """Whether the machine's clock was far ahead when something was recorded; or is wrong now."""
    now, latest = SystemClock().now(), engine.latest_reading
    if not (engine.by_system_clock and is_far_ahead(latest, now)):
        return None
    ahead = int((engine.active.dataset.t > now + GRACE).sum())
    return (
        f"The last time recorded is {(latest - now) / DAY:,.1f} days ahead of this machine's clock, and {ahead} active "
        "observations are dated in the future. If the clock is right now, set them aside: `ebbtide forget-future`; if "
        "it is wrong, set it and start again."
    )


def _drift(engine: Engine) -> str | None:
    """Whether the objective changes too fast for the rate at which it is measured."""
    hyper, active = engine.state.hyper, engine.active
    if hyper is None or hyper.timescale is None or active.values_told < CERTAIN:
        return None
    interval, span = active.interval, engine.span_of(hyper.timescale)
    if (count := span / interval) >= ENOUGH:
        return None
    unit = " s" if engine.definition.clock == "SystemClock" else ""
    at_floor = hyper.timescale <= AT_FLOOR * engine.axis.limits().floor
    doubt = ", or even fewer, or they are mostly noise" if at_floor else ""
    return (
        f"The objective changes within about {count:.0f} measurements{doubt} "
        f"(l_T = {span:.3g}{unit}, one measurement every {interval:.2g}{unit}). Below about {ENOUGH} per l_T a fixed "
        f"setting is often as good: measure every {span / ENOUGH:.2g}{unit} or more often, tune fewer parameters, or "
        "narrow their ranges."
    )


def _failures(engine: Engine) -> str | None:
    """Whether half of the latest evaluations failed."""
    failed, worked = engine.active.failures[1], engine.active.recent_times
    times = np.concatenate([worked, failed])
    if len(times) < LATELY:
        return None
    latest = np.argsort(times, kind="stable")[-LATELY:]
    count = int(np.sum(latest >= len(worked)))
    if 2 * count < LATELY:
        return None
    return (
        f"{count} of the last {LATELY} evaluations failed: check that the system can be measured, and leave out the "
        "settings that cannot work by narrowing the ranges of the parameters."
    )


def _no_holds(engine: Engine) -> str | None:
    """Whether there is a baseline, but nothing to compare it with."""
    live = engine.definition.live
    if live.baseline is None or live.explore < 1.0:
        return None
    return (
        "There is a baseline, but no gain over it can be shown: every other ask probes (explore is 1), and none holds "
        "the recommended setting. Give explore, such as 0.2."
    )
