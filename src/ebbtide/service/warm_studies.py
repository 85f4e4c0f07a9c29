"""The studies that a worker knows, each with the model of its last ask, within a bound of memory.

Nothing depends on them but time: what a worker does not know, or not in the version that is asked for, it is told as a
whole; and an ask that finds no model, or an old one, makes or brings up to date what it needs.
"""

from collections import OrderedDict
from dataclasses import dataclass

from ebbtide.service.followed import News
from ebbtide.study.engine import Engine

REST = 1 << 16  # bytes of a study besides its observations, its pending trials and its model
TRIAL = 1 << 10  # bytes of a pending trial


@dataclass
class Known:
    version: int
    engine: Engine

    @property
    def nbytes(self) -> int:
        active, warm = self.engine.active, self.engine.warm
        return REST + active.nbytes + TRIAL * len(active.pending) + (0 if warm is None else warm.model.nbytes)


class WarmStudies:
    """By name, the one used last at the end."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._known: OrderedDict[str, Known] = OrderedDict()

    def take(self, news: News) -> Engine | None:
        """A study, up to date, which is no longer kept; None if what the news build on is not known."""
        known = self._known.pop(news.study, None)
        if news.engine is not None:
            news.engine.warm = None if known is None else known.engine.warm
            return news.engine
        if known is None or known.version != news.base:
            return None
        for method, *arguments in news.changes:
            getattr(known.engine, method)(*arguments)
        return known.engine

    def keep(self, news: News, engine: Engine) -> None:
        """Keep a study; those that were not used for longest make room, and if that is not enough, its model."""
        self._known[news.study] = kept = Known(news.version, engine)
        total = sum(each.nbytes for each in self._known.values())
        while total > self.most_bytes and len(self._known) > 1:
            total -= self._known.popitem(last=False)[1].nbytes
        if total > self.most_bytes:
            kept.engine.warm = None
