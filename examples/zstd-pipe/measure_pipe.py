"""Prints how many MB of a log arrive each second: zstd, a link that is slow at times, zstd -d.

    python measure_pipe.py --level 3 --window 21

The link carries 1 MB/s at midnight and 64 MB/s at noon. On a slow link it pays to compress hard; on a fast one zstd
itself becomes the narrowest place. ACCESS_LOG (see start_pipe.py) is what is sent, again and again.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from running import DAY, between, fail, unprivileged

SLOW, FAST = 1e6, 64e6  # bytes a second
SECONDS = 1.2
CHUNK = 1 << 16
BURST = 0.02  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, required=True, help="of zstd; below 1 those of --fast")
    parser.add_argument("--window", type=int, required=True, help="logarithm of the window's size in bytes")
    parser.add_argument("--at", type=float, default=time.time(), help="seconds, of which the link depends on; now")
    parser.add_argument("--day", type=float, default=DAY, help="seconds after which the link's rate repeats")
    options = parser.parse_args()
    log = Path(os.environ["ACCESS_LOG"]).read_bytes()
    arrived = sent(log, compressor(options.level, options.window), between(SLOW, FAST, options.at, options.day))
    if not arrived:
        fail(f"nothing arrived within {SECONDS} s")
    print(arrived / 1e6 / SECONDS)


def compressor(level: int, window: int) -> list[str]:
    how = f"-{level}" if level >= 1 else f"--fast={1 - level}"
    return ["zstd", how, f"--zstd=wlog={window}", "--single-thread", "--quiet", "--stdout"]


def sent(log: bytes, command: list[str], rate: float, seconds: float = SECONDS) -> int:
    """How many bytes of the log come out at the other end."""
    pipe, user = subprocess.PIPE, unprivileged()
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, **user) as zstd,
        subprocess.Popen(
            ["zstd", "-dcq"], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0, **user
        ) as unzstd,
    ):
        assert zstd.stdin is not None
        assert zstd.stdout is not None
        assert unzstd.stdin is not None
        assert unzstd.stdout is not None
        threads = [
            threading.Thread(target=feed, args=(log, zstd.stdin)),
            threading.Thread(target=carry, args=(zstd.stdout, unzstd.stdin, rate)),
        ]
        for thread in threads:
            thread.start()
        timer = threading.Timer(seconds, kill, args=(zstd, unzstd))
        timer.start()
        arrived = 0
        while chunk := os.read(unzstd.stdout.fileno(), 1 << 20):
            arrived += len(chunk)
        timer.join()
        for thread in threads:
            thread.join()
    return arrived


def kill(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.kill()


def feed(log: bytes, into: IO[bytes]) -> None:
    """Write the log again and again, until nobody reads it any more."""
    view = memoryview(log)
    with suppress(BrokenPipeError):
        while True:
            for start in range(0, len(log), CHUNK):
                into.write(view[start : start + CHUNK])


def carry(source: IO[bytes], target: IO[bytes], rate: float) -> None:
    """The link: passes on `rate` bytes a second, a hundredth of a second's worth at a time."""
    began, carried = time.monotonic(), 0
    with suppress(BrokenPipeError):
        while chunk := os.read(source.fileno(), min(CHUNK, int(rate / 100))):
            carried += len(chunk)
            # A link that had nothing to carry does not make up for it later; only a late wake-up is made up for.
            began = max(began, time.monotonic() - carried / rate - BURST)
            time.sleep(max(0.0, began + carried / rate - time.monotonic()))
            target.write(chunk)
    with suppress(BrokenPipeError):
        target.close()


if __name__ == "__main__":
    main()
