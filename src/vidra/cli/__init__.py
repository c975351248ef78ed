"""The command line. Each command imports what it needs when it runs, so that help and completion are instant."""

from __future__ import annotations

import typer

from vidra import __version__
from vidra.cli.run import run

app = typer.Typer(
    name="vidra",
    help="Brings the artifacts Infrahub renders into Kubernetes clusters and keeps them true.",
    no_args_is_help=True,
    add_completion=False,
    # Plain: rich takes longer to import than everything else here, and its tracebacks show local variables.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(run)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Entry point of the ``vidra`` script and of ``python -m vidra``."""
    app()
