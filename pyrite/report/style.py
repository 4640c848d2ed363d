"""The style of plots, and the parts of self-contained pages."""

import base64
import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure

from pyrite.errors import PyriteError
from pyrite.files import write_or_refuse

# Okabe & Ito's palette, which can be distinguished with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_PAPER, _INK = "#16191d", "#d7dce2"
_DARK: dict[Any, str] = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), _PAPER),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
}


def dark() -> AbstractContextManager[None]:
    """A context in which figures are drawn light on dark, for dark pages. The line colours stay."""
    return rc_context(_DARK)


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
    """Write a figure as a file, whose ending is the format."""
    path, known = Path(path), figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise PyriteError(f"out is {str(path)!r}: a picture's name ends in one of .{', .'.join(sorted(known))}")
    return write_or_refuse(path, encode(figure, path.suffix[1:].lower()))


class Picture(NamedTuple):
    """A picture as a data URL, for light and for dark pages."""

    light: str
    dark: str
    width: int
    height: int


def templates() -> Environment:
    """The templates of pages. Everything is escaped, because names come from users and files."""
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader("pyrite.report"), autoescape=True, **options)
    environment.filters["percent"] = lambda fraction, digits=1: f"{100 * fraction:.{digits}f} %"
    environment.filters["thousands"] = lambda count: f"{count:,}"
    return environment


def source(name: str) -> Markup:
    """A script or a style sheet as it is written; it is not rendered, because braces have another meaning there."""
    text, *_ = PackageLoader("pyrite.report").get_source(Environment(autoescape=True), name)
    return Markup(text)  # nosec B704


def picture(draw: Callable[[], Figure]) -> Picture:
    """A figure, drawn for light and for dark pages."""
    figure = draw()
    images = [encode(figure)]
    with dark():
        images.append(encode(draw()))
    light, for_dark = (f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in images)
    return Picture(light, for_dark, *(round(120 * side) for side in figure.get_size_inches()))


def as_json(value: object) -> Markup:
    """JSON for a script element: ASCII without <, > and &, so that no name can end the element or start another."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    plain = text.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"})
    return Markup(plain)  # nosec B704
