"""One study's log: each ask with the state that it left behind, each tell, each removal. Rows are only added."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

from ebbtide.errors import DamagedError, StorageError, UnknownStudyError
from ebbtide.records import Observation, Trial
from ebbtide.study.active import RECENT, REMEMBERED_ASKS, REMEMBERED_FAILURES, Checkpoint
from ebbtide.study.conditions import Conditions
from ebbtide.study.course import Turn
from ebbtide.study.engine import Engine
from ebbtide.study.log import Ask, Updates
from ebbtide.study.state import State
from ebbtide.study.storage.database import Database
from ebbtide.study.storage.rows import (
    DAMAGE,
    damaged,
    intact,
    number_of,
    parsed,
    state_of,
    text,
    text_or_null,
    trial_of,
)
from ebbtide.study.storage.siblings import siblings

OBSERVATION = """
    SELECT t.line, t.params, t.time, t.value, t.ask, a.now, r.relevance, t.key, t.abandoned, o.kind,
        t.context, t.constraints, t.filled, t.reading, t.asks
    FROM tells t LEFT JOIN removals r USING (study, line) LEFT JOIN asks a ON a.study = r.study AND a.ask = r.ask
    LEFT JOIN asks o ON o.study = t.study AND o.ask = t.ask
    WHERE t.study = ?
"""
ASK = """
    SELECT ask, params, time, expires, kind, context, filled, told, now, until, landed, state FROM asks WHERE study = ?
"""
TRIAL = "SELECT a.ask, a.params, a.time, a.expires, a.kind, a.context, a.filled FROM asks a WHERE a.study = ?"
# The asks of a kind that have a value, and its line. With the last condition, SQLite can use the index of other kinds.
MEASURED = """
    SELECT a.ask, t.line FROM asks a JOIN tells t ON t.study = a.study AND t.ask = a.ask
    WHERE a.study = ? AND a.kind = ? AND t.value IS NOT NULL AND a.kind <> 'explore'
"""
COUNTS = """
    SELECT a.ask, coalesce(t.valued, 0), a.gone
    FROM asks a LEFT JOIN tells t ON t.study = a.study AND t.line = a.told - 1 WHERE a.study = ?
"""
# SQLite would prefer to scan all removals of the study, by the primary key.
REMOVED = "SELECT ask, line, relevance FROM removals INDEXED BY removals_of_an_ask WHERE study = ?"
LAST_LINE = "SELECT line + 1, valued, first, last FROM tells WHERE study = ? ORDER BY line DESC LIMIT 1"
# From one value of `broken` to the next larger one, without what is between; the count is in the last line of each.
BROKEN = """
    WITH RECURSIVE found (bits) AS (
        SELECT min(broken) FROM tells WHERE study = :study AND broken IS NOT NULL
        UNION ALL
        SELECT (SELECT min(broken) FROM tells WHERE study = :study AND broken > bits) FROM found WHERE bits IS NOT NULL
    )
    SELECT bits, (
        SELECT alike FROM tells INDEXED BY broken_constraints
        WHERE study = :study AND broken = bits AND line < :before ORDER BY line DESC LIMIT 1
    ) FROM found WHERE bits IS NOT NULL
