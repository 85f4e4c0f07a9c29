"""Which trials are being measured: each `ebbtide tune` says which is its own in a file, and keeps the file locked.

A lock ends with its process, however that ends. So a trial in a file that can be locked was left behind; one in a file
that cannot is still being measured. Before an ask the trial's number is not known: then the file has the lowest that
it can get, and the trial is recognized by its lease, which no other process uses.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from math import isclose
from pathlib import Path

from ebbtide.records import Trial

LONGEST = 8192  # bytes of a file


@dataclass(frozen=True)
class Claim:
    """A trial of a study: that with this lease, among those with these numbers."""

    study: str
    first: int
    last: int | None  # None: it is being asked for
    lease: float

    def covers(self, trial: Trial) -> bool:
        numbered = self.first <= int(trial.id) and (self.last is None or int(trial.id) <= self.last)
        return numbered and trial.expires is not None and isclose(trial.expires - trial.time, self.lease, abs_tol=1e-6)


class Claims:
    """The trial of this process, and those of others: files in `folder` whose names begin with `prefix`.

    Where no file can be written or locked, nothing is claimed, and nothing found.
    """

    def __init__(self, folder: Path, prefix: str, study: str) -> None:
        self.folder, self.prefix, self.study = folder, prefix, study
        self._file: int | None = None
        self._path: Path | None = None

    def hold(self, first: int, last: int | None, lease: float) -> None:
        """This process measures a trial, or is about to ask for it."""
        text = json.dumps(astuple(Claim(self.study, first, last, lease))).encode() + b"\n"
        with suppress(OSError):
            if self._file is None:
                self._create(text)
            else:
                os.pwrite(self._file, text, 0)  # in one step; the rest of a longer text is another line

    def _create(self, text: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file, name = tempfile.mkstemp(prefix=f".{self.prefix}", dir=self.folder)
        self._path = Path(name)
        os.write(self._file, text)
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
        return any(
            (claim := _read(file)) is not None and claim.study == self.study and claim.covers(trial) and not _lock(file)
            for _, file in self._files()
        )

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
        study, first, last, lease = json.loads(os.pread(file, LONGEST, 0).partition(b"\n")[0])
        return Claim(study, int(first), None if last is None else int(last), float(lease))
    except (OSError, ValueError, TypeError):
        return None
