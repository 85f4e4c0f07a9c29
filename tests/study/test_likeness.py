"""How alike two studies are."""

import pytest

import ebbtide as eb
from ebbtide.study.definition import define
from ebbtide.study.likeness import likeness

SPACE = {"power": eb.Float(0.0, 10.0), "width": eb.Int(1, 8), "rate": eb.Float(1e-3, 1.0, log=True)}


def described(space=None, **options):
    return define(SPACE if space is None else space, seed=0, **options).to_json()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (described(), 1.0),
        (described(explore=0.2, n_initial=3), 1.0),
        (described(SPACE | {"power": eb.Float(0.0, 20.0)}), (0.5 + 2.0) / 3.0),
        (described(SPACE | {"power": eb.Float(5.0, 15.0)}), (1.0 / 3.0 + 2.0) / 3.0),
        (described(SPACE | {"power": eb.Float(20.0, 30.0)}), 2.0 / 3.0),
        (described(SPACE | {"rate": eb.Float(1e-3, 1e3, log=True)}), 2.5 / 3.0),
        (described(SPACE | {"rate": eb.Float(1e-3, 1.0)}), 2.0 / 3.0),
        (described(SPACE | {"codec": eb.Categorical(["a", "b"])}), 0.75),
        (described({"speed": eb.Float(0.0, 10.0)}), 0.0),
        (described(context={"load": eb.Float(0.0, 1.0)}), 0.75),
        (described(cycles={"day": 86400.0}), 0.75),
        (described(direction="maximize"), 0.0),
        (described(clock=eb.ManualClock()), 0.0),
        (described(algorithm=eb.Algorithm(transform="auto")), 1.0),
        (described(algorithm="w-dbo"), 0.0),  # which does not transform values
        (described(algorithm=eb.Algorithm(spatial=eb.Matern(1.5), transform="auto")), 0.0),
        (described(algorithm=eb.Algorithm(temporal=None, staleness=eb.KeepAll(), transform="auto")), 0.0),
        (described(algorithm=eb.Algorithm(spatial=eb.Matern(2.5, (1.0,) * 3), transform="auto")), 0.0),
    ],
)
def test_likeness_is_the_share_that_is_the_same(other, expected):
    assert likeness(described(), other) == pytest.approx(expected)
    assert likeness(other, described()) == pytest.approx(expected)


def test_one_lengthscale_per_coordinate_needs_the_same_coordinates():
    ard = eb.Algorithm(spatial=eb.Matern(2.5, (1.0,) * 3))
    other = eb.Algorithm(spatial=eb.Matern(2.5, (1.0,) * 4))
    four = SPACE | {"more": eb.Float(0.0, 1.0)}
    assert likeness(described(algorithm=ard), described(algorithm=ard)) == 1.0
    assert likeness(described(algorithm=ard), described(four, algorithm=other)) == 0.0
    two, three = ({"codec": eb.Categorical(["a", "b", "c"][:n])} for n in (2, 3))
    kernels = [eb.Algorithm(spatial=eb.Matern(2.5, (1.0,) * n)) for n in (2, 3)]
    assert likeness(described(two, algorithm=kernels[0]), described(three, algorithm=kernels[1])) == 0.0