"""
ALL = 1 << 62  # rows: no study has as many
PENDING = " AND NOT EXISTS (SELECT 1 FROM tells t WHERE t.study = a.study AND t.ask = a.ask)"


class StoredLog:
    """A log in a database (see ebbtide.study.log)."""

    def __init__(self, database: Database, study: int, name: str, definition: dict[str, Any]) -> None:
        self.database, self.study, self.name, self.definition = database, study, name, definition

    @cached_property
    def conditions(self) -> Conditions:
        return Conditions.from_json(self.definition)

    def transaction(self) -> AbstractContextManager[object]:
        return self.database.transaction([self.name])

    def turn(self, insist: bool) -> AbstractContextManager[object]:
        return self.database.turn(self.name) if insist or self.database.is_taken(self.name) else nullcontext()

    # --- writing ------------------------------------------------------------------------------------------

    def record_ask(self, ask: Ask) -> None:
        trial, number = ask.trial, int(ask.trial.id)
        self.database.run(
            "INSERT INTO asks (study, ask, told, now, until, landed, params, time, expires, kind, state, "
            "context, filled) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(self.study, number, ask.told, ask.now, ask.until, ask.landed),
                *(text(trial.params), trial.time, trial.expires, trial.kind, text(ask.state.to_json())),
                *(text_or_null(trial.context), text_or_null(trial.filled)),
            ),
        )
        if ask.removed:
            rows = [(self.study, line, number, score) for line, score in ask.removed]
            self.database.run_many("INSERT INTO removals (study, line, ask, relevance) VALUES (?, ?, ?, ?)", rows)
        self.database.announce(self.name)

    def record_tell(self, observation: Observation, reading: float, line: int, asks: int) -> None:
        number = None if observation.trial_id is None else int(observation.trial_id)
        params, time, value = text(observation.params), observation.time, observation.value
        around = map(text_or_null, (observation.context, observation.constraints, observation.filled))
        self.database.run(
            "INSERT INTO tells (study, line, asks, reading, params, time, value, ask, key, abandoned, "
            "context, constraints, filled, broken) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(self.study, line, asks, reading, params, time, value, number),
                *(observation.key, observation.abandoned, *around, self.conditions.broken(observation)),
            ),
        )
        self.database.announce(self.name)

    # --- reading ------------------------------------------------------------------------------------------

    def trial(self, trial_id: str) -> Trial | None:
        number = number_of(trial_id)
        found = None if number is None else self.database.row(f"{TRIAL} AND a.ask = ?", (self.study, number))
        return None if found is None else trial_of(found)

    def observation_of(self, trial_id: str) -> Observation | None:
        number = number_of(trial_id)
        return None if number is None else self._one("t.ask = ?", number)

    def observation_under(self, key: str) -> Observation | None:
        return self._one("t.key = ?", key)

    def _one(self, condition: str, value: int | str) -> Observation | None:
        found = self.database.row(f"{OBSERVATION} AND {condition}", (self.study, value))
        return None if found is None else self.observation(found)

    def observations(self, lines: Sequence[int]) -> list[Observation]:
        found = self.numbered(lines)
        return [found[line] for line in lines if line in found]

    def numbered(self, lines: Sequence[int]) -> dict[int, Observation]:
        """Lines of the history, by number."""
        query = f"{OBSERVATION} AND {self.database.among.format('t.line')} ORDER BY t.line"
        return {row[0]: self.observation(row) for row in self.database.rows(query, (self.study, text(list(lines))))}

    def history(self) -> list[Observation]:
        self._check_that_it_has(0, 0)
        return [self.observation(row) for row in self.database.rows(f"{OBSERVATION} ORDER BY t.line", (self.study,))]

    def trials(self) -> list[Trial]:
        return list(map(trial_of, self.database.rows(f"{TRIAL} ORDER BY a.ask", (self.study,))))

    def pending(self) -> list[Trial]:
        return list(map(trial_of, self.database.rows(f"{TRIAL}{PENDING} ORDER BY a.ask", (self.study,))))

    def updates(self, asks: int, told: int) -> Updates:
        if self._check_that_it_has(asks, told) == (asks, told):  # nearly always
            return Updates()
        with self.database.reading():
            tells, new = self.tells_since(told), self.asks_since(asks)
            told_with_readings = [(observation, reading) for observation, reading, _ in tells]
            return Updates(new, told_with_readings, self.in_force())

    def in_force(self) -> dict[str, Any] | None:
        query = "SELECT ask + 1, told, params FROM asks WHERE study = ? ORDER BY ask DESC LIMIT 1"
        asks, seen, params = self.database.row(query, (self.study,)) or (0, 0, None)
        outside = self.database.row(
            "SELECT params FROM tells WHERE study = ? AND line >= ? AND asks = ? AND ask IS NULL "
            "ORDER BY line DESC LIMIT 1",
            (self.study, seen, asks),
        )
        found = params if outside is None else outside[0]
        return None if found is None else parsed(found)

    def _check_that_it_has(self, asks: int, told: int) -> tuple[int, int]:
        """How many asks and tells there are. An error if the study is gone, or has fewer than these."""
        found = self.database.row(
            "SELECT (SELECT coalesce(max(ask) + 1, 0) FROM asks WHERE study = s.study), "
            "(SELECT coalesce(max(line) + 1, 0) FROM tells WHERE study = s.study) FROM studies s WHERE s.study = ?",
            (self.study,),
        )
        if found is None:
            raise UnknownStudyError(
                f"{self.database.place}: the study was deleted in the meantime; open or create another"
            )
        if found[0] < asks or found[1] < told:
            raise StorageError(
                f"{self.database.place}: the study has {found[0]} asks and {found[1]} tells, but had {asks} and "
                f"{told}; if a backup was restored meanwhile, open it again to go on from there"
            )
        return found[0], found[1]

    def tells_since(self, line: int, limit: int = ALL) -> list[tuple[Observation, float, int]]:
        """The history from this line on, each line with the clock's reading and the number of asks before it."""
        rows = self.database.rows(f"{OBSERVATION} AND t.line >= ? ORDER BY t.line LIMIT ?", (self.study, line, limit))
        return [(self.observation(row), *row[-2:]) for row in rows]

    def asks_since(self, number: int, limit: int = ALL) -> list[Ask]:
        return self._asks("ask >= ? ORDER BY ask LIMIT ?", number, limit)

    def asks_numbered(self, numbers: Sequence[int]) -> list[Ask]:
        return self._asks(f"{self.database.among.format('ask')} ORDER BY ask", text(list(numbers)))

    def _asks(self, condition: str, *values: int | str) -> list[Ask]:
        rows = self.database.rows(f"{ASK} AND {condition}", (self.study, *values))
        removed = self._removed([row[0] for row in rows])
        return [
            Ask(trial_of(trial), told, now, until, landed, tuple(removed[trial[0]]), parsed(state, state_of))
            for *trial, told, now, until, landed, state in rows
        ]

    def _removed(self, asks: Sequence[int]) -> dict[int, list[tuple[int, float | None]]]:
        """By ask: the lines that it removed, and their relevance."""
        query = f"{REMOVED} AND {self.database.among.format('ask')} ORDER BY ask, line"
        removed = defaultdict[int, list[tuple[int, float | None]]](list)
        for ask, line, relevance in self.database.rows(query, (self.study, text(list(asks)))) if asks else ():
            removed[ask].append((line, relevance))
        return removed

    def counts_at(self, asks: Sequence[int]) -> dict[int, tuple[int, int]]:
        """By ask: how many of the lines that it had seen have a value, and how many were removed before it."""
        query = f"{COUNTS} AND {self.database.among.format('a.ask')}"
        return {ask: (valued, gone) for ask, valued, gone in self.database.rows(query, (self.study, text(list(asks))))}

    def baseline_and_holds(self, newest: int, around: int) -> list[Observation]:
        """The newest values of the baseline, and so many holds before and after each: what a gain is worked out from.

        The order of the asks is taken for the order in time.
        """
        query = f"{MEASURED} ORDER BY a.ask DESC LIMIT ?"
        baseline = dict(self.database.rows(query, (self.study, "baseline", newest)))
        sides = (f"{MEASURED} AND a.ask {side} LIMIT ?" for side in ("< ? ORDER BY a.ask DESC", "> ? ORDER BY a.ask"))
        holds = {
            line
            for side in sides
            for ask in baseline
            for _, line in self.database.rows(side, (self.study, "hold", ask, around))
        }
        return list(self.numbered([*baseline.values(), *holds]).values())

    def removals_since(self, ask: int) -> list[tuple[int, int]]:
        """(ask, line) of everything removed by this ask or a later one, in the order of the asks."""
        return self.database.rows(
            "SELECT ask, line FROM removals WHERE study = ? AND ask >= ? ORDER BY ask", (self.study, ask)
        )

    def removed_after(self, ask: int, before: int, number: int) -> list[int]:
        """So many lines before a line that were removed after an ask: those that were removed first."""
        rows = self.database.rows(
            "SELECT line FROM removals INDEXED BY removals_of_an_ask "
            "WHERE study = ? AND ask > ? AND line < ? ORDER BY ask LIMIT ?",
            (self.study, ask, before, number),
        )
        return [line for (line,) in rows]

    def active_lines(self, start: int = 0, limit: int = ALL) -> list[int]:
        """The active lines from one on: those that the last ask has left, and those told since."""
        (seen,) = self.database.row(
            "SELECT told FROM asks WHERE study = ? ORDER BY ask DESC LIMIT 1", (self.study,)
        ) or (0,)
        left = "SELECT line FROM active WHERE study = ? AND line >= ? ORDER BY line LIMIT ?"
        since = "SELECT line FROM tells WHERE study = ? AND line >= ? AND value IS NOT NULL ORDER BY line LIMIT ?"
        lines = self.database.rows(left, (self.study, start, limit))
        lines += self.database.rows(since, (self.study, max(start, seen), limit))
        return [line for (line,) in lines[:limit]]

    def siblings(self) -> dict[str, Any] | None:
        try:
            return siblings(self.database, self.study, self.name, self.definition)
        except DamagedError:  # a row of theirs cannot even be read, which is no reason not to ask
            return None

    # --- resuming: the last state, and what is active and pending, without replaying the rest ------------------

    def restore(self, engine: Engine) -> None:
        """Let an engine start from where this log ends."""
        with intact("the log"):
            engine.restore(*self.checkpoint())

    def checkpoint(self) -> tuple[State, Checkpoint]:
        with self.database.reading():
            last = self.database.row("SELECT max(ask) FROM asks WHERE study = ?", (self.study,))[0]
            state, seen = (State(), 0) if last is None else self._state_after(last)
            query = "SELECT max(reading) FROM tells WHERE study = ? AND line >= ?"
            (reading,) = self.database.row(query, (self.study, seen))
            pending = () if last is None else self._pending_since(last - REMEMBERED_ASKS)
            restored = replace(self._checkpoint(pending), contexts=self._contexts_since(seen), broken=self.broken())
            if state.anchor is not None:
                turns = self._turns_since(state.anchor)
                gone = self.numbered([line for turn in turns for line in turn.removed])
                restored = replace(restored, turns=turns, gone=gone)
            return state if reading is None else state.noting(reading), restored

    def _turns_since(self, anchor: int) -> list[Turn]:
        """What the asks from this one on had seen and removed."""
        query = "SELECT ask, told FROM asks WHERE study = ? AND ask >= ? ORDER BY ask"
        removed = defaultdict[int, list[int]](list)
        for ask, line in self.removals_since(anchor):
            removed[ask].append(line)
        return [Turn.of(told, removed[ask]) for ask, told in self.database.rows(query, (self.study, anchor))]

    def _contexts_since(self, line: int) -> dict[int, Observation]:
        """The lines of the history from this one on that have a context."""
        if self.conditions.context is None:
            return {}
        rows = self.database.rows(f"{OBSERVATION} AND t.line >= ? AND t.context IS NOT NULL", (self.study, line))
        return {row[0]: self.observation(row) for row in rows}

    def broken(self, before: int = ALL) -> dict[int, int]:
        """How often which constraints were broken (see Conditions.broken); by default in the whole history."""
        return broken(self.database, self.study, before) if self.conditions.constraints else {}

    def _state_after(self, number: int) -> tuple[State, int]:
        """The state that an ask left behind, and how many lines it had seen."""
        (ask,) = self.asks_since(number)
        return ask.state, ask.told

    def _pending_since(self, ask: int) -> list[Trial]:
        query = f"{TRIAL} AND a.ask > ?{PENDING} ORDER BY a.ask"
        return list(map(trial_of, self.database.rows(query, (self.study, ask))))

    def _checkpoint(self, pending: Sequence[Trial]) -> Checkpoint:
        told, values, first, last = self.database.row(LAST_LINE, (self.study,)) or (0, 0, math.inf, -math.inf)
        failures = self.newest_failures(before=told)
        if not values:
            return Checkpoint(told=told, failures=failures, pending=pending, in_force=self.in_force())
        newest = self.database.rows(
            "SELECT time FROM tells WHERE study = ? AND value IS NOT NULL ORDER BY line DESC LIMIT ?",
            (self.study, RECENT),
        )
        times = [time for (time,) in reversed(newest)]
        active = self.numbered(self.active_lines())
        return Checkpoint(told, values, times, first, last, active, failures, pending, self.in_force())

    def newest_failures(self, before: int) -> list[Observation]:
        """The newest failed evaluations among the first lines of the history, in the order told."""
        rows = self.database.rows(
            "SELECT line FROM tells INDEXED BY failures WHERE study = ? AND value IS NULL AND NOT abandoned "
            "AND line < ? ORDER BY line DESC LIMIT ?",
            (self.study, before, REMEMBERED_FAILURES),
        )
        return list(self.numbered([line for (line,) in rows]).values())

    def observation(self, row: Sequence[Any]) -> Observation:
        """The observation in a row of the query OBSERVATION."""
        line, params, time, value, ask, removed_at, relevance, key, abandoned, kind, *around = row
        try:
            setting = json.loads(params)
            floats = [given for given in setting.values() if isinstance(given, float)]
            known = setting.keys() == self.definition["space"].keys()
            if not (known and all(map(math.isfinite, (time, 0.0 if value is None else value, *floats)))):
                raise ValueError(f"params={setting!r}, time={time!r}, value={value!r}")
            context, constraints, filled = (None if text is None else json.loads(text) for text in around[:3])
            if context is not None or (value is not None and self.conditions.context is not None):
                self.conditions.check_complete(context)
            self.conditions.outcomes(constraints)
        except DAMAGE as error:
            raise damaged(f"line {line} of the log", error) from error
        trial, names = None if ask is None else str(ask), tuple(filled or ())
        told = (setting, time, value, trial, removed_at, relevance, key, bool(abandoned), kind)
        return Observation(*told, context, constraints, names)

    def close(self) -> None:
        self.database.close()


def broken(database: Database, study: int, before: int = ALL) -> dict[int, int]:
    """How often which constraints of a study were broken (see Conditions.broken), among the lines before one."""
    rows = database.rows(BROKEN, {"study": study, "before": before})
    return {bits: lines for bits, lines in rows if lines is not None}
