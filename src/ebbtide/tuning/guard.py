"""What ends a command if we are killed: nobody else would.

Two small shells. One becomes the command, after it has written its number into a pipe. The other, the guard, reads the
number and waits for the end of the pipe, which only we hold open then: that is noticed on every system and however we
ended. Unlike Linux's PR_SET_PDEATHSIG this also ends what the command has started, and needs no code of ours between
fork and exec, for which all of our memory would have to be copied at each evaluation.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SHELL = "/bin/sh"
BECOME = 'echo "$$" >&0 && exec "$@" </dev/null'  # its standard input is the pipe
GUARD = """
trap '' HUP INT TERM
read -r group || exit
read -r end_of_the_pipe
kill -s TERM -- "-$group"
sleep "$1"
kill -s KILL -- "-$group"
"""


@contextmanager
def guarded(argv: Sequence[str], grace: float, environment: Mapping[str, str]) -> Iterator[tuple[Sequence[str], int]]:
    """How to start the command as the leader of a process group, and with which standard input.

    If we die, the group gets SIGTERM, and `grace` seconds later SIGKILL. A system without a shell has no guard.
    """
    if not Path(SHELL).exists():
        yield argv, subprocess.DEVNULL
        return
    reader, writer = os.pipe()
    guard = None
    try:
        guard = subprocess.Popen(  # noqa: S603 - our own script
            [SHELL, "-c", GUARD, "ebbtide-guard", f"{grace:g}"],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment,
            start_new_session=True,  # what is sent to our own group is not for the guard
        )
        yield [SHELL, "-c", BECOME, argv[0], *argv], writer
    finally:
        if guard is not None:
            guard.kill()
            guard.wait()
        # The reader is ours too until now, so that writing never fails, whatever happened to the guard.
        os.close(reader)
        os.close(writer)
