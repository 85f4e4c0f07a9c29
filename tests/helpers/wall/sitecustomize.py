"""Python imports a module of this name at the start of every process: see helpers/walls.py."""

import os
import time

_true = time.time


def _shifted() -> float:
    with open(os.environ["WALL_SHIFT"], encoding="ascii") as file:
        return _true() + float(file.read())


time.time = _shifted
