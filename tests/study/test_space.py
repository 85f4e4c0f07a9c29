# Wrong arguments on purpose:
# mypy: disable-error-code="arg-type, dict-item, list-item"
import math
from decimal import Decimal

import hypothesis
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


@st.composite
def stepped(draw):
    """A parameter with a step, and the values that it has, counted in decimals."""
    digits = draw(st.integers(0, 4))
    low, step = (Decimal(draw(st.integers(*ends))).scaleb(-digits) for ends in [(-(10**6), 10**6), (1, 10**4)])
    count, rest = draw(st.integers(2, 300)), draw(st.integers(0, 99))
    high = low + (count - 1) * step + (step * rest / 100 if digits else 0)  # the last step need not reach the bound
    values = [low + k * step for k in range(count)]
    if digits == 0:
        hypothesis.assume(step > 1)
        return eb.Int(int(low), int(high), step=int(step)), list(map(int, values))
    return eb.Float(float(low), float(high), step=float(step)), list(map(float, values))


@given(stepped())
def test_steps_are_the_decimal_numbers_and_survive_the_round_trip_exactly(case):
    parameter, values = case
    assert [parameter.decode(np.array(parameter.encode(value))) for value in values] == values
    assert all(parameter.complaint(value) is None for value in values)
    positions = [parameter.encode(value)[0] for value in values]
    assert np.allclose(np.diff([-positions[0], *positions, 2.0 - positions[-1]]), 1.0 / len(values))


@given(stepped(), st.floats(0.0, 1.0))
def test_suggestions_are_on_a_step_and_inside_the_bounds(case, position):
    parameter, values = case
    value = parameter.decode(np.array([position]))
    assert value in values
    assert type(value) is type(parameter.low)
    assert parameter.low <= value <= parameter.high
    assert parameter.snap(np.array([[position]])).tolist() == [parameter.encode(value)]
    assert parameter.spread(np.array([position])).tolist() == [parameter.encode(value)]


@given(stepped(), st.data())
def test_the_neighbours_of_a_step_are_the_steps_beside_it(case, data):
    parameter, values = case
    here = data.draw(st.integers(0, len(values) - 1))
    near = [parameter.decode(x) for x in parameter.neighbours(np.array(parameter.encode(values[here])))]
    assert near == [values[k] for k in (here - 1, here + 1) if 0 <= k < len(values)]


@given(stepped(), st.floats(0.0, 1.0))
def test_a_value_between_two_steps_is_refused_and_the_nearest_is_named(case, share):
    parameter, values = case
    value = parameter.low + share * (parameter.high - parameter.low)
    nearest = min(values, key=lambda each: abs(each - value))
    hypothesis.assume(0.01 * parameter.step < abs(nearest - value) < 0.49 * parameter.step)
    complaint = parameter.complaint(value if isinstance(parameter, eb.Float) else round(value))
    if isinstance(parameter, eb.Float):
        assert complaint == (
            f"is {value!r}, between two steps of {parameter.step!r} from {parameter.low!r}; the nearest is {nearest!r}"
        )
    else:
        assert (complaint is None) == (round(value) in values)


def test_a_sum_that_was_rounded_is_the_step_that_was_meant():
    space = Space({"share": eb.Float(0.0, 1.0, step=0.1)})
    assert 0.1 + 0.2 != 0.3
    assert space.check({"share": 0.1 + 0.2}) == {"share": 0.3}
    assert space.decode(space.encode({"share": 0.1 + 0.2})) == {"share": 0.3}


@pytest.mark.parametrize("count", [3, 7, 23, 49, 1000])
def test_a_rounded_share_of_a_range_arrives_at_its_end(count):
    parameter = eb.Float(0.0, 1.0, step=1 / count)
    assert parameter.decode(np.array([1.0])) == pytest.approx(1.0, abs=1e-15)
    assert len(parameter.neighbours(np.array([1.0]))) == 1
    assert parameter.encode(0.0) == [0.5 / (count + 1)]


@pytest.mark.parametrize("choices", [[64, 128, 256], [10.0, 1.0, 0.5], ["small", "medium", "large"], [1, "two", None]])
def test_ordinal_choices_share_one_coordinate_evenly_in_their_order(choices):
    parameter = eb.Ordinal(choices)
    assert [parameter.encode(choice) for choice in choices] == [[1 / 6], [1 / 2], [5 / 6]]
    assert [parameter.decode(np.array([u])) for u in (0.0, 0.3, 0.4, 0.6, 0.7, 1.0)] == [
        choice for choice in choices for _ in range(2)
    ]
    near = [[parameter.decode(x) for x in parameter.neighbours(np.array(parameter.encode(c)))] for c in choices]
    assert near == [[choices[1]], [choices[0], choices[2]], [choices[1]]]


@given(st.integers(2, 7), st.sampled_from([eb.Categorical, eb.Ordinal]), st.data())
def test_every_choice_survives_the_round_trip(count, kind, data):
    parameter = kind([f"c{i}" for i in range(count)])
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
STEPPED = Space({"s": eb.Float(0.0, 1.0, step=0.1), "i": eb.Int(8, 64, step=8), "o": eb.Ordinal([64, 128, 256])})


