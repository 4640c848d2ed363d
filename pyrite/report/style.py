"""How pictures look, and how they reach the disk."""

import io
from pathlib import Path

from matplotlib.figure import Figure

from pyrite.files import write

__all__ = ["COLOURS", "save"]

# Told apart with any colour vision: Okabe & Ito's palette.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure under a temporary name and rename it, so that a picture is whole or not there."""
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"out is {str(path)!r}: a picture's name ends in one of .{', .'.join(sorted(known))}")
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120, format=path.suffix[1:].lower())
    try:
        write(path, buffer.getvalue())
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None
    return path
