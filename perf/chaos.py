"""A service killed 1,000 times, and its file deleted, moved or replaced 1,000 times, while clients ask and tell:
is everything confirmed there, once?

    make chaos

tests/helpers/chaos.py does it; the tests run the same with fewer faults.
"""

import argparse
import runpy
import tempfile
from pathlib import Path

from record import add_option, record

CHAOS = Path(__file__).parents[1] / "tests" / "helpers" / "chaos.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--losses", type=int, default=1000)
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = runpy.run_path(str(CHAOS))["unleash"](Path(folder), options.kills, options.losses, progress=True)
    print(
        f"{seen['kills']:,} kills, {seen['losses']:,} lost files; {seen['tells']:,} tells confirmed, each stored "
        f"once, none while the file was away; {seen['asks']:,} asks; not ready within {seen['not_ready_s']:g} s"
    )
    record("chaos", [seen], "make chaos")


if __name__ == "__main__":
    main()
