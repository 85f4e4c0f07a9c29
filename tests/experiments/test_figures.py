"""Figures hold what they promise: axes with labels, a line an algorithm, data that can be seen."""

import re
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from helpers.pace import FEW_QUERIES
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import qmc

import ebbtide as eb
from ebbtide.experiments import Protocol, animation, approximation, distances, paper, statistics, store
from ebbtide.experiments.figures import comparison, criterion, style
from ebbtide.experiments.figures.one_run import one_run

SHORT = Protocol(duration=40.0, compute=FEW_QUERIES)


def labelled(axes):
    return bool(axes.get_xlabel() or axes.get_ylabel())


def drawn(axes):
    """Every finite point of every line inside the axes' limits, by label."""
    (low_x, high_x), (low_y, high_y) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    points = {}
    for line in axes.get_lines():
        x, y = np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)
        inside = (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)
        points[line.get_label()] = int(inside.sum())
    return points


@pytest.fixture(scope="module")
def frames():
    return {
        name: [store.as_frame(eb.experiments.run("hartmann3", name, seed, SHORT)) for seed in (0, 1)]
        for name in ("w-dbo", "gp-ucb", "keep-all")
    }


def test_curves_show_every_algorithm_with_its_error(frames):
    figure = comparison.over_time("hartmann3", frames)
    regret, size, cost = figure.axes
    assert [labelled(axes) for axes in figure.axes] == [True] * 3
    assert regret.get_xlabel() == "time (s)"
    for axes in (regret, size):
        assert set(drawn(axes)) == set(frames)
        assert min(drawn(axes).values()) > 200
        assert len(axes.collections) == 3  # the bands
    assert len(cost.containers) == 3  # the crosses
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(frames)


def test_the_curve_of_regret_ends_at_the_average_regret(frames):
    figure = comparison.over_time("hartmann3", frames)
    (line,) = (line for line in figure.axes[0].get_lines() if line.get_label() == "w-dbo")
    expected = np.mean([frame["regret"].mean() for frame in frames["w-dbo"]])
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(expected)


def test_the_running_regret_by_hand():
    frame = store.as_frame(eb.experiments.run("shekel", "w-dbo", 0, SHORT))
    moments = np.array([0.0, frame["t"][0], 0.5 * (frame["t"][2] + frame["t"][3]), 1.0])
    expected = [np.nan, frame["regret"][0], frame["regret"][:3].mean(), frame["regret"].mean()]
    assert statistics.running_regret(frame, moments) == pytest.approx(expected, nan_ok=True)
    assert statistics.size(frame, moments)[1:] == pytest.approx(frame["n"].to_numpy()[[0, 2, -1]])


def test_the_summary_shows_every_benchmark_and_the_average():
    figure = comparison.summary(statistics.normalised(paper.AVERAGE_REGRET))
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == list(paper.ALGORITHMS)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == set(paper.AVERAGE_REGRET.index)
    printed = [float(text.get_text()) for text in axes.texts]
    assert printed == [0.48, 0.48, 0.29, 0.54, 0.62, 0.01]  # the paper's last line, but for its 0.47
    assert min(drawn(axes).values()) == 6
    looks = {(line.get_color(), line.get_marker()) for line in axes.get_lines()}
    assert len(looks) == 13  # twelve benchmarks and the average, each told apart


def test_every_algorithm_has_a_look_of_its_own():
    names = [*eb.algorithms.names(), "mine", "yours"]
    looks = [style.look(name, names) for name in names]
    assert len({(look.colour, look.dashes) for look in looks}) == len(names)
    assert len({(look.colour, look.marker) for look in looks}) == len(names)


def test_the_sensitivity_has_two_panels():
    summary = [
        {"problem": problem, "algorithm": alpha, "seed": seed, "average_regret": k + seed + abs(float(alpha) - 0.25)}
        for k, problem in enumerate(("eggholder", "ackley"))
        for alpha in ("0", "0.25", "1")
        for seed in (0, 1)
    ]
    compared = statistics.compare(pd.DataFrame(summary), "average_regret")
    left, right = comparison.sensitivity(compared, "eggholder").axes
    assert left.get_title() == "eggholder"
    assert set(drawn(right)) == {"eggholder", "ackley", "average ± s.e."}
    (average,) = (line for line in right.get_lines() if line.get_label() == "average ± s.e.")
    assert np.asarray(average.get_ydata())[1] == 0.0  # lowest at a quarter
    assert [label.get_text() for label in left.get_xticklabels()] == ["0", "0.25", "1"]


