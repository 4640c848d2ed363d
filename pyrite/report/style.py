"""The style of plots, and how they are saved."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure

from pyrite.errors import PyriteError
from pyrite.files import write

__all__ = ["COLOURS", "dark", "encode", "line_style", "save"]

# Okabe & Ito's palette, which can be distinguished with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_PAPER, _INK = "#16191d", "#d7dce2"
_DARK: dict[Any, str] = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), _PAPER),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
}


@contextmanager
def dark() -> Iterator[None]:
    """A context in which figures are drawn light on dark, for dark pages. The line colours stay."""
    with rc_context(_DARK):
        yield


def line_style(number: int) -> dict[str, str]:
    """Colour and dashes of line number 0, 1, ...; black is replaced by the colour of text."""
    colour = COLOURS[number % len(COLOURS)]
    return {
        "color": str(rcParams["text.color"]) if colour == COLOURS[-1] else colour,
        "linestyle": ("-", "--", ":")[number // len(COLOURS) % 3],
    }


def encode(figure: Figure, kind: str = "png") -> bytes:
    """A figure as the content of a file."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120, format=kind)
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure under a temporary name and rename it, so that no incomplete file is left."""
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise PyriteError(f"out is {str(path)!r}: a picture's name ends in one of .{', .'.join(sorted(known))}")
    try:
        write(path, encode(figure, path.suffix[1:].lower()))
    except OSError as error:
        raise PyriteError(f"cannot write {path}: {error.strerror or error}") from None
    return path
