"""Tune any command: fill in the parameters, run it, tell the study what it prints, again and again."""

from ebbtide.tuning.evaluation import Outcome, evaluator, read_metric, run_command
from ebbtide.tuning.loop import Status, Study, duration, line, tune
from ebbtide.tuning.template import check, fill, fill_url

__all__ = [
    "Outcome",
    "Status",
    "Study",
    "check",
    "duration",
    "evaluator",
    "fill",
    "fill_url",
    "line",
    "read_metric",
    "run_command",
    "tune",
]