def test_one_run_has_a_panel_a_parameter():
    frame = store.as_frame(eb.experiments.run("hartmann3", "w-dbo", 0, Protocol(duration=60.0, compute=FEW_QUERIES)))
    figure = one_run(frame)
    assert [axes.get_ylabel() for axes in figure.axes] == ["value", "x0", "x1", "active", "response (s)"]
    x0 = drawn(figure.axes[1])
    assert sum(x0.values()) == len(frame)
    assert x0["remembered at the end"] == frame["forgotten_t"].isna().sum()
    assert "hartmann3" in figure.get_suptitle()


@pytest.mark.slow
def test_figures_are_saved_as_png_and_pdf(tmp_path, frames):
    picture = style.save(comparison.over_time("hartmann3", frames), tmp_path / "deep" / "curves")
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[1] > 1500
    assert pixels[..., :3].std() > 0.05
    assert (tmp_path / "deep" / "curves.pdf").read_bytes().startswith(b"%PDF")


# --- the criterion ------------------------------------------------------------------------------------------


def test_the_integrals_in_space_are_their_quadrature():
    x, scale = np.array([[0.2], [0.7]]), 0.35

    def integrand(z):
        return np.exp(-((z - 0.2) ** 2 + (z - 0.7) ** 2) / (2 * scale**2))

    assert approximation.whole_space(x, scale)[0, 1] == pytest.approx(quad(integrand, -9, 9)[0], rel=1e-9)
    assert approximation.unit_box(x, scale)[0, 1] == pytest.approx(quad(integrand, 0, 1)[0], rel=1e-9)


def test_the_box_in_three_dimensions_is_its_quadrature(rng):
    X, scale = rng.random((4, 3)), 0.6
    nodes = qmc.Sobol(3, rng=0).random(2**16)
    k = np.exp(-((X[:, None, :] - nodes[None]) ** 2).sum(-1) / (2 * scale**2))
    assert approximation.unit_box(X, scale) == pytest.approx(k @ k.T / len(nodes), rel=1e-4)


@pytest.mark.parametrize("d", [1, 3, 5])
def test_the_error_peaks_at_the_critical_lengthscale(d, rng):
    """Proposition C.1."""
    X = rng.random((2, d))
    error = approximation.spatial_error(X, np.linspace(0.3, 1.5, 4001))
    assert error.critical == pytest.approx(error.lengthscales[error.absolute.argmax()], abs=5e-4)
    assert approximation.whole_space(X, error.critical)[0, 1] == pytest.approx(1.0)
    smaller = minimize_scalar(
        lambda at: -approximation.spatial_error(X, np.array([at])).absolute[0], bounds=(0.3, 1.5), method="bounded"
    )
    assert smaller.x == pytest.approx(error.critical, abs=1e-4)


def test_the_two_errors_make_the_whole(rng):
    """On the box with exact deviations the scores are the library's own; on the whole space its bound."""
    posterior = approximation.dataset(2, 0.4, 25, rng)
    scores = approximation.scores(posterior, 1.0, 2048)
    common: dict[str, Any] = {"kernel": posterior.kernel, "noise": posterior.noise, "now": 1.0}
    y = np.linalg.solve(posterior.P, posterior.alpha)
    bound = eb.relevance(posterior.X, posterior.t, y, **common)
    exact = eb.relevance(posterior.X, posterior.t, y, **common, method="exact", nodes=2048)
    assert scores.bound == pytest.approx(bound, rel=1e-6)
    assert scores.exact == pytest.approx(exact, rel=1e-6)
    assert scores.quadrature < 0.01


