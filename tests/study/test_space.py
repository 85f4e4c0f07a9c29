# Wrong arguments on purpose:
# mypy: disable-error-code="arg-type, dict-item, list-item"
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebbtide as eb
from ebbtide.space import Space

finite = st.floats(-1e6, 1e6)


@st.composite
def floats(draw):
    log = draw(st.booleans())
    low = draw(st.floats(1e-6, 1e3) if log else finite)
    return eb.Float(low, low + draw(st.floats(1e-3, 1e6)), log=log)


@st.composite
def ints(draw):
    log = draw(st.booleans())
    low = draw(st.integers(1, 10**6) if log else st.integers(-(10**6), 10**6))
    return eb.Int(low, low + draw(st.integers(1, 10**6)), log=log)


@given(floats(), st.floats(0.0, 1.0))
def test_suggested_floats_survive_the_round_trip_exactly(parameter, position):
    value = parameter.decode(np.array([position]))
    assert parameter.low <= value <= parameter.high
    assert parameter.decode(np.array(parameter.encode(value))) == value


@given(floats(), st.floats(0.0, 1.0))
def test_floats_told_come_back_except_for_the_last_digits(parameter, share):
    value = parameter.low + share * (parameter.high - parameter.low)
    value = min(max(value, parameter.low), parameter.high)
    again = parameter.decode(np.array(parameter.encode(value)))
    assert math.isclose(again, value, rel_tol=1e-12, abs_tol=1e-13 * (parameter.high - parameter.low))


@given(floats())
def test_bounds_are_exact(parameter):
    assert parameter.decode(np.array([0.0])) == parameter.low
    assert parameter.decode(np.array([1.0])) == parameter.high
    assert parameter.encode(parameter.low) == [0.0]
    assert parameter.encode(parameter.high) == [1.0]


@given(ints(), st.integers(0, 10**6))
def test_every_int_survives_the_round_trip_exactly(parameter, offset):
    value = parameter.low + offset % (parameter.high - parameter.low + 1)
    assert parameter.decode(np.array(parameter.encode(value))) == value
    assert type(parameter.decode(np.array([0.5]))) is int


@given(st.integers(2, 7), st.data())
def test_every_choice_survives_the_round_trip(count, data):
    parameter = eb.Categorical([f"c{i}" for i in range(count)])
    choice = data.draw(st.sampled_from(parameter.choices))
    assert parameter.decode(np.array(parameter.encode(choice))) == choice


def test_the_widest_logarithmic_range():
    parameter = eb.Float(1e-300, 1e300, log=True)
    assert parameter.decode(np.array([0.5])) == pytest.approx(1.0, rel=1e-9)
    assert parameter.encode(1e10)[0] == pytest.approx(310 / 600)


def test_ints_share_the_unit_interval_evenly():
    spread = eb.Int(1, 4).spread((np.arange(4000) + 0.5) / 4000)
    _, counts = np.unique(spread, return_counts=True)
    assert counts.tolist() == [1000] * 4


def test_a_logarithmic_range_is_even_in_decades():
    assert eb.Float(1e-3, 1e3, log=True).decode(np.array([0.5])) == pytest.approx(1.0)
    assert eb.Float(1e-3, 1e3, log=True).encode(10.0)[0] == pytest.approx(2 / 3)


SPACE = Space({"p": eb.Float(1.26, 316, log=True), "w": eb.Int(1, 8), "c": eb.Categorical(["a", "b", None])})


@given(st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=3, max_size=3))
def test_snapping_a_point_is_decoding_and_encoding_it(uniform):
    x = SPACE.spread(np.array([uniform]))[0]
    params = SPACE.decode(x)
    assert SPACE.check(params) == params
    assert np.allclose(SPACE.encode(params), x, atol=1e-12)
    assert np.allclose(SPACE.snap(x[None])[0], x, atol=1e-12)


def test_neighbours_differ_in_one_discrete_parameter():
    x = SPACE.encode({"p": 10.0, "w": 1, "c": "a"})
    near = [SPACE.decode(row) for row in SPACE.neighbours(x)]
    assert [(n["w"], n["c"]) for n in near] == [(2, "a"), (1, "b"), (1, None)]
    assert all(n["p"] == pytest.approx(10.0) for n in near)


def test_json_round_trip():
    assert Space.from_json(SPACE.to_json()).parameters == SPACE.parameters


@pytest.mark.parametrize("description", [None, {"x": 3}, {"x": {"type": "complex"}}, {"x": {"type": "float", "lo": 1}}])
def test_bad_json_is_refused(description):
    with pytest.raises(eb.SpaceError):
        Space.from_json(description)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: eb.Float(1.0, 0.0), "swap them"),
        (lambda: eb.Float(1.0, 1.0), "leave the parameter out"),
        (lambda: eb.Float(0.0, 1.0, log=True), "above 0"),
        (lambda: eb.Float(-math.inf, 1.0), "finite"),
        (lambda: eb.Float(math.nan, 1.0), "finite"),
        (lambda: eb.Float("a", 1.0), "finite numbers"),
        (lambda: eb.Float(0.0, 10**400), "finite numbers"),
        (lambda: eb.Float(1.0, 2.0, log="no"), "True or False"),
        (lambda: eb.Float(-1.7e308, 1.7e308), "wider than a float"),
        (lambda: eb.Int(5, 1), "swap them"),
        (lambda: eb.Int(0, 10, log=True), "above 0"),
        (lambda: eb.Int(0.5, 3), "whole numbers"),
        (lambda: eb.Int(0, 2**60), "use Float"),
        (lambda: eb.Categorical([]), "at least two"),
        (lambda: eb.Categorical(["a"]), "at least two"),
        (lambda: eb.Categorical(["a", "a"]), "twice"),
        (lambda: eb.Categorical("ab"), "list of choices"),
        (lambda: eb.Categorical(["a", [1]]), "not a string"),
        (lambda: eb.Categorical(["a", math.nan]), "finite"),
        (lambda: Space({}), "empty"),
        (lambda: Space({"x": 3}), "eb.Float"),
        (lambda: Space({"": eb.Float(0, 1)}), "non-empty string"),
    ],
)
def test_a_wrong_space_says_what_to_do(make, says):
    with pytest.raises(eb.SpaceError, match=says):
        make()


def test_all_problems_are_listed_at_once():
    with pytest.raises(eb.ParameterError) as error:
        SPACE.check({"p": 1e9, "w": 2.5, "q": 1})
    message = str(error.value)
    assert all(
        part in message for part in ("'p' is 1000000000.0, outside", "'w' is 2.5", "'q' is unknown", "'c' is missing")
    )


@pytest.mark.parametrize("value", [True, "3", None, [3], np.array([3.0]), math.nan, math.inf, 10**400])
def test_values_of_the_wrong_type_are_refused(value):
    with pytest.raises(eb.ParameterError):
        SPACE.check({"p": value, "w": 1, "c": "a"})
    with pytest.raises(eb.ParameterError):
        SPACE.check({"p": 10.0, "w": value, "c": "a"})


def test_numpy_scalars_become_plain_values():
    params = SPACE.check({"p": np.float32(10.0), "w": np.int64(3), "c": "b"})
    assert [type(v) for v in params.values()] == [float, int, str]
