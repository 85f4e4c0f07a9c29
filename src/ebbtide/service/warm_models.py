"""The models of a worker's last asks, kept warm for the next ones of the same studies, within a bound of memory.

Nothing depends on them but time: an ask that finds none, or an old one, makes or brings up to date what it needs.
"""

from collections import OrderedDict

from ebbtide.study.warm import Warm


class WarmModels:
    """By study, the one used last at the end."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._models: OrderedDict[str, Warm] = OrderedDict()

    def take(self, study: str) -> Warm | None:
        """The model of a study, which is no longer kept."""
        return self._models.pop(study, None)

    def keep(self, study: str, warm: Warm | None) -> None:
        """Keep a model; those that were not used for longest make room."""
        if warm is None or warm.nbytes > self.most_bytes:
            return
        self._models[study] = warm
        while sum(each.nbytes for each in self._models.values()) > self.most_bytes:
            self._models.popitem(last=False)