def test_pictures_of_the_criterion():
    lengthscales = np.array([0.2, 0.6, 2.0])
    errors = {d: approximation.criterion_error(d, lengthscales, 2, 12, 256) for d in (1, 3, 5)}
    axes = criterion.criterion_errors(errors).axes
    assert [panel.get_title() for panel in axes[:3]] == ["$d$ = 1", "$d$ = 3", "$d$ = 5"]
    assert all(len(drawn(panel)) == 4 and min(drawn(panel).values()) == 3 for panel in axes[:3])
    assert all(len(drawn(panel)) == 3 and min(drawn(panel).values()) == 3 for panel in axes[3:])
    spatial = {d: approximation.spatial_error(np.full((2, d), 0.4), np.geomspace(0.05, 3, 50)) for d in (1, 3, 5)}
    for panel in criterion.spatial_errors(spatial).axes:
        assert drawn(panel)["the smaller of the two"] == 50
        assert "critical $l_S$ (Prop. C.1)" in drawn(panel)


def test_pairs_have_the_distance_and_the_ratio_asked_for():
    short, long = distances.at_distance(0.06, 0.4, seed=0), distances.at_distance(0.4, 0.4, seed=2)
    assert short.distance == pytest.approx(0.4)
    assert long.distance == pytest.approx(0.4)
    assert short.ratio > 1.5 * long.ratio
    assert distances.at_ratio(0.3, 0.6, seed=2).ratio == pytest.approx(0.6)
    figure = criterion.same_distance([short, long])
    assert [re.findall(r"W_2\$ = ([\d.]+)", axes.get_title()) for axes in figure.axes] == [["0.40"], ["0.40"]]
    assert all(drawn(axes)["with all"] > 700 for axes in figure.axes)
    pairs = [distances.at_ratio(scale, ratio, 2) for ratio in (0.15, 0.6) for scale in (0.06, 0.3)]
    assert len(criterion.normalised_distances(pairs).axes) == 4


# --- films --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def film():
    return animation.record("switching-camel", Protocol(duration=60.0, noise=0.001, compute=FEW_QUERIES), frames=8)


def test_a_film_knows_what_the_optimizer_knew(film):
    assert len(film.snapshots) == 8
    assert [s.now for s in film.snapshots] == sorted(s.now for s in film.snapshots)
    for snapshot in film.snapshots:
        assert snapshot.active[:, 0].max() <= snapshot.now + 1e-9
        assert snapshot.prediction.std() > 0
    sizes = [len(s.active) + len(s.removed) for s in film.snapshots]
    assert sizes == sorted(sizes)
    assert len(film.snapshots[-1].removed) > 0


def test_a_films_prediction_is_the_optimizers_own():
    from ebbtide.experiments.simulation import Simulation

    protocol = Protocol(duration=30.0, compute=FEW_QUERIES)
    simulation = Simulation(eb.benchmarks.get("six-hump-camel"), eb.algorithms.get("w-dbo"), 0, protocol)
    simulation.observe_initially()
    opt, predicted = simulation.optimizer, {}
    row, column = 17, 60
    x, t = np.linspace(-2, 2, animation.ROWS)[row], np.linspace(0, 30, animation.COLUMNS)[column]

    def look(elapsed):
        predicted[elapsed / 30.0] = opt.predict({"x0": x}, time=t)[0]

    simulation.pursue(look)
    film = animation.record("six-hump-camel", protocol, frames=3)
    assert len(film.snapshots) == 3
    for snapshot in film.snapshots:
        assert snapshot.prediction[row, column] == pytest.approx(predicted[snapshot.now], rel=1e-6)


def test_the_true_line_is_the_maximizer(film):
    problem = eb.benchmarks.get("switching-camel")
    known = ~np.isnan(film.best[:, 1])
    t, x = film.best[known].T
    assert np.allclose(problem(problem.from_unit(x[:, None]), t), problem.optimum(t), atol=0.01)


@pytest.mark.slow
def test_a_still_and_a_gif(film, tmp_path):
    from PIL import Image
    from PIL.GifImagePlugin import GifImageFile

    axes, _colours = animation.still(film).axes
    assert {"removed", "active", "the best, in truth"} <= set(drawn(axes))
    assert axes.collections  # the contours
    gif, *_ = animation.save(film, tmp_path / "film")
    with Image.open(gif) as image:
        assert isinstance(image, GifImageFile)
        assert image.n_frames == 8
        first = np.asarray(image.convert("RGB"), dtype=float)
        image.seek(7)
        assert np.abs(np.asarray(image.convert("RGB"), dtype=float) - first).mean() > 1.0


def test_a_film_shows_one_parameter():
    with pytest.raises(eb.ConfigurationError, match="one"):
        animation.record("ackley", SHORT, 2)
