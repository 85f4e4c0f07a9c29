"""The command line: `ebbtide --help`."""

import sys


def main() -> None:
    """What the `ebbtide` command calls; says what to install where the command line's libraries are missing."""
    try:
        from ebbtide.cli.commands import ebbtide
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'ebbtide[cli]'")
    ebbtide()
