"""Joins to libraries that people already use. Each module needs its own: `ebbtide[botorch]`, `ebbtide[optuna]`."""
