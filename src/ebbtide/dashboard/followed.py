"""A stored study, followed without changing it: the model as it is now, and as it was after any ask."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from ebbtide.clock import is_far_ahead
from ebbtide.gp.arrays import Array
from ebbtide.records import Observation, Recommendation
from ebbtide.space import Params
from ebbtide.study.active import Checkpoint
from ebbtide.study.definition import Definition
from ebbtide.study.engine import Engine
from ebbtide.study.log import Ask
from ebbtide.study.storage import StoredLog

QUIET_S = 60.0  # a study counts as silent after this long without news,
QUIET_INTERVALS = 20  # and after this many of the usual intervals between its observations
REMEMBERED = 4096  # past recommendations, which never change


class FollowedStudy:
    """Raises SnapshotError if the algorithm has parts of the user's own, which a database cannot hold."""

    def __init__(self, log: StoredLog) -> None:
        self.log = log
        self.engine = Engine(Definition.from_json(log.definition))
        log.restore(self.engine)
        self._recommended: OrderedDict[int, Recommendation] = OrderedDict()

    def catch_up(self) -> None:
        self.engine.learn(self.log.updates(self.engine.state.asks, self.engine.active.told))

    @property
    def moment(self) -> float:
        """Now; for a study that is silent, or whose clock cannot be read here, the last reading of its clock."""
        latest = self.engine.state.latest_reading
        if self.engine.definition.clock != "SystemClock":
            return 0.0 if latest is None else latest
        now = time.time()
        if latest is None or is_far_ahead(latest, now):
            return now
        quiet = max(QUIET_S, QUIET_INTERVALS * self.engine.active.interval)
        return latest if now - latest > quiet else max(now, latest)

    @property
    def context(self) -> Params:
        """The latest context, whatever its age; empty for a study without."""
        return _latest(self.engine)

    def coordinates(self, context: Params) -> Array | None:
        """What the engine takes for a context; None for a study without."""
        conditions = self.engine.definition.conditions
        return None if conditions.context is None else conditions.encode(context)

    # --- the past -----------------------------------------------------------------------------------------

    def recommended(self, ask: int) -> Recommendation | None:
        """The recommendation after an ask, if it was computed before."""
        return self._recommended.get(ask)

    def recommend_after(self, asks: Sequence[Ask]) -> None:
        """Work out the recommendations after some asks."""
        counts = self.log.counts_at([int(ask.trial.id) for ask in asks])
        for ask in asks:
            number = int(ask.trial.id)
            valued, gone = counts[number]
            observations = self._active_after(ask, valued - gone - len(ask.removed))
            engine = self._as_of(ask, observations)
            context = ask.trial.context or _latest(engine)
            self._recommended[number] = engine.recommend(ask.now, self.coordinates(context))
        while len(self._recommended) > REMEMBERED:
            self._recommended.popitem(last=False)

    def _active_after(self, ask: Ask, number: int) -> dict[int, Observation]:
        """So many observations were active after an ask: they are still, or were the first to be removed later."""
        current = self.engine.active.lines
        still: list[int] = current[current < ask.told].tolist()
        later = self.log.removed_after(int(ask.trial.id), ask.told, number - len(still))
        return self.log.numbered([*later, *still])

    def _as_of(self, ask: Ask, observations: dict[int, Observation]) -> Engine:
        engine = Engine(self.engine.definition)
        active = {line: replace(observation, removed_at=None) for line, observation in observations.items()}
        failures = self.log.newest_failures(before=ask.told)
        broken = self.log.broken(before=ask.told)
        engine.restore(ask.state, Checkpoint(told=ask.told, active=active, failures=failures, broken=broken))
        return engine


def _latest(engine: Engine) -> Params:
    return {name: engine.state.latest[name][-1] for name in engine.definition.conditions.variables}
