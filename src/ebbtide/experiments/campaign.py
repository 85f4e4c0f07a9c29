"""Many runs at once, on Dask: a grid of jobs, each done once even if processes die.

    jobs = grid(["ackley", "shekel"], {"w-dbo": "w-dbo", "mine": my_algorithm}, seeds=10)
    campaign = conduct(jobs, Store(Path("results")))
    campaign.summary        # a pandas frame, one row per run
    campaign.failures       # what went wrong, with tracebacks

Workers only compute; the campaign's own process writes. So a cluster needs no shared disk, and a run is stored whole or
not at all.
"""

import hashlib
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ebbtide import algorithms, benchmarks
from ebbtide.algorithms import Algorithm
from ebbtide.benchmarks import Problem
from ebbtide.errors import ConfigurationError, how_to_install
from ebbtide.experiments import code
from ebbtide.experiments.protocol import Protocol
from ebbtide.experiments.simulation import Run, run

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client, Future

    from ebbtide.experiments.store import Store

WORKERS_ENVIRON = "distributed.nanny.pre-spawn-environ"  # Dask's setting
AHEAD = 2  # runs handed out per thread: the current one and the next


@dataclass(frozen=True)
class Job:
    """One run to make. `label` is its name in tables, and in the name of its file if the algorithm is your own."""

    problem: str | Problem
    label: str
    algorithm: str | Algorithm
    seed: int
    protocol: Protocol = field(default_factory=Protocol)

    @property
    def benchmark(self) -> str:
        return self.problem if isinstance(self.problem, str) else self.problem.instance

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the run's digits, including the code."""
        instance = benchmarks.get(self.problem).instance if isinstance(self.problem, str) else self.problem.instance
        algorithm = self.algorithm if isinstance(self.algorithm, str) else repr(self.algorithm)
        if " at 0x" in algorithm:
            raise ConfigurationError(
                f"{self.label}: a part of this algorithm has no repr of its own, so its runs cannot be told apart "
                f"from another's ({algorithm}); make it a frozen dataclass without functions"
            )
        return {
            "problem": instance,
            "algorithm": algorithm,
            "seed": self.seed,
            "protocol": self.protocol.as_dict(),
            "code": code.of_the_engine(),
            "own_code": code.of_ones_own(self.problem, self.algorithm),
        }

    @property
    def key(self) -> str:
        """A readable file name, different for whatever would give other digits."""
        identity = self.identity
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
        algorithm = self.algorithm if isinstance(self.algorithm, str) else re.sub(r"[^\w.+-]+", "-", self.label)
        return f"{identity['problem']}_{algorithm}_seed{self.seed}_{digest}"


def grid(
    problems: Iterable[str | Problem],
    contenders: Iterable[str] | Mapping[str, str | Algorithm],
    seeds: int,
    protocol: Protocol | None = None,
) -> list[Job]:
    """Every algorithm on every problem with seeds from 0; algorithms by name, or under labels of your own.

    >>> [job.label for job in grid(["ackley"], {"a tenth": Algorithm()}, seeds=2)]
    ['a tenth', 'a tenth']
    """
    labelled = dict(contenders) if isinstance(contenders, Mapping) else {name: name for name in contenders}
    for algorithm in labelled.values():
        if isinstance(algorithm, str):
            algorithms.get(algorithm)  # refuse an unknown name here, not on a worker
    protocol = Protocol() if protocol is None else protocol
    return [
        Job(problem, label, algorithm, seed, protocol)
        for problem in problems
        for seed in range(seeds)
        for label, algorithm in labelled.items()
    ]


@dataclass(frozen=True)
class Failure:
    """A run that failed, with its traceback."""

    job: Job
    traceback: str


@dataclass(frozen=True)
class Tally:
    """Progress of a campaign, in runs."""

    total: int
    stored: int  # done by an earlier call
    done: int  # done by this one
    failed: int
    running: int


@dataclass(frozen=True)
class Campaign:
    """The result: a summary of the runs, and the failures."""

    summary: "pd.DataFrame"
    failures: list[Failure]