@given(st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=3, max_size=3))
def test_snapping_a_point_of_a_grid_is_decoding_and_encoding_it(uniform):
    x = STEPPED.spread(np.array([uniform]))[0]
    params = STEPPED.decode(x)
    assert STEPPED.check(params) == params
    assert STEPPED.encode(params).tolist() == x.tolist() == STEPPED.snap(np.array([uniform]))[0].tolist()


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


@pytest.mark.parametrize("space", [SPACE, STEPPED])
def test_json_round_trip(space):
    assert Space.from_json(space.to_json()).parameters == space.parameters


def test_the_json_of_what_existed_before_steps_is_unchanged():
    assert Space({"x": eb.Float(0.0, 1.0), "n": eb.Int(1, 8, step=1)}).to_json() == {
        "x": {"type": "float", "low": 0.0, "high": 1.0, "log": False},
        "n": {"type": "int", "low": 1, "high": 8, "log": False},
    }
    assert STEPPED.to_json() == {
        "s": {"type": "float", "low": 0.0, "high": 1.0, "log": False, "step": 0.1},
        "i": {"type": "int", "low": 8, "high": 64, "log": False, "step": 8},
        "o": {"type": "ordinal", "choices": [64, 128, 256]},
    }


KINDS = 'give {"type": "float" | "int" | "ordinal" | "categorical", ...}'


@pytest.mark.parametrize(
    ("description", "says"),
    [
        (None, "None is not a dict of parameters"),
        ({"x": 3}, f"'x' is 3; {KINDS}"),
        ({"x": {}}, f"'x' is {{}}; {KINDS}"),
        ({"x": {"type": "complex"}}, f"'x' is {{'type': 'complex'}}; {KINDS}"),
        ({"x": {"type": ["int"]}}, f"'x' is {{'type': ['int']}}; {KINDS}"),
        (
            {"x": {"type": "float", "lo": 1, "high": 2}},
            "'x': 'low' is missing; 'lo' is unknown. "
            'A parameter of type "float" needs low and high, and may have log and step.',
        ),
        (
            {"x": {"type": "ordinal", "choices": [1, 2], "step": 1}},
            "'x': 'step' is unknown. A parameter of type \"ordinal\" needs choices.",
        ),
        (
            {"x": {"type": "categorical"}},
            "'x': 'choices' is missing. A parameter of type \"categorical\" needs choices.",
        ),
    ],
)
def test_bad_json_is_refused_by_name_and_key(description, says):
    with pytest.raises(eb.SpaceError) as error:
        Space.from_json(description)
    assert str(error.value) == says


def test_a_long_description_is_not_repeated_in_full():
    with pytest.raises(eb.SpaceError) as error:
        Space.from_json({"x": {"type": "int", "low": 1, "high": 2} | {f"{'k' * 10_000}{i}": 1 for i in range(1000)}})
    assert len(str(error.value)) < 1000


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
        (lambda: eb.Int(1, 100, log=True, step=2), "no steps of equal size"),
        (lambda: eb.Float(1.0, 100.0, log=True, step=0.5), "no steps of equal size"),
        (lambda: eb.Int(1, 10, step=10), "first step leads beyond"),
        (lambda: eb.Float(0.0, 1.0, step=1.5), "first step leads beyond"),
        (lambda: eb.Int(1, 10, step=0), "whole number above 0"),
        (lambda: eb.Int(1, 10, step=2.5), "whole number above 0"),
        (lambda: eb.Int(1, 10, step=True), "whole number above 0"),
        (lambda: eb.Float(0.0, 1.0, step=0.0), "number above 0, or None"),
        (lambda: eb.Float(0.0, 1.0, step=-0.1), "number above 0, or None"),
        (lambda: eb.Float(0.0, 1.0, step="a"), "number above 0, or None"),
        (lambda: eb.Float(0.0, 1.0, step=math.inf), "number above 0, or None"),
        (lambda: eb.Float(1e16, 2e16, step=1.0), "cannot tell such steps apart"),
        (lambda: eb.Ordinal([1]), "at least two"),
        (lambda: eb.Ordinal([1, 1.0]), "twice"),
        (lambda: eb.Ordinal([1, 3, 2]), "up and down; sort them"),
        (lambda: eb.Ordinal({1, 2}), "list of choices"),
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


def test_what_is_not_an_ordinal_choice_is_refused():
    with pytest.raises(eb.ParameterError, match=r"'o' is 100; choose one of \[64, 128, 256\]"):
        STEPPED.check({"s": 0.5, "i": 8, "o": 100})
    checked = STEPPED.check({"s": 0.5, "i": np.int64(16), "o": 128.0})
    assert checked == {"s": 0.5, "i": 16, "o": 128}
    assert [type(value) for value in checked.values()] == [float, int, int]


@pytest.mark.parametrize("value", [True, "3", None, [3], np.array([3.0]), math.nan, math.inf, 10**400])
def test_values_of_the_wrong_type_are_refused(value):
    with pytest.raises(eb.ParameterError):
        SPACE.check({"p": value, "w": 1, "c": "a"})
    with pytest.raises(eb.ParameterError):
        SPACE.check({"p": 10.0, "w": value, "c": "a"})


def test_numpy_scalars_become_plain_values():
    params = SPACE.check({"p": np.float32(10.0), "w": np.int64(3), "c": "b"})
    assert [type(v) for v in params.values()] == [float, int, str]
