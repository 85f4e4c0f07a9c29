"""Integrations with other libraries. Each module needs its own extra: `ebbtide[botorch]`, `ebbtide[optuna]`."""
