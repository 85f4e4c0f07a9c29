"""Prints how many right answers a second a shop gives whose pages are cached in Redis.

    python measure_cache.py --ttl 1000 --block 1

A visitor gets a product's page from Redis, or, if it is not there, from the database, which is two milliseconds away;
then the block of products around it is put into the cache, for `ttl` milliseconds. A page that has changed since is a
wrong answer. At noon products change often and visitors want the popular ones; at midnight they change seldom and most
visitors leaf through the catalogue. REDIS_PORT and SHOP (see start_cache.py) say where cache and database are.
"""

import argparse
import os
import random
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from running import DAY, between, fail, tide

CHANGES = 10.0, 10_000.0  # a second, at midnight and at noon
LEAFING = 0.1, 0.002  # the share of the visitors who leaf through the catalogue, at midnight and at noon
STEEPNESS = 1.2  # of the popularity: the product of rank r is wanted r^-1.2 times as often as the first
LEAVES = 16  # products in a row
DISTANCE = 0.002  # seconds to the database and back
SENDING = 0.0003  # seconds to send a page to the visitor
WARM_UP, SECONDS = 0.4, 1.0
PAGE = (
    "SELECT id, version, text, sum(amount) FROM product JOIN sale ON product = id WHERE id BETWEEN ? AND ? GROUP BY id"
)
CHANGE = "UPDATE product SET version = version + 1 WHERE id = ?"


class Redis:
    """As much of a client as is needed."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=10.0)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.connection.makefile("rb")

    def clear(self) -> None:
        self.connection.sendall(b"FLUSHALL\r\n")
        self._status()

    def get(self, key: int) -> bytes | None:
        self.connection.sendall(b"GET %d\r\n" % key)
        head = self.answers.readline()
        if not head.startswith(b"$"):
            fail(f"Redis: {head.decode().strip()}")
        size = int(head[1:])
        return None if size < 0 else self.answers.read(size + 2)[:-2]

    def put(self, pages: Mapping[int, bytes], ttl: int) -> None:
        """All in one go, and for `ttl` milliseconds."""
        self.connection.sendall(b"".join(b"SET %d %b PX %d\r\n" % (key, page, ttl) for key, page in pages.items()))
        for _ in pages:
            self._status()

    def _status(self) -> None:
        answer = self.answers.readline()
        if answer != b"+OK\r\n":
            fail(f"Redis: {answer.decode().strip()}")


class Shop:
    """The database, whose products change all the time."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.rng = rng
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA synchronous = OFF")
        self.database.execute("PRAGMA journal_mode = MEMORY")
        self.versions: list[int] = [v for (v,) in self.database.execute("SELECT version FROM product ORDER BY id")]
        self.products = range(len(self.versions))
        self.order = rng.sample(self.products, len(self.products))  # the popular ones are not neighbours
        self.weights = list(accumulate((rank + 1) ** -STEEPNESS for rank in self.products))

    def popular(self) -> int:
        return self.rng.choices(self.order, cum_weights=self.weights)[0]

    def change(self, number: int) -> None:
        """The stock of some products changes, popular or not."""
        changed = self.rng.choices(self.products, k=number)
        for product in changed:
            self.versions[product] += 1
        self.database.executemany(CHANGE, ((product,) for product in changed))

    def pages(self, product: int, block: int) -> dict[int, bytes]:
        """The pages of the products around one, as they are now. A page begins with its product's version."""
        time.sleep(DISTANCE)
        first = product - product % block
        rows = self.database.execute(PAGE, (first, first + block - 1))
        return {key: b"%d|%b|%d" % (version, text.encode(), sold) for key, version, text, sold in rows}


def visits(shop: Shop, leafing: float) -> Iterator[int]:
    """The products that visitors want to see, one after the other."""
    while True:
        if shop.rng.random() < leafing:
            start = shop.rng.randrange(len(shop.products) - LEAVES)
            yield from range(start, start + LEAVES)
        else:
            yield shop.popular()


def right_answers(shop: Shop, cache: Redis, ttl: int, block: int, changes: float, leafing: float) -> int:
    """How many answers were right in SECONDS, after the warm-up."""
    began = time.monotonic()
    changed, right = 0, 0
    for product in visits(shop, leafing):
        elapsed = time.monotonic() - began
        if elapsed >= WARM_UP + SECONDS:
            break
        if (due := int(changes * elapsed) - changed) > 0:
            shop.change(due)
            changed += due
        page = cache.get(product)
        if page is None:
            pages = shop.pages(product, block)
            cache.put(pages, ttl)
            page = pages[product]
        time.sleep(SENDING)
        fresh = int(page.partition(b"|")[0]) == shop.versions[product]
        right += fresh and elapsed >= WARM_UP
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ttl", type=float, required=True, help="milliseconds that a page stays in the cache")
    parser.add_argument("--block", type=int, required=True, help="products that are read at once")
    parser.add_argument("--at", type=float, default=time.time(), help="seconds, of which the load depends on; now")
    parser.add_argument("--day", type=float, default=DAY, help="seconds after which the load repeats")
    options = parser.parse_args()
    shop = Shop(os.environ["SHOP"], random.Random(options.at))
    cache = Redis(int(os.environ["REDIS_PORT"]))
    cache.clear()  # the measurement before had another setting
    changes = between(*CHANGES, options.at, options.day)
    leafing = LEAFING[0] + tide(options.at, options.day) * (LEAFING[1] - LEAFING[0])
    ttl = max(1, round(options.ttl))
    print(right_answers(shop, cache, ttl, options.block, changes, leafing) / SECONDS)


if __name__ == "__main__":
    main()
