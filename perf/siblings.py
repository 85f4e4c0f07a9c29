"""What siblings are worth: the 20th study of a family against a study alone, and one that is unlike the others.

    make perf-siblings        (or: python perf/siblings.py --kinds noisy --seeds 10)

A family has 19 studies on draws from processes (perf/draws.py), one query a second. Their l_S and l_T spread threefold,
their levels by half a deviation. Each was asked `LEARNED` times, one after the other, in one SQLite file. Then come
the 20ths, many of them, each with the same 19 before it, and each also alone: same draw, same noise, same seed.

| column      | meaning                                                                                         |
|-------------|-------------------------------------------------------------------------------------------------|
| alone       | queries until the regret of a study alone is steady: the first from which its mean over the draws  |
|             | and `WINDOW` queries has made 90 % of the way from that of a random setting to its late level     |
| with_family | the same with a family, for the same levels                                                     |
| ratio       | of these two, with a 95 % interval (bootstrap over the draws)                                   |
| late        | regret from query `LATE` on, with the family relative to alone                                  |
| regret      | over the whole run, relative to the study alone: geometric mean over the draws, paired           |

The odd ones are unlike the others in one way each (`ODD`): what counts there is the regret.
"""

import argparse
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from draws import TIMESCALE, Draw
from record import add_option, record
from scipy.stats import t as student

import ebbtide as eb
from ebbtide.gp.arrays import Array

SIBLINGS, LEARNED, QUERIES, WINDOW = 19, 120, 75, 5
LATE = QUERIES * 2 // 3  # from here on, the level counts as late
WAY = 0.9  # of the way
RESAMPLED = 1000
LEVEL, DEVIATION = 100.0, 10.0  # of the values, in the user's unit


@dataclass(frozen=True)
class Kind:
    """What the studies of a family are like; l_S and l_T are the middle of what they spread around."""

    dim: int
    lengthscale: float
    timescale: float  # seconds, of which each has a query
    noise: float  # a share of the signal's variance


@dataclass(frozen=True)
class Case:
    """One study: what it is like, and its draw."""

    dim: int
    lengthscale: float
    timescale: float
    noise: float
    seed: int
    level: float = LEVEL
    deviation: float = DEVIATION


KINDS = {
    "quiet": Kind(2, 0.3, 60.0, 0.05),
    "noisy": Kind(2, 0.3, 120.0, 0.5),
    "smooth": Kind(3, 0.8, 60.0, 0.05),
    "wide": Kind(5, 0.7, 120.0, 0.2),
}
ODD = {
    "rough": {"lengthscale": 1 / 3},
    "smooth": {"lengthscale": 3.0},
    "fast": {"timescale": 1 / 4},
    "slow": {"timescale": 4.0},
    "quiet": {"noise": 1 / 20},
    "noisy": {"noise": 10.0},
    "large": {"deviation": 10.0},
    "high": {"level": 3.0},
}


class Moving(Draw):
    """A draw that is looked at once a second."""

    def __init__(self, case: Case, queries: int) -> None:
        super().__init__(case.seed, case.dim, case.lengthscale, timescales=1)
        self.moments = np.arange(float(queries)) * (TIMESCALE / case.timescale)


def spread(kind: Kind, seed: int) -> Case:
    """A study of a family."""
    rng = np.random.default_rng([seed, 20])
    lengthscale, timescale = 3.0 ** rng.uniform(-0.5, 0.5, 2)
    level = LEVEL + 0.5 * DEVIATION * float(rng.normal())
    return Case(kind.dim, kind.lengthscale * lengthscale, kind.timescale * timescale, kind.noise, seed, level)


def odd(kind: Kind, unlike: str, seed: int) -> Case:
    """A study that is unlike those of a family in one way."""
    usual = replace(spread(kind, seed), lengthscale=kind.lengthscale, timescale=kind.timescale)
    return replace(usual, **{name: getattr(usual, name) * factor for name, factor in ODD[unlike].items()})


def regrets(case: Case, queries: int, path: Path, family: str | None) -> Array:
    """Of each query of a study in a file, in deviations of the signal."""
    draw, clock = Moving(case, queries), eb.ManualClock()
    errors = np.sqrt(case.noise) * np.random.default_rng([case.seed, 3]).normal(size=queries)
    space = {f"x{i}": eb.Float(0.0, 1.0) for i in range(case.dim)}
    stored: dict[str, Any] = {"storage": f"sqlite:///{path}", "name": f"device-{case.seed}", "family": family}
    found = np.empty(queries)
    with eb.Optimizer(space, direction="maximize", clock=clock, seed=case.seed, **stored) as opt:
        for k in range(queries):
            trial = opt.ask()
            value = float(draw(np.array([list(trial.params.values())]), draw.moments[k : k + 1])[0])
            found[k] = draw.optimum[k] - value
            opt.tell(trial, case.level + case.deviation * (value + errors[k]))
            clock.advance(1.0)
    return found


