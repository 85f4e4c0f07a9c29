"""Algorithms of a user's own, as a campaign meets them: what fails, what kills its process, what never ends."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import ebbtide as eb
from ebbtide.gp.arrays import Array
from ebbtide.parts.acquisition import Context


@dataclass(frozen=True)
class Failing(eb.UCB):
    """Cannot be evaluated."""

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        raise ZeroDivisionError("this acquisition never works")


@dataclass(frozen=True)
class Deadly(eb.UCB):
    """Kills its process `deaths` times, which it counts in a folder; then it is UCB."""

    folder: str = ""
    deaths: int = 1

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        for k in range(self.deaths):
            try:
                (Path(self.folder) / f"death-{k}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(mean, std, context)


@dataclass(frozen=True)
class Revealing(eb.UCB):
    """Fails, and says what a variable of its process's environment is."""

    variable: str = ""

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        raise LookupError(f"the variable is {os.environ.get(self.variable)}")


@dataclass(frozen=True)
class Held(eb.UCB):
    """Says so in a file and waits, while the folder of its process has a file `hold`; then it is UCB."""

    def __call__(self, mean: Array, std: Array, context: Context) -> tuple[Array, Array, Array]:
        while Path("hold").exists():
            Path("waiting").touch()
            time.sleep(0.02)
        return super().__call__(mean, std, context)


broken = eb.Algorithm(acquisition=Failing())
held = eb.Algorithm(acquisition=Held())
