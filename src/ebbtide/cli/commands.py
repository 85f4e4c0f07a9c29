"""The commands; each does its work in a module of its own."""

import textwrap
from pathlib import Path

import click

from ebbtide import __version__, algorithms, benchmarks
from ebbtide.errors import EbbtideError
from ebbtide.experiments import Protocol


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="ebbtide")
def ebbtide() -> None:
    """Bayesian optimization for objectives that drift."""


def _listed(kind: str, names: list[str]) -> str:
    """A paragraph that Click leaves as it is: no name is broken in two."""
    lines = textwrap.fill(f"{kind}: {', '.join(names)}", width=78, subsequent_indent="  ", break_on_hyphens=False)
    return f"\b\n{lines}"


NAMES = _listed("Benchmarks", benchmarks.names()) + "\n\n" + _listed("Algorithms", algorithms.names())


@ebbtide.command(epilog=NAMES)
@click.argument("benchmark", type=click.Choice(benchmarks.names()), metavar="BENCHMARK")
@click.option(
    "-a",
    "--algorithm",
    "chosen",
    multiple=True,
    default=["w-dbo"],
    type=click.Choice(algorithms.names()),
    metavar="NAME",
    help="Which algorithm; give it several times to compare.",
)
@click.option("-s", "--seeds", default=3, type=click.IntRange(min=1), help="How many runs of each, from seed 0 on.")
@click.option("--duration", default=Protocol.duration, help="Seconds of the experiment.")
@click.option("--noise", default=Protocol.noise, help="Noise variance, as a share of the signal's.")
@click.option("--evaluation", default=Protocol.evaluation, help="Seconds that the objective takes.")
@click.option(
    "--compute",
    default="modelled:botorch",
    metavar="PACE",
    help="How compute time passes: modelled:botorch, modelled:ebbtide, measured, measured:SPEED or wall.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path, file_okay=False), help="Write each run's frame here.")
def run(
    benchmark: str,
    chosen: tuple[str, ...],
    seeds: int,
    duration: float,
    noise: float,
    evaluation: float,
    compute: str,
    out: Path | None,
) -> None:
    """Run algorithms on a BENCHMARK and print what they lost."""
    from ebbtide.cli import running

    try:
        protocol = Protocol(duration=duration, noise=noise, evaluation=evaluation, compute=compute)
        running.run(benchmark, list(dict.fromkeys(chosen)), seeds, protocol, out)
    except EbbtideError as error:
        raise click.ClickException(str(error)) from error
