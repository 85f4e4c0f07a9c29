"""Prints the load of the moment: which share of the transactions are customers', in percent; the others are reports.

    python measure_load.py

`ebbtide tune --context-command` calls it before each ask. On a system of your own, ask your monitoring here.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from running import DAY, tide


def load(at: float, day: float = DAY) -> dict[str, float]:
    """The load at a time: no customers at midnight, nobody else at noon.

    >>> load(30.0, day=300.0)
    {'customers': 10}
    """
    return {"customers": round(100 * tide(at, day))}


if __name__ == "__main__":
    print(json.dumps(load(time.time())))
