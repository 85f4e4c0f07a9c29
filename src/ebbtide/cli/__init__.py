"""The command line: `ebbtide --help`."""

import sys

from ebbtide.cli import streams
from ebbtide.errors import how_to_install


def main() -> None:
    """Run the `ebbtide` command, or say what to install if its libraries are missing."""
    streams.prepare()
    try:
        from ebbtide.cli.commands import ebbtide
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: {how_to_install('cli')}")
    try:
        ebbtide()
    except OSError as error:  # of --help, say, on a full disk
        sys.exit(f"Error: {error}")
    finally:
        streams.finish()
