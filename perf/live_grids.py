"""The static settings that `perf/live.py` measures in rotation; one of them is what a careful engineer would choose.

They were fixed, with the ranges in examples/*/space.toml and the loads, before the first run that counts.
"""

from itertools import product

from systems import Settings

GRIDS: dict[str, list[Settings]] = {
    "postgresql": [
        {"pool": pool, "work_mem": memory} for pool, memory in product((4, 10, 24, 48, 64, 90), (512, 8192))
    ],
    "zstd-pipe": [{"level": level, "window": window} for level, window in product((1, 3, 6, 9, 12, 15), (21, 24))],
    "redis-cache": [{"ttl": ttl, "block": block} for ttl, block in product((30.0, 150.0, 600.0, 3000.0), (1, 16, 128))],
}
