"""A Redis with 3 MB on a free port of the loopback address, and the database behind it: SQLite, in the same folder."""

import contextlib
import random
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from running import free_port, scratch, server

PRODUCTS = 1024
ORDERS = 100  # of each product
MEMORY = "3mb"  # more than all pages need; a full Redis refuses to write


@contextlib.contextmanager
def started() -> Iterator[dict[str, str]]:
    """Yields the variables by which the measuring script finds the cache and the database."""
    with scratch() as folder:
        port, shop = str(free_port()), folder / "shop.db"
        fill(shop)
        argv = ["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", str(folder)]
        argv += ["--save", "", "--maxmemory", MEMORY, "--maxmemory-policy", "noeviction"]
        with server(argv, folder / "log", lambda: answers(int(port))):
            yield {"REDIS_PORT": port, "SHOP": str(shop)}


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(7) == b"+PONG\r\n"
    return False


def fill(path: Path, products: int = PRODUCTS) -> None:
    """Products, each with a version that counts its changes, and orders."""
    rng = random.Random(2)
    with contextlib.closing(sqlite3.connect(path)) as shop, shop:
        shop.execute("CREATE TABLE product (id INTEGER PRIMARY KEY, version INTEGER, text TEXT)")
        shop.execute(
            "CREATE TABLE sale (product INTEGER, number INTEGER, amount INTEGER, PRIMARY KEY (product, number))"
        )
        texts = ((i, 0, rng.randbytes(400).hex()) for i in range(products))
        shop.executemany("INSERT INTO product VALUES (?, ?, ?)", texts)
        sales = ((i, number, rng.randrange(1, 9)) for i in range(products) for number in range(ORDERS))
        shop.executemany("INSERT INTO sale VALUES (?, ?, ?)", sales)
