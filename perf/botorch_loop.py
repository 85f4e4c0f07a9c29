"""A plain BoTorch loop on an objective that drifts, and the same loop with three more lines: regret and response time.

    make perf-botorch

The clock moves by what each step took, and by a second for the measurement; so a slower loop measures less often. Both
loops run in turns, in one process.
"""

import argparse
import math
import time
import warnings
from dataclasses import dataclass, field

import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from record import add_option, record

import ebbtide as eb
from ebbtide.benchmarks import Problem
from ebbtide.gp.arrays import Array
from ebbtide.integrations.botorch import RemovalBudget, prune

MEASUREMENT_S = 1.0
TIME_UNIT_S = 600.0  # what the model counts time in: fixed, so that forgetting does not change it
INITIAL = 15


@dataclass
class Loop:
    """The loop of somebody who uses BoTorch; the lines marked + are what forgetting adds."""

    problem: Problem
    duration: float
    forgetting: bool
    seed: int
    now: float = 0.0
    regrets: list[float] = field(default_factory=list)
    responses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        d = self.problem.dim
        self.box = torch.tensor([[0.0] * (d + 1), [1.0] * d + [TIME_UNIT_S]]).double()
        points = self.rng.random((INITIAL, self.problem.dim))
        self.train_X, self.train_Y = torch.empty(0, self.problem.dim + 1).double(), torch.empty(0, 1).double()
        for x in points:
            self.measure(x)
            self.now += MEASUREMENT_S
        self.regrets.clear()
        self.budget = RemovalBudget()  # +

    def step(self) -> None:
        began = time.perf_counter()
        model = SingleTaskGP(
            self.train_X, self.train_Y, input_transform=Normalize(self.problem.dim + 1, bounds=self.box)
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        x = self.query(model)
        if self.forgetting:
            keep = prune(model, self.now, self.budget)  # +
            self.train_X, self.train_Y = self.train_X[keep], self.train_Y[keep]  # +
        response = time.perf_counter() - began
        self.responses.append(response)
        self.now += response
        self.measure(x)
        self.now += MEASUREMENT_S

    def query(self, model: SingleTaskGP) -> Array:
        d = self.problem.dim
        acquisition = UpperConfidenceBound(model, beta=0.2 * d * math.log(2 * len(self.train_X)))
        bounds = torch.tensor([[0.0] * d + [self.now], [1.0] * d + [self.now]]).double()
        best, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=4, raw_samples=64, fixed_features={d: self.now})
        x: Array = best[0, :d].detach().numpy()
        return x

    def measure(self, x: Array) -> None:
        low, high = np.array(self.problem.bounds).T
        t = min(1.0, self.now / self.duration)
        value = float(self.problem(low + x * (high - low), t))
        self.regrets.append(float(self.problem.optimum(t)) - value)
        told = value + self.problem.noise_std * self.rng.normal()
        self.train_X = torch.cat([self.train_X, torch.tensor([[*x, self.now]]).double()])
        self.train_Y = torch.cat([self.train_Y, torch.tensor([[told]]).double()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="hartmann3")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seeds", type=int, default=3)
    add_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    problem = eb.benchmarks.get(options.benchmark)
    loops = [
        Loop(problem, options.seconds, forgetting, seed)
        for forgetting in (False, True)
        for seed in range(options.seeds)
    ]
    torch.manual_seed(0)
    while any(loop.now < options.seconds for loop in loops):
        min(loops, key=lambda loop: loop.now).step()
    print(f"| {options.benchmark} | queries | kept at the end | response, ms | in the last tenth | average regret |")
    print("|---|---|---|---|---|---|")
    rows = [
        report("with `prune`" if forgetting else "plain", [loop for loop in loops if loop.forgetting is forgetting])
        for forgetting in (False, True)
    ]
    record("botorch-loop", rows, "make perf-botorch")


def report(what: str, loops: list[Loop]) -> dict[str, object]:
    """A row: medians of the response times, means of the rest."""
    responses = 1e3 * np.concatenate([loop.responses for loop in loops])
    last = 1e3 * np.concatenate([loop.responses[-(len(loop.responses) // 10) :] for loop in loops])
    regrets = [np.mean(loop.regrets) for loop in loops]
    error = np.std(regrets, ddof=1) / math.sqrt(len(loops)) if len(loops) > 1 else math.nan
    queries, kept = np.mean([(len(loop.responses), len(loop.train_X)) for loop in loops], axis=0)
    print(
        f"| {what} | {queries:.0f} | {kept:.0f} | {np.median(responses):.0f} | {np.median(last):.0f} "
        f"| {np.mean(regrets):.3f} ± {error:.3f} |"
    )
    return {
        "loop": what,
        "queries": queries,
        "kept": kept,
        "response_ms": np.median(responses),
        "last_tenth_ms": np.median(last),
        "regret": np.mean(regrets),
        "error": error,
    }


if __name__ == "__main__":
    main()
