"""What a timing must do."""

import math

from ebbtide.parts.timing import Memory, Occasion, Timing, Window
from ebbtide.testing.expectations import expect, expect_plain


def _life(timing: Timing) -> list[tuple[Occasion, Window]]:
    """One ask per second, with l_T unknown at first, then settling; each gets the memory that the last one returned."""
    memory: Memory = {}
    life = []
    for k in range(30):
        timescale = None if k < 3 else 20.0 + 30.0 / k
        occasion = Occasion(float(k), k + 0.25, timescale, until=25.0, memory=dict(memory))
        window = timing.window(occasion)
        life.append((occasion, window))
        memory = window.memory
    return life


def gives_a_window_that_is_not_in_the_past(timing: Timing) -> None:
    for occasion, window in _life(timing):
        finite = math.isfinite(window.earliest) and math.isfinite(window.latest)
        expect(finite, f"a window must have two finite times, got {window}")
        ordered = occasion.now <= window.earliest <= window.latest
        expect(ordered, f"expected now ({occasion.now}) ≤ earliest ≤ latest, got {window}")


def keeps_a_plain_memory(timing: Timing) -> None:
    for _, window in _life(timing):
        expect_plain(window.memory, "the memory of a timing")


def repeats_itself(timing: Timing) -> None:
    """The same occasion gives the same window: a timing has no memory except the one that it returns."""
    for occasion, window in _life(timing):
        expect(timing.window(occasion) == window, f"the same occasion gave two windows: {occasion}")


TIMING_CHECKS = (gives_a_window_that_is_not_in_the_past, keeps_a_plain_memory, repeats_itself)