def family_of(kind: Kind, path: Path) -> Path:
    """The file with the 19 studies that come first."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        for seed in range(SIBLINGS):
            regrets(spread(kind, 10_000 + seed), LEARNED, unfinished, "edge")
        unfinished.rename(path)
    return path


def pair(work: tuple[Case, Path]) -> Array:
    """The regrets of a study alone, and of the same with a family; those that are known are not worked out again."""
    case, siblings = work
    kept = siblings.with_suffix("") / f"{'-'.join(f'{value:g}' for value in astuple(case))}.npy"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        np.save(kept, _pair(case, siblings))
    found: Array = np.load(kept)
    return found


def _pair(case: Case, siblings: Path) -> Array:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.EbbtideWarning)
        with_family = Path(folder) / "family.db"
        shutil.copy(siblings, with_family)
        alone = regrets(case, QUERIES, Path(folder) / "alone.db", None)
        return np.array([alone, regrets(case, QUERIES, with_family, "edge")])


# --- what it amounts to -------------------------------------------------------------------------------------------


def until_steady(curve: Array, level: float) -> float:
    """The first query from which the running mean is at a level, or lower; between two queries, by interpolation."""
    running = np.convolve(curve, np.ones(WINDOW) / WINDOW, mode="valid")
    below = np.flatnonzero(running <= level)
    first = int(below[0]) if len(below) else len(running) - 1
    if first == 0:
        return 1.0
    before, after = running[first - 1 : first + 1]
    return first + 1.0 - float(np.clip((level - after) / max(before - after, 1e-12), 0.0, 1.0))


def steadiness(alone: Array, sibling: Array) -> tuple[float, float]:
    """Queries until steady, of both; their rows are draws, and their first query fills the space."""
    random, late = float(alone[:, 0].mean()), float(alone[:, LATE:].mean())
    level = random + WAY * (late - random)
    return until_steady(alone.mean(axis=0), level), until_steady(sibling.mean(axis=0), level)


def interval(alone: Array, sibling: Array) -> tuple[float, float]:
    """Of the ratio of the queries until steady."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(RESAMPLED):
        rows = rng.integers(len(alone), size=len(alone))
        first, second = steadiness(alone[rows], sibling[rows])
        ratios.append(second / first)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def regret_ratio(alone: Array, sibling: Array) -> dict[str, float]:
    logs = np.log(sibling.mean(axis=1)) - np.log(alone.mean(axis=1))
    half = student.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    middle = float(logs.mean())
    ends = {"regret": middle, "regret_low": middle - half, "regret_high": middle + half}
    return {name: round(float(np.exp(end)), 3) for name, end in ends.items()}


def line(family: str, study: str, pairs: Sequence[Array]) -> dict[str, object]:
    alone, sibling = np.array(pairs).transpose(1, 0, 2)
    (first, second), (low, high) = steadiness(alone, sibling), interval(alone, sibling)
    queries = {"alone": round(first, 1), "with_family": round(second, 1), "ratio": round(second / first, 3)}
    ends = {"low": round(low, 3), "high": round(high, 3)}
    late = {"late": round(float(sibling[:, LATE:].mean() / alone[:, LATE:].mean()), 3)}
    what = {"family": family, "study": study, "draws": len(pairs)}
    return what | queries | ends | late | regret_ratio(alone, sibling)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--odd", nargs="*", choices=ODD, default=list(ODD), help="of the first kind")
    parser.add_argument("--seeds", type=int, default=60, help="draws of the 20th study")
    parser.add_argument("--first-seed", type=int, default=0, help="of these draws, and of those of the odd studies")
    parser.add_argument("--odd-seeds", type=int, default=20, help="draws of each odd study")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("out/siblings"), help="another call goes on with its runs")
    add_option(parser)
    chosen = parser.parse_args()
    rows: list[dict[str, object]] = []
    with ProcessPoolExecutor(chosen.jobs) as pool:
        files = {name: chosen.folder / f"{name}.db" for name in chosen.kinds}
        list(pool.map(family_of, [KINDS[name] for name in chosen.kinds], files.values()))
        seeds, odd_seeds = (range(chosen.first_seed, chosen.first_seed + n) for n in (chosen.seeds, chosen.odd_seeds))
        works = [(name, "20th", [spread(KINDS[name], seed) for seed in seeds]) for name in chosen.kinds]
        first = chosen.kinds[0]
        works += [(first, way, [odd(KINDS[first], way, seed) for seed in odd_seeds]) for way in chosen.odd]
        unlike: list[Array] = []
        for name, study, cases in works:
            pairs = list(pool.map(pair, [(case, files[name]) for case in cases]))
            unlike += [] if study == "20th" else pairs
            rows.append(line(name, study, pairs))
            print(rows[-1], flush=True)
        if unlike:
            rows.append(line(first, "all of these", unlike))
            print(rows[-1], flush=True)
    record("siblings", rows, "make perf-siblings")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
