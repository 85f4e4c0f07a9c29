"""How much of a log is shown, counted by hand."""

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from helpers.stories import NEWEST, made, url
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.dashboard import excerpt as excerpt_module
from ebbtide.dashboard.excerpt import Excerpt, thinned
from ebbtide.errors import ConfigurationError
from ebbtide.study.storage import Storage

# --- thinning ---------------------------------------------------------------------------------------------------------


@given(first=st.integers(0, 5000), length=st.integers(0, 5000), most=st.integers(1, 900))
def test_at_most_so_many_multiples_of_one_power_of_two(first, length, most):
    lines = thinned(first, first + length, most)
    assert len(lines) <= most
    assert lines.step.bit_count() == 1
    assert list(lines) == [line for line in range(first, first + length) if line % lines.step == 0]
    if lines.step > 1:  # no finer stride would do, wherever the excerpt begins
        assert length > most * (lines.step // 2)


@given(first=st.integers(0, 5000), length=st.integers(1, 5000), most=st.integers(1, 900))
def test_thinning_is_even(first, length, most):
    lines = thinned(first, first + length, most)
    shown = [first - 1, *lines, first + length]
    assert max(np.diff(shown)) <= lines.step
    assert lines.step == 1 or len(lines) >= most // 2


@given(length=st.integers(1, 1000), told=st.integers(0, 3000), more=st.integers(0, 500), most=st.integers(1, 300))
def test_a_point_once_shown_stays_while_the_study_grows(length, told, more, most):
    for last in (length, None):  # an excerpt that moves, and all of it

        def seen(told, last=last):
            return thinned(0 if last is None else max(0, told - last), told, most)

        before, after = seen(told), seen(told + more)
        assert after.step >= before.step
        still = [line for line in before if line >= after.start]
        if after.step == before.step:
            assert set(still) <= set(after)
        assert {line for line in after if line < told} <= set(before)  # coarser is a part of finer


@given(first=st.integers(0, 3000), length=st.integers(0, 3000), most=st.integers(1, 300), fewer=st.integers(1, 300))
def test_a_coarser_excerpt_is_a_part_of_a_finer_one(first, length, most, fewer):
    fine, coarse = (thinned(first, first + length, each) for each in (max(most, fewer), min(most, fewer)))
    assert set(coarse) <= set(fine)


# --- the excerpt against the log --------------------------------------------------------------------------------------


def excerpt(story, storage, last):
    return Excerpt.of(storage.log("edge"), storage.summary("edge"), last, story.active)


def check_excerpt(story, storage, last):
    """All of an excerpt, against what the callbacks wrote down."""
    seen = excerpt(story, storage, last)
    told = len(story.history)
    first = 0 if last is None else max(0, told - last)
    first_ask = story.asked_before[first] if first else 0
    numbers = [int(ask.trial.id) for ask in seen.asks]

    # which: regular lines and asks of the excerpt, no more than a figure holds
    stride = seen.lines.step
    assert list(seen.lines) == [line for line in range(first, told) if line % stride == 0]
    assert len(seen.lines) <= excerpt_module.POINTS
    later = range(first_ask, len(story.asked))
    ask_stride = next(2**k for k in range(20) if len(later) <= 2**k * excerpt_module.STEPS)
    regular = [number for number in later if number % ask_stride == 0]
    assert set(regular) <= set(numbers) <= {*regular, len(story.asked) - 1}
    assert numbers == sorted(numbers)

    # all active observations, unless there are too many
    within = [line for line in story.active if line >= first]
    there = [line for line in within if line in seen.observations]
    if len(within) <= excerpt_module.POINTS:
        assert there == within
    assert set(seen.observations) >= set(seen.lines)
    assert len(seen.observations) <= 2 * excerpt_module.POINTS + NEWEST
    assert list(seen.observations) == sorted(seen.observations)
    assert min(seen.observations, default=first) >= first
    assert all(observation == story.history[line] for line, observation in seen.observations.items())

    # how many were active after each ask shown, and were removed since the one before
    assert seen.active == [story.asked[number].active for number in numbers]
    since = [first_ask, *(number + 1 for number in numbers)]
    gone = [sum(len(asked.removed) for asked in story.asked[a:b]) for a, b in pairwise(since)]
    assert seen.removed == gone
    return seen


@pytest.mark.parametrize("last", [None, 1, 2, 17, 100, 10**6, 2**63 - 1])
def test_an_excerpt_counts_what_was_active_and_removed(story, stored, last):
    check_excerpt(story, stored, last)


@settings(max_examples=25)
@given(last=st.none() | st.integers(1, 190), points=st.integers(1, 60), steps=st.integers(1, 60))
def test_a_thinned_excerpt_counts_the_same(story, stored, last, points, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excerpt_module, "POINTS", points)
        patch.setattr(excerpt_module, "STEPS", steps)
        check_excerpt(story, stored, last)


def test_active_observations_are_thinned_evenly_if_there_are_too_many(story, stored, monkeypatch):
    most = len(story.active) // 3
    monkeypatch.setattr(excerpt_module, "POINTS", most)
    seen = excerpt(story, stored, None)
    only_active = [line for line in story.active if line in seen.observations and line not in seen.lines]
    kept = story.active[::4]  # room is for a third: one in two would be too many
    assert len(kept) <= most < len(story.active[::2])
    assert set(only_active) <= set(kept) | set(range(len(story.history) - NEWEST, len(story.history)))
    assert set(kept) <= set(seen.observations)


def test_an_active_observation_at_the_edge_of_an_excerpt_is_in_it(story, stored, monkeypatch):
    told = len(story.history)
    for at, line in enumerate(story.active):
        monkeypatch.setattr(
            excerpt_module, "POINTS", len(story.active) - at
        )  # room for all of them, and for few others
        assert line in excerpt(story, stored, told - line).observations
        if line + 1 < told:
            assert line not in excerpt(story, stored, told - line - 1).observations


@pytest.mark.parametrize("last", [0, -1, -(10**9)])
def test_an_excerpt_of_less_than_one_observation_is_refused(story, stored, views, last):
    with pytest.raises(ConfigurationError, match=f"last={last}"):
        excerpt(story, stored, last)
    with pytest.raises(ConfigurationError, match=f"last={last}"):
        views.study("edge", last, None)
    with pytest.raises(ConfigurationError, match=f"last={last}"):
        views.trail("edge", last)


@pytest.mark.parametrize("last", [None, 1, 250])
def test_an_excerpt_of_nothing_is_empty(tmp_path, last):
    made(tmp_path / "s.db", steps=0)
    with closing(Storage.of(url(tmp_path / "s.db"), read_only=True)) as storage:
        seen = Excerpt.of(storage.log("edge"), storage.summary("edge"), last, ())
    assert (list(seen.lines), seen.observations, seen.asks, seen.active, seen.removed) == ([], {}, [], [], [])


def test_an_excerpt_of_tells_alone_and_of_asks_alone(tmp_path):
    with closing(made(tmp_path / "s.db", steps=0, close=False, n_initial=100)) as opt:
        opt.ask(3)
        with closing(Storage.of(url(tmp_path / "s.db"), read_only=True)) as storage:
            seen = Excerpt.of(storage.log("edge"), storage.summary("edge"), None, ())
            assert (seen.active, seen.removed, seen.observations) == ([0, 0, 0], [0, 0, 0], {})
            for value in range(5):
                opt.tell({"x": 0.5}, value)
            seen = Excerpt.of(storage.log("edge"), storage.summary("edge"), 2, ())
            assert list(seen.observations) == [3, 4]
            assert [ask.trial.id for ask in seen.asks] in ([], ["2"])  # no ask came after the first of them


def test_the_observations_told_last_are_always_there(story, views, monkeypatch):
    """The page lists them."""
    monkeypatch.setattr(excerpt_module, "POINTS", 60)
    shown = views.study("edge", None, None)
    assert shown["stride"] > 1
    told = len(story.history)
    assert shown["observations"]["line"][-NEWEST:] == list(range(told - NEWEST, told))


def test_the_last_ask_is_always_there(story, views, monkeypatch):
    """The page reads the current timescale and response time from it."""
    monkeypatch.setattr(excerpt_module, "STEPS", 30)
    shown = views.study("edge", None, None)["asks"]
    assert len(shown["time"]) <= 31
    assert shown["time"][-1] == story.asked[-1].trial.time
    assert shown["active"][-1] == story.asked[-1].active
