"""What ends a command if we are killed: nobody else would.

A shell learns the command's process group as soon as the command runs, and waits for the end of a pipe that only we
hold open. That is noticed on every system and however we ended, and unlike Linux's PR_SET_PDEATHSIG it ends what the
command has started as well. (PR_SET_PDEATHSIG would also need code of ours between fork and exec, so that all of our
memory is copied, and the threads of BLAS are restarted, at each evaluation.)
"""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

SHELL = "/bin/sh"
SCRIPT = """
trap '' HUP INT TERM
read -r group || exit
read -r end_of_the_pipe
kill -s TERM -- "-$group"
sleep "$1"
kill -s KILL -- "-$group"
"""


@contextmanager
def guarded(grace: float, environment: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
    """Say which process group the guard watches: if we die, it gets SIGTERM, and `grace` seconds later SIGKILL."""
    reader, writer = os.pipe()
    guard = None
    try:
        with suppress(FileNotFoundError):  # a system without a shell has no guard
            guard = subprocess.Popen(  # noqa: S603 - our own script
                [SHELL, "-c", SCRIPT, "ebbtide-guard", f"{grace:g}"],
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,  # what is sent to our own group is not for the guard
            )
        yield lambda group: _tell(writer, group)
    finally:
        if guard is not None:
            guard.kill()
            guard.wait()
        # The reader is ours too until now, so that writing never fails, whatever happened to the guard.
        os.close(reader)
        os.close(writer)


def _tell(writer: int, group: int) -> None:
    os.write(writer, b"%d\n" % group)
