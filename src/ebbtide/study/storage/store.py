"""The studies in a database: by name, as a list, a page at a time."""

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from ebbtide.checks import as_finite, is_plain_name, is_text
from ebbtide.errors import ConfigurationError, DamagedError, SnapshotError, StudyError, UnknownStudyError
from ebbtide.records import Observation, Violations
from ebbtide.study.codec import is_same_algorithm
from ebbtide.study.conditions import Conditions
from ebbtide.study.definition import Definition, check_same
from ebbtide.study.live import LiveOptions
from ebbtide.study.storage import schema
from ebbtide.study.storage.database import Database
from ebbtide.study.storage.opening import opened
from ebbtide.study.storage.rows import intact
from ebbtide.study.storage.siblings import key_of
from ebbtide.study.storage.stored_log import ALL, OBSERVATION, StoredLog, broken
from ebbtide.study.storage.urls import shown

MAX_NAME = 100
MAX_CHECKED = 10_000  # studies whose definitions are remembered as sound
SHOWN = 10  # names listed in an error
COUNTED = """
    SELECT s.study, s.name, s.created, s.definition, coalesce(a.ask + 1, 0), coalesce(t.line + 1, 0),
        coalesce(t.valued, 0), coalesce(t.failed, 0),
        coalesce(a.gone, 0) + (SELECT count(*) FROM removals r WHERE r.study = a.study AND r.ask = a.ask), t.reading
    FROM studies s
    LEFT JOIN asks a ON a.study = s.study AND a.ask = (SELECT max(ask) FROM asks WHERE study = s.study)
    LEFT JOIN tells t ON t.study = s.study AND t.line = (SELECT max(line) FROM tells WHERE study = s.study)
    WHERE {}
"""  # the last rows say how much there is
COUNT = "SELECT count(*) FROM studies WHERE {}"
NAMED = "SELECT study, {} FROM studies WHERE {} ORDER BY name LIMIT :limit"
NEWEST = """
    SELECT study FROM (
        SELECT study, created, (SELECT reading FROM tells WHERE study = s.study ORDER BY line DESC LIMIT 1) AS last
        FROM studies s WHERE {}
    ) AS dated
    ORDER BY CASE WHEN last > created THEN last ELSE created END DESC, study DESC LIMIT :newest
"""  # by the creation, if the study's own clock has read less


@dataclass(frozen=True)
class Summary:
    """A study at a glance."""

    name: str
    created: float
    definition: dict[str, Any]
    asked: int
    told: int
    failed: int
    abandoned: int
    active: int
    removed: int
    last_told: float | None  # by the clock
    violations: Violations | None  # of its constraints, if it has any


@dataclass(frozen=True)
class Damaged:
    """A study that cannot be read."""

    name: str
    why: str


@dataclass(frozen=True)
class Listing:
    """Studies in the order of their names, and after which name the next ones follow (None: these are the last)."""

    summaries: list[Summary]
    damaged: list[Damaged]
    next: str | None


@dataclass(frozen=True)
class Page:
    """Lines of a history, and where the next page begins (None: this is the last page)."""

    observations: list[tuple[int, Observation]]
    next: int | None


