"""Parts of self-contained pages: templates with escaping, and pictures inside the page."""

import base64
import json
from collections.abc import Callable
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from pyrite.report.style import dark, encode

__all__ = ["Picture", "as_json", "picture", "source", "templates"]


class Picture(NamedTuple):
    """A picture as a data URL, for light and for dark pages."""

    light: str
    dark: str
    width: int
    height: int


def templates() -> Environment:
    """The templates of pages. Everything is escaped, because names come from users and files."""
    environment = Environment(
        loader=PackageLoader("pyrite.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda share, digits=1: f"{100 * share:.{digits}f} %"
    environment.filters["thousands"] = lambda count: f"{count:,}"
    return environment


def source(name: str) -> Markup:
    """A script or a style sheet as it is written; it is not rendered, because braces have another meaning there."""
    loader = PackageLoader("pyrite.report")
    return Markup(loader.get_source(Environment(autoescape=True), name)[0])


def picture(draw: Callable[[], Figure]) -> Picture:
    """A figure, drawn for light and for dark pages."""
    figure = draw()
    light = encode(figure)
    with dark():
        dark_image = encode(draw())
    width, height = (round(120 * side) for side in figure.get_size_inches())
    return Picture(_inline(light), _inline(dark_image), width, height)


def as_json(value: object) -> Markup:
    """JSON for a script element: ASCII without <, > and &, so that no name can end the element or start another."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _inline(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
