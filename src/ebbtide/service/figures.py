"""What a scrape shows of the studies: read from the log, for few of them, and without computing a model."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.errors import DamagedError
from ebbtide.study.gain import AROUND, COMPARED, Gain, gain
from ebbtide.study.storage import Database, Storage, StoredLog, Summary
from ebbtide.study.storage.database import Disk

SHOWN = 200  # studies with figures of their own: those that were told something last
MAX_SCRAPERS = 100
GAINS = 8  # computed per scrape; the others stay as they were


@dataclass(frozen=True)
class Figures:
    """One study."""

    summary: Summary
    timescale: float | None  # l_T in seconds, as last fitted
    gain: Gain | None  # over the baseline

    @property
    def last_told(self) -> float | None:
        """In seconds since 1970; None for a study with another clock."""
        return self.summary.last_told if _in_seconds(self.summary) else None


@dataclass(frozen=True)
class Scrape:
    """The database at one moment."""

    stored: int  # how many studies there are
    shown: list[Figures]
    damaged: int  # among those that would be shown


@dataclass(frozen=True)
class Place:
    """Where the database is."""

    log_size: int | None  # of its write-ahead log, in bytes
    disk: Disk | None

    @classmethod
    def of(cls, database: Database) -> "Place":
        return cls(database.log_size, database.disk)


class Scraper:
    """Remembers gains, which take longer than all the rest. To be used by one thread."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix  # of the names of the studies
        self._gains: dict[int, tuple[int, Gain | None]] = {}  # by study: at how many tells; the oldest first

    def read(self, storage: Storage) -> Scrape:
        with storage.database.reading():
            summaries, damaged = storage.overview(SHOWN, self.prefix)
            studies = [(storage.log(summary.name), summary) for summary in summaries]
            self._update_gains(studies)
            shown = [
                Figures(summary, _timescale(log, summary), self._gains.get(log.study, (0, None))[1])
                for log, summary in studies
            ]
            return Scrape(storage.count(self.prefix), shown, len(damaged))

    def _update_gains(self, studies: Iterable[tuple[StoredLog, Summary]]) -> None:
        """The oldest first, and no more than a scrape may compute."""
        compared = {log.study: (log, summary) for log, summary in studies if summary.definition["baseline"] is not None}
        self._gains = {study: known for study, known in self._gains.items() if study in compared}
        order = [*(study for study in compared if study not in self._gains), *self._gains]
        outdated = [study for study in order if self._gains.get(study, (-1,))[0] != compared[study][1].told]
        for study in outdated[:GAINS]:
            log, summary = compared[study]
            self._gains.pop(study, None)
            self._gains[study] = summary.told, _gain(log, summary)


class Scrapers:
    """One for each prefix that is scraped; the last MAX_SCRAPERS are kept. To be used by one thread."""

    def __init__(self) -> None:
        self._scrapers: dict[str, Scraper] = {}  # the one that was used last comes last

    def of(self, prefix: str) -> Scraper:
        scraper = self._scrapers.pop(prefix, Scraper(prefix))
        self._scrapers[prefix] = scraper
        if len(self._scrapers) > MAX_SCRAPERS:
            del self._scrapers[next(iter(self._scrapers))]
        return scraper


def _timescale(log: StoredLog, summary: Summary) -> float | None:
    if _in_seconds(summary):
        with suppress(DamagedError):  # its counts are shown all the same
            for ask in log.asks_since(summary.asked - 1, limit=1):
                return None if ask.state.hyper is None else ask.state.hyper.timescale
    return None


def _gain(log: StoredLog, summary: Summary) -> Gain | None:
    with suppress(DamagedError):
        return gain(log.baseline_and_holds(COMPARED, AROUND), summary.definition["direction"])
    return None


def _in_seconds(summary: Summary) -> bool:
    return bool(summary.definition["clock"] == "SystemClock")