class Storage:
    def __init__(self, database: Database) -> None:
        self.database = database
        self._checked: dict[int, int] = {}  # by study: the hash of its definition, which was found to make sense

    @classmethod
    def of(cls, storage: "str | Storage", *, read_only: bool = False, create: bool = False) -> "Storage":
        """The storage at a URL such as sqlite:///tuner.db or postgresql://user@host/database.

        With `create`, a missing file is created, and missing tables are.
        """
        if isinstance(storage, Storage):
            return storage
        return cls(opened(storage, "ro" if read_only else "rwc" if create else "rw"))

    @staticmethod
    def upgrade(url: str, *, copy: bool = True) -> tuple[int, int]:
        """Upgrade a database to this ebbtide's schema, as opening it would; returns the versions before and after."""
        database = opened(url, "rw", copy=copy)
        database.close()
        return database.version_found, schema.version()

    def close(self) -> None:
        self.database.close()

    def create(self, name: str, definition: Definition) -> StoredLog:
        with self._alone_with(name):
            if self._find(name) is not None:
                raise StudyError(f"the study {name!r} already exists; choose another name")
            return self._create(name, definition)

    def create_or_open(self, name: str, definition: Definition, unsaid: Sequence[str]) -> StoredLog:
        """An existing study must have the same definition, except for the keys in `unsaid`."""
        found = self._find(name)
        if found is None:
            with self._alone_with(name):
                found = self._find(name)
                if found is None:
                    return self._create(name, definition)
        given = definition.to_json()
        stored = _with_defaults(found.definition)
        if is_same_algorithm(stored["algorithm"], given["algorithm"]):
            given["algorithm"] = stored["algorithm"]
        check_same(name, stored, {key: given[key] for key in given if key not in unsaid})
        return found

    def log(self, name: str) -> StoredLog:
        return self._find(name) or self._miss(name)

    def identify(self, name: str) -> int:
        """The number of the study that has this name now; numbers are never used again."""
        found = self.database.row("SELECT study FROM studies WHERE name = ?", (name,)) if _is_storable(name) else None
        return int(found[0]) if found is not None else self._miss(name)

    def _miss(self, name: str) -> NoReturn:
        # No more than is shown: otherwise the time that it takes would say how many studies there are.
        known = [_decoded(found) for _, found in self._named(limit=SHOWN + 1)]
        shown = ", ".join(map(repr, known[:SHOWN])) + (", …" if len(known) > SHOWN else "")
        raise UnknownStudyError(f"there is no study {name!r}; this database has {shown or 'no studies'}")

    def delete(self, name: str) -> None:
        with self._alone_with(name):
            self.database.run("DELETE FROM studies WHERE study = ?", (self.identify(name),))
            self.database.announce(name)

    def _alone_with(self, name: Any) -> AbstractContextManager[None]:
        """A transaction in which nobody else creates, changes or deletes the study with this name."""
        return self.database.transaction([str(name)])

    def _create(self, name: str, definition: Definition) -> StoredLog:
        description = definition.to_json()
        self.database.run(
            "INSERT INTO studies (name, created, definition, family) VALUES (?, ?, ?, ?)",
            (
                *(_checked_name(name), time.time(), json.dumps(description, allow_nan=False)),
                key_of(name, description),
            ),
        )
        (study,) = self.database.row("SELECT study FROM studies WHERE name = ?", (name,))
        return StoredLog(self.database, study, name, description)

    def _find(self, name: str) -> StoredLog | None:
        if not isinstance(name, str) or not _is_storable(name):
            return None
        found = self.database.row("SELECT study, definition FROM studies WHERE name = ?", (name,))
        if found is None:
            return None
        return StoredLog(self.database, found[0], name, self._described(found[0], found[1], name))

    # --- reading ------------------------------------------------------------------------------------------

    def names(self, prefix: str = "") -> list[str]:
        """Those that begin with a prefix."""
        return [_decoded(name) for _, name in self._named(prefix)]

    def count(self, prefix: str = "") -> int:
        condition, values = _within(prefix)
        (found,) = self.database.row(COUNT.format(condition), values)
        return int(found)

    def numbers(self) -> list[int]:
        """The number of each study, in the order of the names."""
        return [study for study, _ in self._named()]

    def _named(self, prefix: str = "", after: str | None = None, limit: int = ALL) -> list[tuple[int, bytes]]:
        condition, values = _within(prefix, after)
        query = NAMED.format(self.database.as_bytes.format("name"), condition)
        return self.database.rows(query, values | {"limit": limit})

    def overview(self, newest: int, prefix: str = "") -> tuple[list[Summary], list[Damaged]]:
        """The `newest` studies, by their last tell: those that can be read, and the others."""
        with self.database.reading():
            condition, values = _within(prefix)
            chosen = {study for (study,) in self.database.rows(NEWEST.format(condition), values | {"newest": newest})}
            return self._summaries([row for row in self._named(prefix) if row[0] in chosen])

    def listed(self, prefix: str = "", after: str | None = None, limit: int | None = None) -> Listing:
        """All studies whose names begin with a prefix; at most `limit` of them, from the first one after a name on."""
        with self.database.reading():
            rows = self._named(prefix, after, ALL if limit is None else limit + 1)
            if not all(_is_decodable(name) for _, name in rows):  # then a page may need more of them
                rows = self._named(prefix, after)
            end = len(rows) if limit is None else min(limit, len(rows))
            while end < len(rows) and not _is_decodable(rows[end - 1][1]):  # nobody could ask for what follows it
                end += 1
            summaries, damaged = self._summaries(rows[:end])
        return Listing(summaries, damaged, _decoded(rows[end - 1][1]) if end < len(rows) else None)

    def _summaries(self, named: Sequence[tuple[int, bytes]]) -> tuple[list[Summary], list[Damaged]]:
        rows = self._counted([study for study, _ in named])
        summaries, damaged = [], []
        for study, name in named:
            try:
                summaries.append(self._summary(rows[study] if study in rows else self._counted_alone(study)))
            except DamagedError as error:
                damaged.append(Damaged(_decoded(name), str(error)))
        return summaries, damaged

    def _counted(self, studies: Sequence[int]) -> dict[int, Any]:
        """All in one query; none of them, if the rows of one cannot be read."""
        query = COUNTED.format(self.database.among.format("s.study"))
        try:
            return {row[0]: row for row in self.database.rows(query, (json.dumps(studies),))}
        except DamagedError:
            return {}

    def _counted_alone(self, study: int) -> Any:
        return self.database.row(COUNTED.format("s.study = ?"), (study,))

    def summary(self, name: str) -> Summary:
        with self.database.reading():
            return self._summary(self._counted_alone(self.identify(name)))

    def _summary(self, row: Sequence[Any]) -> Summary:
        study, name, created, definition, asked, told, valued, failed, removed, last = row
        described = self._described(study, definition, name)
        with intact(f"the study {name!r}"):
            if not isinstance(name, str) or None in (as_finite(created), as_finite(0.0 if last is None else last)):
                raise ValueError(f"name={name!r}, created={created!r}, last told={last!r}")
            described = _with_defaults(described)
            conditions = Conditions.from_json(described)
            abandoned, active = told - valued - failed, valued - removed
        violations = conditions.violations(broken(self.database, study) if conditions.constraints else {})
        return Summary(name, created, described, asked, told, failed, abandoned, active, removed, last, violations)

    def _described(self, study: int, definition: Any, name: Any) -> dict[str, Any]:
        """The definition of a study, as JSON that makes sense."""
        with intact(f"the study {name!r}"):
            described: dict[str, Any] = json.loads(definition)
            if self._checked.get(study) != hash(definition):
                _check_definition(described)
                if len(self._checked) >= MAX_CHECKED:  # many were deleted since
                    self._checked.clear()
                self._checked[study] = hash(definition)
            return described

    def page(self, name: str, start: int, limit: int, active: bool | None = None) -> Page:
        """`limit` lines from line `start` on; if `active` is not None, only those that are active, or are not."""
        log = self.log(name)
        with self.database.reading():
            rows = self._active_rows(log, start, limit + 1) if active else self._rows(log, start, limit + 1, active)
        shown = [(row[0], log.observation(row)) for row in rows[:limit]]
        return Page(shown, rows[limit][0] if len(rows) > limit else None)

    def _rows(self, log: StoredLog, start: int, limit: int, active: bool | None) -> list[Any]:
        condition = "" if active is None else " AND (r.line IS NOT NULL OR t.value IS NULL)"
        query = f"{OBSERVATION}{condition} AND t.line >= ? ORDER BY t.line LIMIT ?"
        return self.database.rows(query, (log.study, start, limit))

    def _active_rows(self, log: StoredLog, start: int, limit: int) -> list[Any]:
        """There may be a million other lines before the first of them."""
        query = f"{OBSERVATION} AND {self.database.among.format('t.line')} ORDER BY t.line"
        return self.database.rows(query, (log.study, json.dumps(log.active_lines(start, limit))))


