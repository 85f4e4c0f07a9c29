"""Studies with everything that a storage can hold, and what must be the same of copies of them."""

from typing import Any

from helpers.studies import TINY, WINDOW

import ebbtide as eb
from ebbtide.study.storage import Storage, copying
from ebbtide.testing.logs import WORLD


def studies_of_all_kinds(storage: Storage) -> None:
    """Removals, failures, keys, leases; a context, constraints and a baseline."""
    kinds: dict[str, dict[str, Any]] = {"window": {"algorithm": WINDOW}, "wörld '%": WORLD}
    for name, options in kinds.items():
        clock = eb.ManualClock(1.0)
        study = eb.Optimizer(TINY, storage=storage, name=name, seed=0, n_initial=2, clock=clock, **options)
        around: dict[str, Any] = {"context": {"load": 300.0}} if "context" in options else {}
        for number in range(11):
            clock.advance(1.0)
            trial = study.ask(lease=4.0 if number % 2 else None, **around)
            outcome: dict[str, Any] = {"value": 1.0 / (1.0 + number)}
            outcome |= {"constraints": {"p99": 40.0 + number}} if around else {}
            study.tell(trial, **({"failed": True} if number == 4 else {"abandoned": True} if number == 5 else outcome))
        study.ask(**around)


def expect_the_same(source: Storage, target: Storage) -> None:
    """Every row, and the next ask."""
    for name in source.names():
        for table in copying.TABLES:
            rows = [list(copying._rows(each.database, each.identify(name), table)) for each in (source, target)]
            assert rows[0] == rows[1]
        summaries = [vars(each.summary(name)) for each in (source, target)]
        assert summaries[0] == summaries[1]
        around: dict[str, Any] = {"context": {"load": 300.0}} if source.summary(name).definition["context"] else {}
        opened = [eb.Optimizer.open(each, name, clock=eb.ManualClock(20.0)) for each in (source, target)]
        assert opened[0].history == opened[1].history
        assert opened[0].ask(**around) == opened[1].ask(**around)
