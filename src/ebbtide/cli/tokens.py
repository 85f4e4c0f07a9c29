"""`ebbtide token`: who may use a service, besides whoever has EBBTIDE_TOKEN. It changes the database."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from ebbtide.cli.options import clearly, storage_option
from ebbtide.study.storage import Database, Storage
from ebbtide.study.storage import tokens as stored
from ebbtide.study.storage.tokens import SCOPES, Token

FILE = storage_option(
    "Database of the service: sqlite:///FILE or postgresql://USER@HOST/DATABASE. The service may be running."
)


@click.group()
def token() -> None:
    """Create, list and revoke the tokens of a service that several teams share."""


@token.command(short_help="Create a token, and print it.")
@FILE
@click.option("--name", required=True, help="Who has the token, for the list.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
    help="What the token allows; repeat the option for more. admin allows everything, including to create and delete.",
)
@click.option(
    "--prefix",
    required=True,
    metavar="PATTERN",
    help="Which studies the token is for, by their names: 'team-a.*', or '*' for all.",
)
def create(storage: str, name: str, scopes: tuple[str, ...], prefix: str) -> None:
    """Create a token, and print it. This is the only time that it is shown: the database has no more than its digest.
    A running service accepts it within a second.
    """
    with clearly(), _opened(storage) as database:
        secret, made = stored.create(database, name, scopes, prefix)
        click.echo(f"Token {made.id} for {made.pattern}: {', '.join(made.scopes)}. It is shown only now.", err=True)
        click.echo(secret)


@token.command("list", short_help="List the tokens.")
@FILE
def list_(storage: str) -> None:
    """Print all tokens as JSON, including those that were revoked, but not the secrets."""
    from ebbtide.cli import studies

    with clearly(), _opened(storage) as database:
        studies.show({"tokens": [_described(each) for each in stored.stored(database)]})


@token.command(short_help="Revoke a token.")
@FILE
@click.argument("token_id", metavar="ID")
def revoke(storage: str, token_id: str) -> None:
    """Revoke the token with this ID. A running service refuses it within a second, and ends its event streams within
    two.
    """
    from ebbtide.cli import studies

    with clearly(), _opened(storage) as database:
        stored.revoke(database, token_id)
        studies.show({"revoked": token_id})


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    with closing(Storage.of(url)) as storage:
        yield storage.database


def _described(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": list(token.scopes),
        "prefix": token.pattern,
        "created": token.created,
        "revoked": token.revoked,
    }
