"""Which trials are being measured: each `ebbtide tune` keeps its trial in a file, and the file locked.

A lock ends with its process, however that ends. So a trial in a file that can be locked was left behind; one in a file
that cannot is still being measured.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from ebbtide.records import Trial

LONGEST = 8192  # bytes of a file


@dataclass(frozen=True)
class Claim:
    """A trial of a study; its time tells it from one of a deleted study that had the same name."""

    study: str
    id: str
    time: float


class Claims:
    """The trial of this process, and those of others: files in `folder` whose names begin with `prefix`.

    Where no file can be written or locked, nothing is claimed, and nothing found.
    """

    def __init__(self, folder: Path, prefix: str, study: str) -> None:
        self.folder, self.prefix, self.study = folder, prefix, study
        self._file: int | None = None
        self._path: Path | None = None

    def hold(self, trial: Trial) -> None:
        """This process measures the trial."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file, name = tempfile.mkstemp(prefix=f".{self.prefix}", dir=self.folder)
            self._path = Path(name)
            os.write(self._file, json.dumps(astuple(self._claim(trial))).encode())
            if _lock(self._file):
                self._path = self._path.rename(self.folder / self._path.name[1:])  # others see it only when locked

    def release(self) -> None:
        """The trial was told."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """End the lock: a trial that was not released is left behind."""
        if self._file is not None:
            os.close(self._file)
        self._file = self._path = None

    def left_behind(self) -> Iterator[Claim]:
        """Trials of this study whose processes are gone; each is forgotten when the next one is asked for."""
        for path, file in self._files():
            if _lock(file) and (claim := _read(file)) is not None and claim.study == self.study:
                yield claim
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def is_measured(self, trial: Trial) -> bool:
        """Whether a process that is alive has claimed the trial."""
        return any(_read(file) == self._claim(trial) and not _lock(file) for _, file in self._files())

    def _claim(self, trial: Trial) -> Claim:
        return Claim(self.study, trial.id, trial.time)

    def _files(self) -> Iterator[tuple[Path, int]]:
        with suppress(OSError):
            for path in sorted(self.folder.iterdir()):
                if path.name.startswith(self.prefix):
                    with suppress(OSError):
                        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                        try:
                            yield path, file
                        finally:
                            os.close(file)


def _lock(file: int) -> bool:
    import fcntl  # which Windows does not have

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _read(file: int) -> Claim | None:
    try:
        study, number, time = json.loads(os.pread(file, LONGEST, 0))
        return Claim(study, number, float(time))
    except (OSError, ValueError, TypeError):
        return None
