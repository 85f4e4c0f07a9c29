"""The command line: `ebbtide --help`."""

import sys


def main() -> None:
    """Run the `ebbtide` command, or say what to install if its libraries are missing."""
    try:
        from ebbtide.cli.commands import ebbtide
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'ebbtide[cli]'")
    ebbtide()
