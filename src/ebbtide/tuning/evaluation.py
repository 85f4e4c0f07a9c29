"""One evaluation: run a command, read an endpoint, or one after the other."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbtide.tuning.command import run_command
from ebbtide.tuning.endpoint import read_metric
from ebbtide.tuning.outcome import Outcome
from ebbtide.tuning.template import fill, fill_url


def evaluator(
    argv: Sequence[str], url: str | None, timeout: float, settle: float = 0.0
) -> Callable[[Mapping[str, Any]], Outcome]:
    """The function that the loop calls. With both, the command applies the parameters and the URL gives the value,
    `settle` seconds later, which do not count against the time limit.
    """

    def evaluate(params: Mapping[str, Any]) -> Outcome:
        if url is None:
            return run_command(fill(argv, params), timeout)
        address = fill_url(url, params)
        if not argv:
            return read_metric(address, timeout)
        done = run_command(fill(argv, params), timeout, prints_value=False)
        if done.problem is not None:
            return done
        time.sleep(settle)
        read = read_metric(address, max(timeout - done.seconds, 0.0))
        return replace(read, seconds=done.seconds + settle + read.seconds)

    return evaluate
