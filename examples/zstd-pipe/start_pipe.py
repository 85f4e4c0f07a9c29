"""What is sent: 32 MB of an access log, whose sessions come back after a while. It is the same on every machine."""

import contextlib
import random
from collections.abc import Iterator

from running import scratch

SIZE = 32_000_000
PAGES = ("api", "v1", "v2", "orders", "items", "users", "search", "cart", "images", "static", "blog")
SYSTEMS = ("X11; Linux x86_64", "Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 14", "iPhone; iPhone OS 17")


@contextlib.contextmanager
def started() -> Iterator[dict[str, str]]:
    """Yields the variable by which the measuring script finds the log."""
    with scratch() as folder:
        log = folder / "access.log"
        log.write_bytes(access_log(SIZE))
        yield {"ACCESS_LOG": str(log)}


def access_log(size: int, seed: int = 1) -> bytes:
    """Lines of JSON, at least `size` bytes in all."""
    rng = random.Random(seed)
    agents = [f"Mozilla/5.0 ({rng.choice(SYSTEMS)}) Gecko/{rng.randrange(10**8)}" for _ in range(60)]
    paths = ["/" + "/".join(rng.choices(PAGES, k=rng.randrange(1, 5))) + f"/{rng.randrange(1000)}" for _ in range(800)]
    sessions: list[str] = []
    lines, written, moment = [], 0, 1.7e9
    while written < size:
        if len(sessions) < 3000 or rng.random() < 0.04:
            host = ".".join(str(rng.randrange(256)) for _ in range(3))
            who = f'"host":"10.{host}","session":"{rng.getrandbits(128):032x}"'
            sessions.append(f'{who},"agent":"{rng.choice(agents)}"')
        session = sessions[max(0, len(sessions) - 1 - int(rng.expovariate(1 / 1500)))]
        moment += rng.expovariate(800)
        path = paths[min(len(paths), int(rng.paretovariate(0.7))) - 1]
        status = rng.choice((*[200] * 20, 304, 404, 500))
        answer = f'"path":"{path}","status":{status},"bytes":{int(rng.lognormvariate(8, 2))}'
        lines.append(f'{{"time":{moment:.3f},{session},{answer}}}\n')
        written += len(lines[-1])
    return "".join(lines).encode()
