"""The ``pyrite`` command. Nothing heavy is imported before a command runs."""

import sys
from typing import Annotated

import typer

import pyrite
from pyrite.cli.audit import audit
from pyrite.cli.check import check
from pyrite.cli.compare import compare
from pyrite.cli.corrupt import corrupt
from pyrite.cli.curves import curves
from pyrite.cli.demo import demo
from pyrite.cli.doctor import doctor
from pyrite.cli.export import export
from pyrite.cli.list import list_names
from pyrite.cli.predict import predict
from pyrite.cli.report import report
from pyrite.cli.reproduce import reproduce
from pyrite.cli.terminal import echo
from pyrite.cli.train import train
from pyrite.cli.tune import tune
from pyrite.errors import PyriteError

app = typer.Typer(
    help="Train classifiers on partly wrong labels, and find the labels that are wrong.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (demo, train, audit, report, predict, export, compare, tune, reproduce, curves, check, corrupt, doctor):
    app.command()(command)
app.command("list")(list_names)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        echo(f"pyrite {pyrite.__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command; bad input prints one sentence and exits with code 2."""
    try:
        app()
    except (PyriteError, PermissionError) as error:
        sentence = f"{error.filename}: {error.strerror}" if isinstance(error, PermissionError) else error
        echo(f"pyrite: {sentence}", err=True)
        sys.exit(2)
