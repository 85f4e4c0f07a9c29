"""The service in trouble: how long until an ask is answered, and until a SIGTERM has ended it?

    make perf-worst

Workers that are stopped, models as large as they may be, other processes that ask faster or keep the database locked,
and cores that are busy with other programs. An answer may be a refusal: what counts is that it comes.
"""

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

from record import add_option, record

import ebbtide as eb
from ebbtide.service.middleware import Limits
from ebbtide.study.storage import Storage

SPACE = {"x": eb.Float(0.0, 1.0), "y": eb.Float(0.0, 1.0)}
POINT = {"x": 0.5, "y": 0.5}
RIVAL = """
import sys, ebbtide as eb
opt = eb.Optimizer.open(sys.argv[1], "shared")
print("started", flush=True)
while True:
    opt.tell(opt.ask(), 0.5)
"""


class Service:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "worst.db"
        self.url = f"sqlite:///{self.path}"
        command = [sys.executable, "-m", "ebbtide", "serve", "--storage", self.url, "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def wait_until_ready(self) -> "Service":
        assert self.process.stdout is not None
        address = self.process.stdout.readline().split(" at ")[1].split()[0]
        self.client = eb.Client(address, patience=0.0)
        return self

    def workers(self) -> list[int]:
        command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid)]
        listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        return [int(line.split()[0]) for line in listed if "spawn_main" in line]

    def ask(self, name: str) -> float:
        """Seconds until an answer, or a refusal."""
        began = time.perf_counter()
        with suppress(eb.EbbtideError):
            eb.client.RemoteStudy(self.client, name).ask()
        return time.perf_counter() - began

    def stop(self) -> float:
        """Seconds from SIGTERM to the end, of its workers too."""
        workers = self.workers()
        began = time.perf_counter()
        self.process.terminate()
        self.process.wait(120.0)
        while any(Path(f"/proc/{worker}").exists() for worker in workers):
            time.sleep(0.01)
        return time.perf_counter() - began


@contextmanager
def service(*sizes: int, ready: bool = True) -> Iterator[Service]:
    """A service with studies s0, s1, … of an algorithm that keeps everything, with so many observations each."""
    with tempfile.TemporaryDirectory() as name:
        storage = Storage.of(f"sqlite:///{name}/worst.db", create=True)
        for number, size in enumerate(sizes):
            opt = eb.Optimizer(SPACE, algorithm="gp-ucb", seed=number, storage=storage, name=f"s{number}")
            with storage.database.transaction():
                for told in range(size):
                    opt.tell({"x": (told * 0.618) % 1.0, "y": (told * 0.414) % 1.0}, float(told % 7))
        storage.close()
        running = Service(Path(name))
        try:
            yield running.wait_until_ready() if ready else running
        finally:
            running.process.kill()
            running.process.wait()


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Do this again and again, in a thread, with a short pause: it may be refused at once."""
    end = threading.Event()

    def again() -> None:
        while not end.wait(0.02):
            work()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextmanager
def processes(*commands: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def signalled(workers: list[int]) -> None:
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)


# --- from SIGTERM to the end ------------------------------------------------------------------------------------------


def stop_while_starting() -> float:
    with service(ready=False) as running:
        while not running.workers():
            time.sleep(0.01)
        return running.stop()


def stop_with_a_model() -> float:
    with service(Limits().active) as running, beside(partial(running.ask, "s0")):
        time.sleep(1.0)
        return running.stop()


def stop_with_stopped_workers() -> float:
    with service(10) as running:
        signalled(running.workers())
        with beside(partial(running.ask, "s0")):
            return running.stop()


def stop_with_a_locked_database() -> float:
    with service(10) as running, locked(running.path), beside(partial(running.ask, "s0")):
        time.sleep(1.0)
        return running.stop()


# --- until an ask is answered -----------------------------------------------------------------------------------------


def longest(running: Service, name: str, asks: int) -> float:
    return max(running.ask(name) for _ in range(asks))


def ask_first_beside(busy: int) -> float:
    with processes(*[[sys.executable, "-c", "while True: pass"]] * busy), service(10) as running:
        return running.ask("s0")


def ask_with_a_stopped_worker() -> float:
    with service(10) as running:
        signalled(running.workers()[:1])
        return longest(running, "s0", 20)


def ask_with_stopped_workers() -> float:
    with service(10) as running:
        signalled(running.workers())
        return longest(running, "s0", 5)


def ask_beside_large_models(size: int, asks: int = 200) -> float:
    """The 99th percentile of a small study's asks."""
    with service(size, size, 10) as running, ExitStack() as stack:
        for large in ("s0", "s1"):
            stack.enter_context(beside(partial(running.ask, large)))
        times = sorted(running.ask("s2") for _ in range(asks))
        return times[int(0.99 * asks)]


def ask_with_a_locked_database() -> float:
    with service(10) as running, locked(running.path):
        return running.ask("s0")


def ask_as_others_do(asks: int = 20) -> tuple[list[float], list[float]]:
    """Alone, and while another process asks and tells the same study as fast as it can."""
    with service() as running:
        study = running.client.create("shared", SPACE, seed=0)
        for _ in range(50):
            study.tell(study.ask(), 0.5)
        alone = [running.ask("shared") for _ in range(asks)]
        with processes([sys.executable, "-c", RIVAL, running.url]) as (rival,):
            assert rival.stdout is not None
            rival.stdout.readline()
            return alone, [running.ask("shared") for _ in range(asks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    add_option(parser)
    options = parser.parse_args()
    most = Limits().active
    cases: dict[str, Callable[[], float]] = {
        "SIGTERM while the workers start": stop_while_starting,
        "SIGTERM while a model is computed": stop_with_a_model,
        "SIGTERM while the workers are stopped": stop_with_stopped_workers,
        "SIGTERM while another process keeps the database locked": stop_with_a_locked_database,
        "the first ask, beside four busy processes": lambda: ask_first_beside(4),
        "the longest ask while one worker is stopped": ask_with_a_stopped_worker,
        "the longest ask while all workers are stopped": ask_with_stopped_workers,
        f"ask, p99, beside two models of {most:,}": lambda: ask_beside_large_models(most),
        "ask, p99, beside two models of 8,000, which are refused": lambda: ask_beside_large_models(8000),
        "ask while another process keeps the database locked": ask_with_a_locked_database,
    }
    rows: list[dict[str, object]] = []
    for name, measure in cases.items():
        if options.only in name:
            rows.append({"case": name, "seconds": measure()})
            print(f"{name}: {rows[-1]['seconds']:.2f} s", flush=True)
    if options.only in (name := "ask while another process asks and tells the same study"):
        alone, together = ask_as_others_do()
        rows += [{"case": f"{name}, median", "seconds": median(together)}]
        rows += [{"case": f"{name}, longest", "seconds": max(together)}]
        rows += [{"case": "the same ask, alone, median", "seconds": median(alone)}]
        ratio = median(together) / median(alone)
        print(f"{name}: {median(together):.2f} s, longest {max(together):.2f} s; {ratio:.1f} times as long as alone")
    record("worst", rows, "make perf-worst")


if __name__ == "__main__":
    main()
