"""One run of an algorithm on a problem under a protocol."""

import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from ebbtide import algorithms, benchmarks
from ebbtide.algorithms import Algorithm
from ebbtide.benchmarks import Problem
from ebbtide.checks import is_whole
from ebbtide.errors import ConfigurationError, how_to_install
from ebbtide.experiments import code
from ebbtide.experiments.protocol import Protocol
from ebbtide.gp.arrays import Array
from ebbtide.gp.kernels import Matern
from ebbtide.gp.linalg import one_blas_thread
from ebbtide.optimizer import Optimizer
from ebbtide.records import Asked, Event, Observation
from ebbtide.version import __version__

if TYPE_CHECKING:
    import pandas as pd

MOMENTS = 4096  # at which the time-weighted regret looks


@dataclass(frozen=True)
class Run:
    """The result of a run: one row per query in `frame`, both regrets, and the history of observations."""

    problem: str
    algorithm: str
    seed: int
    protocol: Protocol
    columns: dict[str, Array]
    timescales: Array = field(repr=False)  # l_T in seconds as each query's ask fitted it; NaN without one
    average_regret: float  # the paper's: mean over the queries
    time_weighted_regret: float  # mean over time of the regret of the query in force; does not reward slow samplers
    history: list[Observation] = field(repr=False)
    guards: dict[str, int]
    wall_s: float  # how long it took to compute
    versions: dict[str, str] = field(default_factory=lambda: _versions(), repr=False)

    @property
    def frame(self) -> "pd.DataFrame":
        """t (0 to 1), x0, x1, ... (the problem's units), y (noisy), f, regret, n (active observations that the query
        was computed from), response_s, removed (observations forgotten by this ask).
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ConfigurationError(f"run.frame needs pandas: {how_to_install('experiments')}") from error
        frame = pd.DataFrame(self.columns)
        frame.attrs.update(self.provenance)
        return frame

    @property
    def provenance(self) -> dict[str, Any]:
        """Everything needed to repeat the run."""
        return {
            "problem": self.problem,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "protocol": self.protocol.as_dict(),
            **self.versions,
        }


def _versions() -> dict[str, str]:
    """Versions of what decides the digits, on the machine that computes the run."""
    return {
        "ebbtide": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "code": code.of_the_engine(),
    }


def run(
    problem: str | Problem,
    algorithm: str | Algorithm = "w-dbo",
    seed: int = 0,
    protocol: Protocol | None = None,
    progress: Callable[[float], object] | None = None,
) -> Run:
    """Let an algorithm pursue the moving optimum of a problem for the protocol's duration.

    All algorithms see the same initial observations under the same seed. An algorithm given by name takes the
    problem's own kernel in time (the paper: Matérn-1/2 for WLAN, else Matérn-3/2). `progress` is called after each
    query with the seconds passed.

    >>> outcome = run("six-hump-camel", "w-dbo", seed=0, protocol=Protocol(duration=30.0))
    >>> len(outcome.columns["t"]) > 25 and outcome.average_regret > 0.0
    True
    """
    began = time.perf_counter()
    if not (is_whole(seed) and seed >= 0):
        raise ConfigurationError(f"seed={seed!r}: give a whole number ≥ 0")
    problem = benchmarks.get(problem) if isinstance(problem, str) else problem
    protocol = Protocol() if protocol is None else protocol
    label = algorithm if isinstance(algorithm, str) else repr(algorithm)
    algorithm = _for(problem, algorithm) if isinstance(algorithm, str) else algorithm
    with one_blas_thread():
        simulation = Simulation(problem, algorithm, seed, protocol)
        simulation.observe_initially()
        simulation.pursue(progress or (lambda elapsed: None))
        columns = simulation.columns()
        return Run(
            problem.instance,
            label,
            seed,
            protocol,
            columns,
            np.array(simulation.timescales),
            average_regret=float(columns["regret"].mean()),
            time_weighted_regret=_time_weighted_regret(problem, columns),
            history=simulation.optimizer.history,
            guards=simulation.optimizer.guards,
            wall_s=time.perf_counter() - began,
        )


def _for(problem: Problem, name: str) -> Algorithm:
    algorithm = algorithms.get(name)
    by_the_clock = isinstance(algorithm.temporal, Matern) and not algorithm.temporal.by_step
    return replace(algorithm, temporal=problem.temporal) if by_the_clock else algorithm


class Simulation:
    """An optimizer, a problem and a clock, for code that looks at the optimizer during a run."""

    def __init__(self, problem: Problem, algorithm: Algorithm, seed: int, protocol: Protocol) -> None:
        self.problem, self.protocol = problem, protocol
        self.pace = protocol.pace
        self.clock = self.pace.clock()
        self.optimizer = Optimizer(
            problem.space,
            direction="maximize",
            algorithm=algorithm,
            clock=self.clock,
            seed=seed,
            n_initial=0,
            callbacks=[self._note],
        )
        self.names = list(problem.space)
        # Keys of four numbers, which differ from every ask's own (seed, k).
        self.initial_rng, self.noise_rng = (np.random.default_rng([seed, 0, 7, stream]) for stream in (1, 2))
        self.noise_std = protocol.noise_std(float(problem.signal.std()))
        self.rows: list[tuple[float, ...]] = []
        self.timescales: list[float] = []
        self.last_asked: Asked | None = None

    def _note(self, event: Event) -> None:
        if isinstance(event, Asked):
            self.last_asked = event

    def observe_initially(self) -> None:
        """Uniform in S × [0, initial_share]."""
        end, n = self.protocol.initial_share * self.protocol.duration, self.protocol.n_initial
        times = np.sort(self.initial_rng.uniform(0.0, end, n))
        points = self.problem.from_unit(self.initial_rng.random((n, self.problem.dim)))
        self.clock.wait_until(end)
        for x, moment in zip(points, times, strict=True):
            _, y = self._measured(x, float(moment))
            self.optimizer.tell(dict(zip(self.names, map(float, x), strict=True)), y, time=float(moment))

    def pursue(self, progress: Callable[[float], object]) -> None:
        """Query until the time is up."""
        duration = self.protocol.duration
        while self.clock.now() < duration:
            with self.clock.computing(self.pace.stopwatch(len(self.optimizer.dataset))):
                trial = self.optimizer.ask(until=duration)
            if trial.time > duration or self.last_asked is None:
                break
            self.clock.wait_until(trial.time)  # ABO may choose a later moment
            x = np.array([trial.params[name] for name in self.names])
            f, y = self._measured(x, trial.time)
            asked = self.last_asked
            self.rows.append((trial.time / duration, *x, y, f, asked.active, asked.response, len(asked.removed)))
            self.timescales.append(self.optimizer.hyperparameters.get("timescale", math.nan))
            self.clock.wait_until(trial.time + self.protocol.evaluation)
            self.optimizer.tell(trial, y)
            progress(min(self.clock.now(), duration))

    def _measured(self, x: Array, moment: float) -> tuple[float, float]:
        """The value f, and its noisy observation."""
        f = float(self.problem(x, moment / self.protocol.duration))
        return f, f + self.noise_std * float(self.noise_rng.normal())

    def columns(self) -> dict[str, Array]:
        if not self.rows:
            raise ConfigurationError(
                f"no query landed within the {self.protocol.duration:g} s: make the duration longer, or the compute "
                f"time ({self.protocol.compute}) shorter"
            )
        names = ["t", *self.names, "y", "f", "n", "response_s", "removed"]
        table = dict(zip(names, np.array(self.rows).T, strict=True))
        table["regret"] = self.problem.optimum(table["t"]) - table["f"]
        counts = {name: table[name].astype(int) for name in ("n", "removed")}
        order = ["t", *self.names, "y", "f", "regret", "n", "response_s", "removed"]
        return {name: (table | counts)[name] for name in order}


def _time_weighted_regret(problem: Problem, columns: dict[str, Array]) -> float:
    """(1/H) ∫ f*(t) − f(x_held(t), t) dt from the first query on; a query is in force until the next one lands."""
    queried = columns["t"]
    X = np.column_stack([columns[name] for name in problem.space])
    moments = queried[0] + (1.0 - queried[0]) * (np.arange(MOMENTS) + 0.5) / MOMENTS
    held = X[np.searchsorted(queried, moments, side="right") - 1]
    return float(np.mean(problem.optimum(moments) - problem(held, moments)))
