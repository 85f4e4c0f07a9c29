"""Tune any command: fill in the parameters, run it, tell the study what it prints, again and again."""

from ebbtide.tuning.claims import Claims
from ebbtide.tuning.command import LONGEST_ENDING, run_command
from ebbtide.tuning.context import Reading, context_reader
from ebbtide.tuning.endpoint import read_metric
from ebbtide.tuning.evaluation import evaluator
from ebbtide.tuning.loop import Around, Study, duration, looked, tune
from ebbtide.tuning.outcome import Outcome
from ebbtide.tuning.status import Status, line, summary
from ebbtide.tuning.template import check, fill, fill_url

__all__ = [
    "LONGEST_ENDING",
    "Around",
    "Claims",
    "Outcome",
    "Reading",
    "Status",
    "Study",
    "check",
    "context_reader",
    "duration",
    "evaluator",
    "fill",
    "fill_url",
    "line",
    "looked",
    "read_metric",
    "run_command",
    "summary",
    "tune",
]
