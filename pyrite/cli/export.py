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
        typer.echo(f"The model takes {written.inputs} and returns scores.")
    if written.left_out:
        typer.echo(f"The model does not include the features {written.left_out}: its inputs are the encoded samples.")
    typer.echo(f"wrote {written.path}")
