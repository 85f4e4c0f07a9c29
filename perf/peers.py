"""ebbtide beside its peers: one criterion pass and one full step, on the same data, in one run.

    make perf                       everything, in an environment with the peers
    python perf/peers.py --ours     ebbtide and LAPACK alone

Data: n noisy observations of Ackley (d = 3) whose time sweeps the fourth coordinate, as in the paper's protocol.
A full step is: tell one more observation, fit, one removal pass, ask. ebbtide makes 200 steps in a row: their
median, and their mean, in which the steps that make the model afresh count. A peer's figure is the median over the
repetitions, each of which starts from the same n observations and one more; it is compared with our median.
"""

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from record import add_option, record
from scipy.linalg import lapack

import ebbtide as eb
from ebbtide.gp.arrays import Array
from ebbtide.gp.linalg import one_blas_thread

SIZES = (30, 60, 120, 200, 400, 800)
SPAN = 600.0  # seconds that the n observations cover
SETTLING, CONSECUTIVE = 10, 200  # steps before the first that counts, and steps that count


@dataclass(frozen=True)
class Data:
    """n observations, and more of them to tell one by one."""

    X: Array
    t: Array
    y: Array
    more: list[tuple[Array, float]] = field(default_factory=list)

    @property
    def d(self) -> int:
        return int(self.X.shape[1])


def ackley(Z: Array) -> Array:
    z = 65.0 * Z - 32.5
    radius, waves = np.sqrt((z**2).mean(axis=-1)), np.cos(2.0 * np.pi * z).mean(axis=-1)
    value: Array = 20.0 * np.exp(-0.2 * radius) + np.exp(waves) - 20.0 - np.e
    return value


