"""Many runs at once, on Dask: a grid of jobs, each done once, whatever dies on the way.

    jobs = grid(["ackley", "shekel"], {"w-dbo": "w-dbo", "mine": my_algorithm}, seeds=10)
    campaign = conduct(jobs, Store(Path("results")))
    campaign.summary        # a pandas frame, one row a run
    campaign.failures       # what went wrong, with tracebacks

A worker only computes; the campaign's own process writes. So a cluster needs no shared disk, and a run is either
there as a whole or not at all.
"""

import hashlib
import json
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ebbtide import algorithms, benchmarks
from ebbtide.algorithms import Algorithm
from ebbtide.benchmarks import Problem
from ebbtide.errors import ConfigurationError
from ebbtide.experiments.protocol import Protocol
from ebbtide.experiments.simulation import Run, run

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client, Future

    from ebbtide.experiments.store import Store


@dataclass(frozen=True)
class Job:
    """One run to be made. `label` is what a table calls it; it does not change the run."""

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
        """All that decides the run's digits."""
        from ebbtide import __version__

        instance = benchmarks.get(self.problem).instance if isinstance(self.problem, str) else self.problem.instance
        algorithm = self.algorithm if isinstance(self.algorithm, str) else repr(self.algorithm)
        if " object at 0x" in algorithm:
            raise ConfigurationError(
                f"{self.label}: a part of this algorithm has no repr of its own, so that its runs could not be told "
                f"from another's ({algorithm}); make it a frozen dataclass"
            )
        return {
            "problem": instance,
            "algorithm": algorithm,
            "seed": self.seed,
            "protocol": self.protocol.as_dict(),
            "ebbtide": __version__,
        }

    @property
    def key(self) -> str:
        """A name for a file: readable, and another one for whatever would give other digits."""
        identity = self.identity
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
        algorithm = self.algorithm if isinstance(self.algorithm, str) else "own"
        return f"{identity['problem']}_{algorithm}_seed{self.seed}_{digest}"


def grid(
    problems: Iterable[str | Problem],
    contenders: Iterable[str] | Mapping[str, str | Algorithm],
    seeds: int,
    protocol: Protocol | None = None,
) -> list[Job]:
    """Every algorithm on every problem, from seed 0 on; an algorithm by its name, or under a label of yours.

    >>> [job.label for job in grid(["ackley"], {"a tenth": Algorithm()}, seeds=2)]
    ['a tenth', 'a tenth']
    """
    labelled = dict(contenders) if isinstance(contenders, Mapping) else {name: name for name in contenders}
    for algorithm in labelled.values():
        if isinstance(algorithm, str):
            algorithms.get(algorithm)  # complains of an unknown one now, not on a worker
    protocol = Protocol() if protocol is None else protocol
    return [
        Job(problem, label, algorithm, seed, protocol)
        for problem in problems
        for seed in range(seeds)
        for label, algorithm in labelled.items()
    ]


@dataclass(frozen=True)
class Failure:
    """A run that could not be made, and why."""

    job: Job
    traceback: str


@dataclass(frozen=True)
class Tally:
    """Where a campaign stands."""

    total: int
    stored: int  # done by an earlier call
    done: int  # done by this one
    failed: int
    running: int


@dataclass(frozen=True)
class Campaign:
    """What came of it."""

    summary: "pd.DataFrame"
    failures: list[Failure]


def conduct(
    jobs: Sequence[Job],
    store: "Store",
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    watch: Callable[[Tally], object] = lambda tally: None,
) -> Campaign:
    """Make the runs that `store` does not hold yet, on a cluster of this machine's cores or the one at `scheduler`.

    A run that fails is reported and does not stop the others; a run whose worker dies is made again elsewhere (by
    default up to three times: Dask's `distributed.scheduler.allowed-failures`). Call it again after a kill: it goes
    on where it stopped. A local cluster starts processes, so a script calls this under `if __name__ == "__main__":`.
    """
    unique = {job.key: job for job in jobs}
    pending = {key: job for key, job in unique.items() if not store.holds(key)}
    done = 0
    failures: list[Failure] = []

    def tell(running: int) -> None:
        watch(Tally(len(unique), len(unique) - len(pending), done, len(failures), running))

    tell(running=0)
    if pending:
        with _cluster(scheduler, min(workers or _cores(), len(pending))) as client:
            completed = _submitted(client, pending)
            tell(min(len(pending), _threads(client)))
            for future in completed:
                outcome = _outcome(future)
                if isinstance(outcome, Run):
                    store.write(str(future.key), outcome)
                    done += 1
                else:
                    failures.append(Failure(pending[str(future.key)], outcome))
                future.release()
                tell(min(len(pending) - done - len(failures), _threads(client)))
    return Campaign(store.summary([job for job in jobs if store.holds(job.key)]), failures)


def execute(job: Job, version: str) -> Run:
    """What a worker does."""
    from ebbtide import __version__

    if __version__ != version:
        raise ConfigurationError(f"this worker has ebbtide {__version__}, the campaign {version}: install the same")
    return run(job.problem, job.algorithm, job.seed, job.protocol)


def _submitted(client: "Client", jobs: Mapping[str, Job]) -> Iterator["Future"]:
    """The jobs' futures, as they are done. Nobody else holds them, so a worker forgets a run that was fetched."""
    from distributed import as_completed

    from ebbtide import __version__

    completed: Iterator[Future] = as_completed(
        [client.submit(execute, job, __version__, key=key, pure=False) for key, job in jobs.items()]
    )
    return completed


def _outcome(future: "Future") -> Run | str:
    if future.status == "finished":
        result: Run = future.result()
        return result
    if future.status == "error":
        return "".join(traceback.format_exception(future.exception()))
    return f"the scheduler lost this run (its status is {future.status!r}); call again to make it\n"


def _threads(client: "Client") -> int:
    return int(sum(client.nthreads().values()))


@contextmanager
def _cluster(scheduler: str | None, workers: int) -> Iterator["Client"]:
    """A client of the cluster at this address, or of one process a core here, with one BLAS thread each."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ConfigurationError("a campaign needs Dask: pip install 'ebbtide[experiments]'") from error
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
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _cores() -> int:
    from dask.system import CPU_COUNT

    return max(1, int(CPU_COUNT))