def check_place(storage: Any, name: Any, family: Any) -> None:
    """Raise an error unless a study is stored under a name, or in memory without either."""
    if (storage is None) != (name is None):
        raise ConfigurationError(
            f"storage={shown(storage)!r}, name={name!r}: a stored study needs both; for a study in "
            "memory, leave both out"
        )
    if family is not None and storage is None:
        raise ConfigurationError(f"family={family!r}: siblings are found in a storage; give storage= and name=")


def _check_definition(described: dict[str, Any]) -> None:
    if not isinstance(described["clock"], str):
        raise TypeError(f"clock={described['clock']!r}")
    with suppress(SnapshotError):  # an algorithm with parts of the user's own, which are not stored
        Definition.from_json(described)


def _within(prefix: str, after: str | None = None) -> tuple[str, dict[str, Any]]:
    """What is true of names that begin with a prefix, and come after another; no other names are read then."""
    conditions, values = ["name >= :first"], {"first": prefix}
    if prefix:
        conditions.append("name < :end")
        values["end"] = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    if after is not None:
        conditions.append("name > :after")
        values["after"] = after
    return " AND ".join(conditions), values


def _is_storable(name: str) -> bool:
    return is_text(name) and "\0" not in name


def _decoded(name: bytes) -> str:
    return name.decode(errors="backslashreplace")  # it may be damaged


def _is_decodable(name: bytes) -> bool:
    return _decoded(name).encode() == name


def _with_defaults(described: dict[str, Any]) -> dict[str, Any]:
    """A definition with the options that it was stored without."""
    options = LiveOptions.from_json(described).to_json() | Conditions.from_json(described).to_json()
    return options | {"family": None} | described


def _checked_name(name: Any) -> str:
    """A name that also fits into the path of a URL."""
    if not is_plain_name(name) or not 0 < len(name) <= MAX_NAME or name.strip(" .") == "":
        raise ConfigurationError(
            f"name={name!r}: give 1 to {MAX_NAME} printable characters, without /, and not only dots or spaces"
        )
    return name
