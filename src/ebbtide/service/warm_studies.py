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


@dataclass(frozen=True)
class Known:
    version: int
    engine: Engine
    nbytes: int  # until it is taken, nothing of it changes


class WarmStudies:
    """By name, the one used last at the end."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._total = 0  # bytes

    def take(self, news: News) -> Engine | None:
        """A study, up to date, which is no longer kept; None if what the news build on is not known."""
        known = self._known.get(news.study)
        if news.engine is not None:
            self._pop(news.study)
            news.engine.warm = None if known is None else known.engine.warm
            return news.engine
        if known is None or known.version != news.base:
            return None  # what is kept may still be of use: its model, when everything is told
        self._pop(news.study)
        for method, *arguments in news.changes:
            getattr(known.engine, method)(*arguments)
        return known.engine

    def keep(self, news: News, engine: Engine) -> None:
        """Keep a study, without a model that alone is too large; those that were not used for longest make room."""
        self._pop(news.study)
        if _nbytes(engine) > self.most_bytes:
            engine.warm = None
        nbytes = _nbytes(engine)
        while self._known and self._total + nbytes > self.most_bytes:
            self._pop(next(iter(self._known)))
        self._known[news.study] = Known(news.version, engine, nbytes)
        self._total += nbytes

    def _pop(self, study: str) -> Known | None:
        known = self._known.pop(study, None)
        self._total -= 0 if known is None else known.nbytes
        return known


def _nbytes(engine: Engine) -> int:
    active, warm = engine.active, engine.warm
    return REST + active.nbytes + TRIAL * len(active.pending) + (0 if warm is None else warm.nbytes)
