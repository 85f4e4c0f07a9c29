"""The paper's tables and figures, one module each: which runs to make, what to draw, and what to conclude.

    studio = Studio(Path("paper"), quick=True)
    section = SECTIONS["table"](studio)        # writes its files into the folder and returns what the report shows

All sections share the folder `runs`, so that no run is made twice.
"""

from collections.abc import Callable

from ebbtide.experiments.reproduction import (
    approximation,
    ard,
    budget,
    curves,
    distances,
    sensitivity,
    table,
    videos,
)
from ebbtide.experiments.reproduction.report import write_report
from ebbtide.experiments.reproduction.studio import IncompleteError, Section, Studio

SECTIONS: dict[str, Callable[[Studio], Section]] = {
    "table": table.make,
    "curves": curves.make,
    "sensitivity": sensitivity.make,
    "approximation": approximation.make,
    "distances": distances.make,
    "ard": ard.make,
    "budget": budget.make,
    "videos": videos.make,
}

__all__ = ["SECTIONS", "IncompleteError", "Section", "Studio", "write_report"]
