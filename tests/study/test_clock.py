import math
import time

import pytest

import ebbtide as eb


def test_the_system_clock_counts_seconds_since_the_epoch():
    assert abs(eb.SystemClock().now() - time.time()) < 5.0


def test_the_system_clock_never_goes_back_even_if_the_wall_clock_does(monkeypatch):
    clock = eb.SystemClock()
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: before - 3600.0)
    assert clock.now() >= before


def test_after_a_restart_time_continues_from_the_last_reading():
    later = time.time() + 1e5
    clock = eb.SystemClock()
    clock.never_before(later)
    assert later <= clock.now() < later + 60.0


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_manual_clock_only_moves_forward(seconds):
    with pytest.raises(eb.ConfigurationError):
        eb.ManualClock().advance(seconds)


def test_a_manual_clock_starts_at_a_finite_time():
    with pytest.raises(eb.ConfigurationError):
        eb.ManualClock(start=math.inf)
