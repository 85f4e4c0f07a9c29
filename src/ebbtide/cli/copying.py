"""`ebbtide copy`: studies from one storage to another."""

from contextlib import closing

import click

from ebbtide.cli.options import clearly, unseen


@click.command(short_help="Copy studies from one storage to another.")
@click.argument("source", metavar="FROM", callback=unseen)
@click.argument("target", metavar="TO", callback=unseen)
@click.option("--name", "names", multiple=True, help="Study to copy; repeat the option for more.  [default: all]")
def copy(source: str, target: str, names: tuple[str, ...]) -> None:
    """Copy studies FROM one storage TO another: sqlite:///FILE or postgresql://USER@HOST/DATABASE, in any direction.
    Each is compared line by line with what was read, and is there as a whole or not at all. What is recorded in a study
    after its copy began is not copied, so stop what uses it first. Tokens are not copied.
    """
    from ebbtide.cli import studies
    from ebbtide.errors import ConfigurationError
    from ebbtide.study.storage import Storage
    from ebbtide.study.storage.copying import copy as copied

    with clearly():
        if any(studies.is_service(url) for url in (source, target)):
            raise ConfigurationError("give the databases themselves, not the address of a service")
        with closing(Storage.of(source, read_only=True)) as here, closing(Storage.of(target, create=True)) as there:
            for study in copied(here, there, names or None):
                click.echo(f"{study.name}: {study.asks} asks and {study.tells} tells, copied and compared")