def data(n: int, d: int = 3, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    X, t = rng.random((n, d)), np.sort(rng.random(n))
    y = ackley(np.column_stack([X, t])) + 0.3 * rng.normal(size=n)
    more = rng.random((64, d))
    values = ackley(np.column_stack([more, np.ones(64)])) + 0.3 * rng.normal(size=64)
    return Data(X, SPAN * t, y, list(zip(more, map(float, values), strict=True)))


def median_ms(run: Callable[[int], float], repetitions: int) -> float:
    """`run(k)` returns the seconds of repetition k; the first, cold one is not counted."""
    return 1e3 * float(np.median([run(k) for k in range(repetitions + 1)][1:]))


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# --- ebbtide ----------------------------------------------------------------------------------------------


class Loop:
    """ebbtide in its stride: each step tells what the last ask found and asks again, and one observation goes for each
    that comes, so n stays. The fit has settled before the first step.
    """

    def __init__(self, known: Data, method: str = "bound") -> None:
        n = len(known.t)
        staleness = eb.WassersteinBudget(method=method, min_active=n, max_active=n)  # type: ignore[arg-type]
        self.clock, self.interval, self.rng = eb.ManualClock(SPAN), SPAN / n, np.random.default_rng(1)
        self.opt = eb.Optimizer(
            {f"x{i}": eb.Float(0.0, 1.0) for i in range(known.d)},
            direction="maximize",
            algorithm=eb.Algorithm(staleness=staleness),
            clock=self.clock,
            seed=1,
        )
        for x, t, y in zip(known.X, known.t, known.y, strict=True):
            self.opt.tell({f"x{i}": v for i, v in enumerate(x)}, y, time=t)
        self.trial = self.opt.ask()
        for _ in range(SETTLING):
            self.step()

    def step(self) -> float:
        """Seconds of one step."""
        turn = self.clock.now() / SPAN % 2.0  # time sweeps its coordinate to and fro
        value = float(ackley(np.array([*self.trial.params.values(), min(turn, 2.0 - turn)])) + 0.3 * self.rng.normal())
        self.clock.advance(self.interval)

        def step() -> None:
            self.opt.tell(self.trial, value)
            self.trial = self.opt.ask()

        return timed(step)


def ebbtide_steps(known: Data, method: str = "bound") -> tuple[float, float]:
    """Median and mean of `CONSECUTIVE` steps in a row, in milliseconds: in the mean, those that make the model afresh
    count.
    """
    loop = Loop(known, method)
    seconds = [loop.step() for _ in range(CONSECUTIVE)]
    return 1e3 * float(np.median(seconds)), 1e3 * float(np.mean(seconds))


def ebbtide_criterion(known: Data, repetitions: int, method: str = "bound") -> float:
    kernel, z = criterion_setting(known)

    def scores() -> Array:
        return eb.relevance(known.X, known.t, z, kernel=kernel, noise=0.05, now=SPAN, method=method)  # type: ignore[arg-type]

    return median_ms(lambda _: timed(scores), repetitions)


def criterion_setting(known: Data) -> tuple[eb.SpaceTimeKernel, Array]:
    kernel = eb.SpaceTimeKernel(1.0, eb.Matern(2.5, 0.4), eb.Matern(1.5, 0.3 * SPAN))
    return kernel, (known.y - known.y.mean()) / known.y.std()


def ebbtide_removals(known: Data, k: int, repetitions: int) -> tuple[float, float]:
    """(milliseconds to remove k observations in one review, milliseconds of one criterion pass)."""
    from ebbtide.gp.criterion import criterion_of
    from ebbtide.gp.posterior import condition

    kernel, z = criterion_setting(known)
    policy = eb.WassersteinBudget(min_active=len(known.t) - k, max_active=len(known.t))
    state = {"log_budget": 1e9, "time": SPAN, "timescale": 1.0}
    rng = np.random.default_rng(0)
    with one_blas_thread():
        posterior = condition(kernel, 0.05, known.X, known.t, z)
        n = len(known.t)
        view = eb.View(posterior, z, known.t, np.arange(n), n, SPAN, state, rng)
        assert len(policy.review(view).rows) == k
        whole = median_ms(lambda _: timed(lambda: policy.review(view)), repetitions)
        one = median_ms(lambda _: timed(lambda: criterion_of(posterior, SPAN).scores()), repetitions)
    return whole, one


def lapack_inverse(known: Data, repetitions: int) -> float:
    kernel, _ = criterion_setting(known)
    matrix = np.asfortranarray(kernel(known.X, known.t) + 0.05 * np.eye(len(known.t)))

    def invert() -> None:
        factor, _ = lapack.dpotrf(matrix, lower=1)
        lapack.dpotri(factor, lower=1)

    with one_blas_thread():
        return median_ms(lambda _: timed(invert), repetitions)


# --- peers ------------------------------------------------------------------------------------------------


def wdbo_step(known: Data, repetitions: int) -> float:
    """The authors' package: tell (which fits), clean, next_query."""
    import gpytorch
    import torch
    from wdbo_algo.optimizer import WDBOOptimizer

    torch.set_default_dtype(torch.float64)
    matern = gpytorch.kernels.MaternKernel

    def run(k: int) -> float:
        optimizer = WDBOOptimizer(np.array([[0.0, 1.0]] * known.d), matern, matern, [2.5], [1.5], 0)
        optimizer._xx_tt = np.column_stack([known.X, known.t / SPAN])[:-1]
        optimizer._yy = known.y[:-1].copy()
        x, y = known.more[k]

        def step() -> None:
            optimizer.tell(x, 1.0, y)
            optimizer.clean(1.0)
            optimizer.next_query(1.0)

        return timed(step)

    return median_ms(run, repetitions)


def wdbo_criterion(known: Data, repetitions: int) -> float:
    import wdbo_criterion as reference

    _, z = criterion_setting(known)
    spatial, temporal = reference.MaternKernel(0.4, 2.5), reference.MaternKernel(0.3, 1.5)

    def scores() -> None:
        reference.wasserstein_criterion(
            known.X, z, np.ascontiguousarray(known.t / SPAN), len(z), known.d, 1.0, 0.05, spatial, temporal, 1.0, 0, 1
        )

    return median_ms(lambda _: timed(scores), repetitions)


def optuna_step(known: Data, repetitions: int) -> float:
    """Optuna's GPSampler: tell one finished trial, ask for the next."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    space = {f"x{i}": optuna.distributions.FloatDistribution(0.0, 1.0) for i in range(known.d)}
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.GPSampler(seed=0))

    def add(x: Array, y: float) -> None:
        params = {f"x{i}": float(v) for i, v in enumerate(x)}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=y))

    for x, y in zip(known.X[:-1], known.y[:-1], strict=True):
        add(x, float(y))

    def run(k: int) -> float:
        def step() -> None:
            add(*known.more[k])
            study.ask(space)

        return timed(step)

    return median_ms(run, repetitions)


def bayes_opt_step(known: Data, repetitions: int) -> float:
    """The bayesian-optimization package: register one point, suggest the next."""
    from bayes_opt import BayesianOptimization

    warnings.simplefilter("ignore")
    optimizer = BayesianOptimization(
        f=None,
        pbounds={f"x{i}": (0.0, 1.0) for i in range(known.d)},
        random_state=0,
        verbose=0,
        allow_duplicate_points=True,
    )
    for x, y in zip(known.X[:-1], known.y[:-1], strict=True):
        optimizer.register({f"x{i}": float(v) for i, v in enumerate(x)}, float(y))

    def run(k: int) -> float:
        def step() -> None:
            x, y = known.more[k]
            optimizer.register({f"x{i}": float(v) for i, v in enumerate(x)}, y)
            optimizer.suggest()

        return timed(step)

    return median_ms(run, repetitions)


def botorch_step(known: Data, repetitions: int) -> float:
    return median_ms(lambda k: timed(botorch_call(known, k)), repetitions)


def botorch_call(known: Data, k: int) -> Callable[[], None]:
    """BoTorch's SingleTaskGP over space and time, fitted, then UCB maximized at the present."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_default_dtype(torch.float64)
    warnings.simplefilter("ignore")
    bounds = torch.stack([torch.zeros(known.d + 1), torch.ones(known.d + 1)])
    x, y = known.more[k]
    Z = torch.tensor(np.vstack([np.column_stack([known.X, known.t / SPAN])[:-1], np.append(x, 1.0)]))
    Y = torch.tensor(np.append(known.y[:-1], y))[:, None]

    def step() -> None:
        model = SingleTaskGP(Z, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        optimize_acqf(UpperConfidenceBound(model, beta=3.0), bounds, 1, 4, 256, fixed_features={known.d: 1.0})

    return step


# --- the tables -------------------------------------------------------------------------------------------

# (name, measure, largest n, repetitions up to n = 200); wdbo-algo beyond 200 takes minutes a step: O(n⁴)
STEPS = [
    ("wdbo-algo", wdbo_step, 200, 3),
    ("Optuna GPSampler", optuna_step, 800, 7),
    ("BoTorch SingleTaskGP + UCB", botorch_step, 800, 3),
    ("bayesian-optimization", bayes_opt_step, 800, 3),
]


def ours_repetitions(n: int) -> int:
    return 40 if n <= 200 else 12


def print_steps(peers: bool) -> dict[str, dict[int, float]]:
    ours = ["ebbtide", "ebbtide mean", "ebbtide exact", "ebbtide exact mean"]
    names = [*ours, *(name for name, *_ in STEPS if peers), "LAPACK inverse"]
    print("\nOne full step (tell + fit + removal pass + ask), Ackley d = 3, milliseconds (× ebbtide)\n")
    print(f"{'n':>5}" + "".join(f"{name:>26}" for name in names))
    table: dict[str, dict[int, float]] = {name: {} for name in names}
    for n in SIZES:
        known = data(n)
        table["ebbtide"][n], table["ebbtide mean"][n] = ebbtide_steps(known)
        table["ebbtide exact"][n], table["ebbtide exact mean"][n] = ebbtide_steps(known, "exact")
        for name, measure, largest, repetitions in STEPS if peers else []:
            if n <= largest:
                table[name][n] = measure(known, repetitions if n <= 200 else 1)
        table["LAPACK inverse"][n] = lapack_inverse(known, 40)
        unit = table["ebbtide"][n]
        cells = [f"{table[k][n]:.2f} ({table[k][n] / unit:.3g}×)" if n in table[k] else "–" for k in names]
        print(f"{n:>5}" + "".join(f"{cell:>26}" for cell in cells), flush=True)
    rows = [
        {"n": n, "library": name, "ms": ms, "ratio": ms / table["ebbtide"][n]}
        for n in SIZES
        for name in names
        if (ms := table[name].get(n)) is not None
    ]
    record("steps", rows, "make perf")
    return table


def print_criterion(peers: bool) -> dict[tuple[int, int], float]:
    print("\nOne criterion pass (kernel parameters and data in, scores out), milliseconds\n")
    print(f"{'d':>5}{'n':>5}{'ebbtide':>12}{'exact':>12}{'wdbo-criterion':>18}{'ratio':>10}")
    ratios = {}
    rows: list[dict[str, object]] = []
    for d in (3, 2):
        for n in SIZES:
            known = data(n, d)
            ours = ebbtide_criterion(known, ours_repetitions(n))
            exact = ebbtide_criterion(known, ours_repetitions(n), "exact")
            line = f"{d:>5}{n:>5}{ours:>12.2f}{exact:>12.2f}"
            rows.append({"d": d, "n": n, "ebbtide_ms": ours, "exact_ms": exact, "theirs_ms": "", "ratio": ""})
            if peers and n <= 200:
                theirs = wdbo_criterion(known, 2)
                ratios[d, n] = theirs / ours
                rows[-1] |= {"theirs_ms": theirs, "ratio": ratios[d, n]}
                line += f"{theirs:>18.1f}{theirs / ours:>9.0f}×"
            print(line, flush=True)
    record("criterion", rows, "make perf")
    return ratios


def memory_mb(n: int) -> float:
    """Peak memory of a process that makes one step with n active observations, less that of one that only imports."""
    code = (
        "import sys; sys.path.insert(0, 'perf'); import peers\n"
        "n = int(sys.argv[1])\n"
        "if n: peers.Loop(peers.data(n)).step()\n"
        "print(peers.peak_mb())"
    )

    def peak(n: int) -> float:
        done = subprocess.run([sys.executable, "-c", code, str(n)], check=True, capture_output=True, text=True)
        return float(done.stdout)

    return peak(n) - peak(0)


def peak_mb() -> float:
    """The kernel's own high-water mark of this process (getrusage's is inherited from the parent)."""
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", action="store_true", help="leave the peers out")
    add_option(parser)
    peers = not parser.parse_args().ours
    steps = print_steps(peers)
    criterion = print_criterion(peers)
    whole, one = ebbtide_removals(data(400), 100, 10)

    print("\nAgainst the targets\n")
    rows: list[dict[str, object]] = []

    def verdict(what: str, value: float, must: float, aim: float, *, least: bool = True) -> None:
        def met(bound: float) -> bool:
            return value >= bound if least else value <= bound

        word = "aim met" if met(aim) else "must met" if met(must) else "MISSED"
        sign = "≥" if least else "≤"
        print(f"{what:<62}{value:>9.1f}   must {sign} {must:<6g} aim {sign} {aim:<6g} {word}")
        rows.append({"figure": what, "measured": value, "sign": sign, "must": must, "aim": aim})

    if peers:
        for n in (60, 120, 200):
            verdict(f"full step against wdbo-algo, n = {n}", steps["wdbo-algo"][n] / steps["ebbtide"][n], 300, 600)
        verdict("criterion against wdbo-criterion, n = 200, d = 3", criterion[3, 200], 1000, 2000)
        verdict("criterion against wdbo-criterion, n = 200, d = 2", criterion[2, 200], 500, 2000)
        for n, must, aim in ((60, 35, 60), (200, 35, 60), (800, 60, 120)):
            ratio = steps["Optuna GPSampler"][n] / steps["ebbtide"][n]
            verdict(f"full step against Optuna's GPSampler, n = {n}", ratio, must, aim)
    ratio = steps["ebbtide mean"][800] / steps["LAPACK inverse"][800]
    verdict("mean step in LAPACK inverses, n = 800", ratio, 1, 0.6, least=False)
    for n in (200, 800):
        ratio = steps["ebbtide exact mean"][n] / steps["ebbtide mean"][n]
        verdict(f"mean step with the exact criterion against the bound, n = {n}", ratio, 1.2, 1, least=False)
    verdict("removing 100 of 400 against one criterion pass", whole / one, 10, 4, least=False)
    verdict("memory at n = 2000, MB beyond the imports", memory_mb(2000), 500, 500, least=False)
    record("targets", rows, "make perf")


if __name__ == "__main__":
    main()
