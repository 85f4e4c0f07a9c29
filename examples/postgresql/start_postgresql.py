"""A PostgreSQL of our own: in a temporary folder, on a free port of the loopback address, not as root."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from running import free_port, scratch, server, unprivileged

SCALE = 3  # pgbench's: 300,000 accounts, 45 MB
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))  # Debian's


@contextlib.contextmanager
def started() -> Iterator[dict[str, str]]:
    """The server with pgbench's tables; yields the variables by which libpq finds it."""
    with scratch() as folder:
        data, port = folder / "data", str(free_port())
        quietly(str(BINARIES[-1] / "initdb"), f"--pgdata={data}", "--auth=trust", "--username=bench", "--no-sync")
        variables = {"PGHOST": "127.0.0.1", "PGPORT": port, "PGUSER": "bench", "PGDATABASE": "postgres"}
        argv = [str(BINARIES[-1] / "postgres"), "-D", str(data), "-p", port]
        argv += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        with server(argv, folder / "log", lambda: answers(variables)):
            quietly("pgbench", "--initialize", "--quiet", f"--scale={SCALE}", variables=variables)
            yield variables


def answers(variables: dict[str, str]) -> bool:
    asked = ["pg_isready", "--quiet", "--host", variables["PGHOST"], "--port", variables["PGPORT"]]
    return subprocess.run(asked).returncode == 0


def quietly(*argv: str, variables: dict[str, str] | None = None) -> None:
    """Run a command to its end; what it printed is shown only if it fails."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **(variables or {})}
    done = subprocess.run(argv, env=environment, cwd="/", capture_output=True, text=True, **unprivileged())
    if done.returncode:
        raise RuntimeError(f"{argv[0]} failed: {done.stderr}")
