"""`{commands}`: the command line's reference, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ebbtide.cli.commands import ebbtide


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        text = "\n\n".join(described(name, command) for name, command in every(ebbtide))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def every(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command, with its name; instead of a group, the commands in it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every(command, f"{before}{name} ")
        else:
            yield before + name, command


def described(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"ebbtide {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    rows = [row for parameter in command.params if (row := parameter.get_help_record(context))]
    options = "\n".join(f"| `{option}` | {_cell(meaning)} |" for option, meaning in rows)
    text = " ".join((command.help or "").replace("\b", "").split())
    table = f"| option | meaning |\n|---|---|\n{options}" if rows else ""
    return f"## ebbtide {name}\n\n{text}\n\n```text\n{' '.join(usage.split())}\n```\n\n{table}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("[", "\\[")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
