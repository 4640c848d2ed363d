"""``pyrite export``: the model of a run for other programs, or its model card."""

from pathlib import Path
from typing import Annotated

import typer

from pyrite.cli.terminal import RunPath


def export(
    run: RunPath,
    file: Annotated[Path, typer.Argument(help="model.onnx, model.pt2 (torch.export), or card.md, the model card.")],
) -> None:
    """Export the model of a run, or write its model card."""
    from pyrite.exports import export as write_model

    written = write_model(run, file)
    if written.inputs:
        typer.echo(f"It takes {written.inputs}, and gives scores.")
    if written.left_out:
        typer.echo(f"The features {written.left_out} are not in it: its inputs are what they make of samples.")
    typer.echo(f"wrote {written.path}")
