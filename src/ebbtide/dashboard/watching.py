"""A stored study, followed without changing it: the model as it is now, and as it was after any ask."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ebbtide.archive import Ask
from ebbtide.definition import Definition
from ebbtide.reasoning import Reasoner
from ebbtide.records import Observation, Recommendation
from ebbtide.storage import Journal

QUIET_S = 60.0  # after which a study may count as silent,
QUIET_INTERVALS = 20  # if that is also so many times as long as between its observations
REMEMBERED = 4096  # recommendations of the past, which never change


class Watched:
    """Raises SnapshotError if the algorithm has parts of somebody's own, which a database cannot hold."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.reasoner = Reasoner(Definition.from_json(journal.definition))
        self.reasoner.state = journal.restore(self.reasoner.ledger)
        self._recommended: OrderedDict[int, Recommendation] = OrderedDict()

    def catch_up(self) -> None:
        self.reasoner.learn(self.journal.news(self.reasoner.state.asks, self.reasoner.ledger.told))

    @property
    def moment(self) -> float:
        """Now; for a study that has fallen silent, or whose clock is not ours to read, the last moment it knew."""
        latest = self.reasoner.state.latest_reading
        if self.reasoner.definition.clock != "SystemClock":
            return 0.0 if latest is None else latest
        now = time.time()
        if latest is None:
            return now
        quiet = max(QUIET_S, QUIET_INTERVALS * self.reasoner.ledger.interval)
        return latest if now - latest > quiet else max(now, latest)

    # --- the past -----------------------------------------------------------------------------------------

    def recommended(self, ask: int) -> Recommendation | None:
        """What was recommended after an ask, if that is known already."""
        return self._recommended.get(ask)

    def recommend_after(self, asks: Sequence[Ask]) -> None:
        """Work out what was recommended after some asks."""
        removals = self.journal.removals_since(min(int(ask.trial.id) for ask in asks))
        at, line = np.array(removals, dtype=int).reshape(-1, 2).T
        current = self.reasoner.ledger.lines
        for ask in asks:
            number = int(ask.trial.id)
            # What was active then has been removed since, or is active still.
            then = np.concatenate([line[at > number], current])
            observations = self.journal.numbered(then[then < ask.told].tolist())
            self._recommended[number] = self._as_of(ask, observations).recommend(ask.now)
        while len(self._recommended) > REMEMBERED:
            self._recommended.popitem(last=False)

    def _as_of(self, ask: Ask, active: dict[int, Observation]) -> Reasoner:
        reasoner = Reasoner(self.reasoner.definition)
        reasoner.state = ask.state
        for line, observation in active.items():
            reasoner.ledger.restore(line, replace(observation, removed_at=None))
        reasoner.ledger.told = ask.told
        return reasoner
