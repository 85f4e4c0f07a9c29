"""What an acquisition must do."""

import numpy as np

from ebbtide.gp.arrays import Array
from ebbtide.parts.acquisition import Acquisition, Context
from ebbtide.testing.expectations import Unchanged, expect

CONTEXT = Context(n=20, dim=3, incumbent=0.4)


def _beliefs() -> tuple[Array, Array]:
    mean, std = np.meshgrid(np.linspace(-3.0, 3.0, 25), np.geomspace(1e-3, 3.0, 12))
    return mean.ravel(), std.ravel()


def gives_three_arrays(acquisition: Acquisition) -> None:
    for m in (1, 7):
        parts = acquisition(np.linspace(-1.0, 1.0, m), np.full(m, 0.3), CONTEXT)
        expect(len(parts) == 3, f"expected a value and two derivatives, got {len(parts)} things")
        shapes = [np.shape(part) for part in parts]
        expect(shapes == [(m,)] * 3, f"expected three arrays of shape ({m},), got {shapes}")


def is_finite(acquisition: Acquisition) -> None:
    """Over six decades of standard deviation, and with none or many observations."""
    mean, std = _beliefs()
    for std_now in (std, np.full_like(std, 1e-6)):
        for n in (0, 1, 1000):
            for part in acquisition(mean, std_now, Context(n, 2, 0.0)):
                expect(bool(np.isfinite(part).all()), f"not finite with n = {n} and std ≥ {std_now.min():g}")


def has_true_derivatives(acquisition: Acquisition) -> None:
    mean, std = _beliefs()
    _, by_mean, by_std = acquisition(mean, std, CONTEXT)
    h = 1e-6 * std
    slopes = {
        "mean": (by_mean, acquisition(mean + h, std, CONTEXT)[0] - acquisition(mean - h, std, CONTEXT)[0]),
        "std": (by_std, acquisition(mean, std + h, CONTEXT)[0] - acquisition(mean, std - h, CONTEXT)[0]),
    }
    for name, (claimed, difference) in slopes.items():
        numeric = difference / (2.0 * h)
        wrong = np.abs(claimed - numeric) > 1e-3 * (np.abs(numeric) + 1e-3 / std)
        expect(not wrong.any(), f"the derivative by {name} is wrong at {int(wrong.sum())} of {len(mean)} beliefs")


def never_prefers_a_lower_mean(acquisition: Acquisition) -> None:
    mean = np.linspace(-2.0, 2.0, 50)
    for std in (0.01, 0.3, 2.0):
        value = acquisition(mean, np.full(50, std), CONTEXT)[0]
        expect(bool((np.diff(value) >= -1e-9).all()), f"with std = {std}, a higher mean scores less")


def writes_to_nothing_and_repeats_itself(acquisition: Acquisition) -> None:
    mean, std = _beliefs()
    inputs = Unchanged(mean=mean, std=std)
    first, second = acquisition(mean, std, CONTEXT), acquisition(mean, std, CONTEXT)
    inputs.verify()
    same = all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    expect(same, "two calls with the same inputs give different values")


ACQUISITION_CHECKS = (
    gives_three_arrays,
    is_finite,
    has_true_derivatives,
    never_prefers_a_lower_mean,
    writes_to_nothing_and_repeats_itself,
)
