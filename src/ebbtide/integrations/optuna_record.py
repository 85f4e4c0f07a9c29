"""What an Optuna study has of its trials."""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from ebbtide.checks import as_finite
from ebbtide.integrations.distributions import SearchSpace, axis_of

NOTE = "ebbtide:ask"  # a system attribute of a trial: the note of its ask
TIME = "ebbtide:time"  # a user attribute that dates a trial measured elsewhere
CONSTRAINTS = "constraints"  # a system attribute of a trial: what Optuna has from `constraints_func`
REMEMBERED = 256  # asks: more than there are from one anchor of the model to the next
RECENT = 50  # completed trials whose common parameters are modelled


class AskNote(NamedTuple):
    """Of the note of an ask: the signature of its model, how many finished trials it had seen, and which it forgot."""

    of: str
    told: int
    forgot: list[int]


def _constraints(trial: FrozenTrial) -> int:
    return len(trial.system_attrs.get(CONSTRAINTS) or ())


class Record:
    """A study's trials: the finished ones in the order told, the running ones, the forgotten ones."""

    def __init__(self, study: Study, *, dated: bool) -> None:
        self.storage, self.study_id = study._storage, study._study_id
        self.dated = dated  # whether Optuna's own dates come from the same clock
        self.finished: list[FrozenTrial] = []
        self.running: list[FrozenTrial] = []
        self.forgotten: set[int] = set()  # numbers of trials
        self.latest_note: tuple[int, Mapping[str, Any]] | None = None  # trial number, and the latest note with a state
        self.lines: dict[int, int] = {}  # of the finished trials, by number: their positions
        self.asks: dict[int, AskNote] = {}  # by number of the trial, the newest
        self.latest_time = -np.inf
        self.constraints = 0  # how many the newest trial has that has any
        self._recent: deque[SearchSpace] = deque(maxlen=RECENT)
        self._open: list[int] = []
        self._next = 0

    def catch_up(self) -> None:
        trials = self.storage.get_all_trials(self.study_id, deepcopy=False)
        news = [trials[number] for number in self._open] + trials[self._next :]  # Optuna numbers trials without gaps
        self._next = len(trials)
        self._open = [trial.number for trial in news if not trial.state.is_finished()]
        self.running = [trial for trial in news if trial.state == TrialState.RUNNING]
        for trial in news:
            self._read_note(trial)
        done = [trial for trial in news if trial.state.is_finished()]
        done.sort(key=lambda trial: (trial.datetime_complete, trial.number))
        self.lines |= {trial.number: line for line, trial in enumerate(done, len(self.finished))}
        self.finished += done
        self.constraints = next((n for n in map(_constraints, reversed(done)) if n), self.constraints)
        self._recent.extend(trial.distributions for trial in done if trial.state == TrialState.COMPLETE)

    def _read_note(self, trial: FrozenTrial) -> None:
        note = trial.system_attrs.get(NOTE, {})
        self.latest_time = max(self.latest_time, note.get("time", -np.inf))
        if "state" not in note:
            return
        self.note_ask(trial.number, note)
        if self.latest_note is None or trial.number > self.latest_note[0]:
            self.latest_note = trial.number, note

    def note_ask(self, number: int, note: Mapping[str, Any]) -> None:
        """What an ask had seen and forgot; noting it again changes nothing."""
        self.forgotten.update(note["forgot"])
        if "told" in note:  # missing in the oldest studies
            self.asks[number] = AskNote(note["of"], note["told"], note["forgot"])
            while len(self.asks) > REMEMBERED:
                del self.asks[min(self.asks)]

    def asks_since(self, number: int, of: str) -> list["AskNote"]:
        """The asks from this one on, in their order, with the same signature; none if it is not remembered."""
        if number not in self.asks:
            return []
        return [self.asks[each] for each in sorted(self.asks) if each >= number and self.asks[each].of == of]

    def search_space(self) -> SearchSpace:
        """The parameters that the newest completed trials have in common, with the newest trial's distributions."""
        if not self._recent:
            return {}
        common = set[str].intersection(*(set(distributions) for distributions in self._recent))
        newest = self._recent[-1]
        return {name: d for name, d in newest.items() if name in common and axis_of(d) is not None}

    def time(self, trial: FrozenTrial) -> float | None:
        """The time of a trial's measurement by the sampler's clock, if it is known."""
        if NOTE in trial.system_attrs:
            noted: float = trial.system_attrs[NOTE]["time"]
            return noted
        given = as_finite(trial.user_attrs.get(TIME))
        if given is None and self.dated and trial.datetime_start is not None:
            return float(trial.datetime_start.timestamp())
        return given
