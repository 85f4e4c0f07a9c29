"""Three services over one PostgreSQL, while clients ask and tell through a TCP proxy: services are killed 300 times,
the database 20 times, and connections are ended or cut in the middle of a commit. Is everything confirmed there, once?

    make chaos-postgres

tests/helpers/chaos_postgres.py does it; the tests run the same with fewer faults.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from record import add_option, record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.chaos_postgres import unleash


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300, help="of services")
    parser.add_argument("--restarts", type=int, default=20, help="of the database, killed with SIGKILL")
    parser.add_argument("--cuts", type=int, default=100, help="commits whose connection is cut; half as many others")
    parser.add_argument("--seed", type=int, default=0)
    add_option(parser)
    options = parser.parse_args()
    counts = {"kill": options.kills, "restart": options.restarts, "cut commit": options.cuts}
    counts |= {"cut": options.cuts // 2, "end": options.cuts // 2}
    with tempfile.TemporaryDirectory() as folder:
        seen = unleash(Path(folder), counts, options.seed, progress=True)
    print(
        f"{seen['kill']:,} kills of three services, {seen['restart']:,} of the database, {seen['cut commit']:,} "
        f"commits cut, {seen['cut']:,} times all connections cut and {seen['end']:,} times ended by the server; "
        f"{seen['tells']:,} tells confirmed, each stored once; {seen['asks']:,} asks; no deadlock, no lock or "
        "connection left"
    )
    record("chaos-postgres", [seen], "make chaos-postgres")


if __name__ == "__main__":
    main()