def conduct(
    jobs: Sequence[Job],
    store: "Store",
    *,
    scheduler: str | None = None,
    watch: Callable[[Tally], object] = lambda tally: None,
) -> Campaign:
    """Make the runs that `store` does not hold yet, on a cluster of this machine's cores or the one at `scheduler`.

    A run that fails is reported and does not stop the others; a run whose worker dies is made again elsewhere (by
    default up to three times: Dask's `distributed.scheduler.allowed-failures`). Called again after a kill, it continues
    where it stopped. A local cluster starts processes, so call this under `if __name__ == "__main__":` in a script.
    """
    unique = {job.key: job for job in jobs}
    pending = {key: job for key, job in unique.items() if not store.holds(key)}
    done = 0
    failures: list[Failure] = []

    def tell(running: int) -> None:
        watch(Tally(len(unique), len(unique) - len(pending), done, len(failures), running))

    tell(running=0)
    if pending:
        with _cluster(scheduler, min(_cores(), len(pending))) as client:
            for key, outcome, running in _outcomes(client, pending):
                if isinstance(outcome, Run):
                    store.write(key, outcome)
                    done += 1
                elif outcome:
                    failures.append(Failure(pending[key], outcome))
                tell(running)
    return Campaign(store.summary([job for job in jobs if store.holds(job.key)]), failures)


def execute(payload: bytes, engine: str) -> Run:
    """Runs on a worker. The job comes as bytes, so that one that cannot be unpickled there fails alone."""
    if code.of_the_engine() != engine:
        raise ConfigurationError("this worker has another version of ebbtide than the campaign: install the same one")
    job: Job = pickle.loads(payload)  # noqa: S301  (from our own client)
    return run(job.problem, job.algorithm, job.seed, job.protocol)


def _outcomes(client: "Client", jobs: Mapping[str, Job]) -> Iterator[tuple[str, Run | str, int]]:
    """A run, or the traceback of its failure, as each ends, and how many are running. The first item has no run.

    Few are handed out at a time, because Dask blames a worker's death on every task that the worker had. What it gave
    up for that reason is made once more at the end, alone: if its worker dies again, the blame is deserved.
    """
    import cloudpickle
    from distributed import KilledWorker, as_completed

    waiting, blamed = list(jobs)[::-1], list[str]()
    names, repeated = dict[str, str](), set[str]()
    completed = as_completed()

    def submit(key: str) -> None:
        future = client.submit(execute, cloudpickle.dumps(jobs[key]), code.of_the_engine(), pure=False)
        names[future.key] = key
        completed.add(future)

    def hand_out(threads: int) -> int:
        while waiting and completed.count() < AHEAD * threads:
            submit(waiting.pop())
        if blamed and not completed.count():
            submit(blamed.pop())
        return min(threads, int(completed.count()))

    threads = _threads(client, before=1)
    yield "", "", hand_out(threads)
    for future in completed:
        key, threads = names.pop(future.key), _threads(client, threads)
        lost = future.status in ("lost", "cancelled")
        killed = future.status == "error" and isinstance(future.exception(), KilledWorker)
        if (lost or killed) and key not in repeated:
            repeated.add(key)
            (waiting if lost else blamed).append(key)
            hand_out(threads)
            continue
        outcome = _outcome(future)
        future.release()
        yield key, outcome, hand_out(threads)


def _outcome(future: "Future") -> Run | str:
    if future.status == "finished":
        result: Run = future.result()
        return result
    if future.status == "error":
        return "".join(traceback.format_exception(future.exception()))
    return f"the scheduler lost this run (its status is {future.status!r}); call again to repeat it\n"


def _threads(client: "Client", before: int) -> int:
    """Threads of all live workers; `before` while the scheduler does not answer."""
    try:
        return max(1, int(sum(client.nthreads().values())))
    except OSError:
        return before


@contextmanager
def _cluster(scheduler: str | None, workers: int) -> Iterator["Client"]:
    """A client of the cluster at this address, or of a local one with a single-threaded process per core."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ConfigurationError(f"a campaign needs Dask: {how_to_install('experiments')}") from error
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise ConfigurationError(
                f"no Dask scheduler answers at {scheduler!r} ({error}); give its address, such as tcp://host:8786"
            ) from error
        with client:
            yield client
        return
    # By default Dask's workers return freed memory to the system at once. A run frees matrices all the time: it would
    # spend a quarter of its time on page faults.
    environ = dict(dask.config.get(WORKERS_ENVIRON))
    environ.pop("MALLOC_TRIM_THRESHOLD_", None)
    with (
        dask.config.set({WORKERS_ENVIRON: environ}),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _cores() -> int:
    from dask.system import CPU_COUNT

    return max(1, int(CPU_COUNT))
