"""Processes whose wall clock can be set while they run: Python's `time.time` there is shifted by what a file says.

    wall = Wall(tmp_path)
    subprocess.Popen(..., env=os.environ | wall.environment)
    wall.shift(3600.0)

Monotonic time goes on as it is, as on a machine whose clock is set by hand or by NTP.
"""

import os
from pathlib import Path

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365.25 * 86_400.0
MODULES = Path(__file__).with_name("wall")


class Wall:
    """The wall clock of the processes that are started with this environment."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        self.file = folder / "wall.txt"
        modules = os.pathsep.join([str(MODULES), os.environ.get("PYTHONPATH", "")])
        self.environment = {"WALL_SHIFT": str(self.file), "PYTHONPATH": modules}
        self.shift(seconds)

    def shift(self, seconds: float) -> None:
        """Let the wall clock be this far ahead of the true time; negative: behind it."""
        written = self.file.with_suffix(".new")
        written.write_text(repr(seconds), encoding="ascii")
        os.replace(written, self.file)  # a reader never sees half of it
