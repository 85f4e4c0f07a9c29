"""What ends a command if we are killed: nobody else would.

A shell learns the command's process group before the command begins, and waits for the end of a pipe that only we
hold open. The end of a pipe is noticed on every system and however we ended, and unlike Linux's PR_SET_PDEATHSIG it
ends the processes that the command has started as well.
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
def guarded(grace: float, environment: Mapping[str, str]) -> Iterator[Callable[[], None]]:
    """What the command's process calls before it becomes the command, as the leader of its process group.

    If this process dies, the group gets SIGTERM, and `grace` seconds later SIGKILL.
    """
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
        yield lambda: _announce(writer)
    finally:
        if guard is not None:
            guard.kill()
            guard.wait()
        # The reader is ours too until now, so that writing never fails, whatever happened to the guard.
        os.close(reader)
        os.close(writer)


def _announce(writer: int) -> None:
    os.write(writer, b"%d\n" % os.getpid())
