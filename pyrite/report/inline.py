"""What a page that needs nothing else is made with: templates that escape, and pictures that stand inside."""

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
    """A picture as it stands in a page, for light and for dark ones."""

    light: str
    dark: str
    width: int
    height: int


def templates() -> Environment:
    """Where pages come from. Names of losses, classes and folders come from users and files: everything is escaped."""
    made = Environment(
        loader=PackageLoader("pyrite.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = lambda share, digits=1: f"{100 * share:.{digits}f} %"
    made.filters["thousands"] = lambda count: f"{count:,}"
    return made


def source(name: str) -> Markup:
    """A script or a style of ours as it is written, not rendered: braces mean something else there."""
    loader = PackageLoader("pyrite.report")
    return Markup(loader.get_source(Environment(autoescape=True), name)[0])


def picture(draw: Callable[[], Figure]) -> Picture:
    """A figure, drawn for both kinds of page."""
    figure = draw()
    light = encode(figure)
    with dark():
        night = encode(draw())
    width, height = (round(120 * side) for side in figure.get_size_inches())
    return Picture(_inline(light), _inline(night), width, height)


def as_json(value: object) -> Markup:
    """Data for a script element. No name in it can end that element or begin another: only ASCII, and no <, > or &."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _inline(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
