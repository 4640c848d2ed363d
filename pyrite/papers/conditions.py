"""How a scale of a recipe differs from the paper's, read off the settings of its runs, and what of that is far."""

import re
from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Final, NamedTuple

from pyrite.papers.cells import Cell

# Samples of the training parts, and the side of their images in pixels.
_SETS: Final[Mapping[str, tuple[int, int]]] = {
    "cifar10": (50_000, 32), "cifar100": (50_000, 32), "cifar10n": (50_000, 32), "cifar100n": (50_000, 32),
    "mnist": (60_000, 28), "digits": (1_437, 8), "clothing1m": (1_000_000, 256), "mars": (509_914, 256),
    "webvision": (66_000, 256),
}  # fmt: skip
# Nearer than these fractions of the paper's is near: a quarter of the steps, a fifth of the samples, half the side.
_STEPS, _SAMPLES, _SIDE = 1 / 4, 1 / 5, 1 / 2
_OTHERS: Final = ("method", "noise", "optimiser", "schedule", "clip", "batch_size")


class Difference(NamedTuple):
    """A difference in words, and whether a claim is not tested in the paper's conditions because of it."""

    words: str
    is_far: bool


def differences(ours: Iterable[Cell], papers: Iterable[Cell]) -> list[Difference]:
    """What differs between the runs of a scale and those of the paper's."""
    ours, papers = list(ours), list(papers)
    sets, their_sets = _values(_set_of, ours), _values(_set_of, papers)
    side, their_side = (min(map(_side, cells)) for cells in (ours, papers))
    found = []
    if other := [name for name in sets if name not in their_sets]:
        found.append(Difference(f"data {', '.join(other)} in place of {', '.join(their_sets)}", True))
    elif side < their_side:
        found.append(Difference(f"images of {side} pixels in place of {their_side}", side < _SIDE * their_side))
    found += _fewer("samples", min(map(_samples, ours)), min(map(_samples, papers)), _SAMPLES)
    found += _fewer("steps", max(map(_steps, ours)), max(map(_steps, papers)), _STEPS)
    found += _changed("model", ours, papers, is_far=True)
    found += _changed("augment", ours, papers, is_far=any(cell.settings.get("augment") == "none" for cell in ours))
    for name in _OTHERS:
        found += _changed(name, ours, papers, is_far=False)
    return found


def _fewer(what: str, ours: int, theirs: int, near: float) -> list[Difference]:
    words = f"{ours:,} of {theirs:,} {what} ({100 * ours / theirs:.2g} %)"
    return [Difference(words, ours < near * theirs)] if ours < theirs else []


def _changed(name: str, ours: list[Cell], papers: list[Cell], *, is_far: bool) -> list[Difference]:
    """Values of a setting that the paper's runs do not have; those of a schedule follow from the length."""
    theirs = _values(lambda cell: cell.settings.get(name, "default"), papers)
    other = [one for one in _values(lambda cell: cell.settings.get(name, "default"), ours) if one not in theirs]
    if name == "schedule" and {one.partition("(")[0] for one in other} <= {one.partition("(")[0] for one in theirs}:
        return []
    replaced = f" in place of {', '.join(theirs)}" if len(theirs) < 4 else ""
    return [Difference(f"{name} {', '.join(other)}{replaced}", is_far)] if other else []


def _values(of: Callable[[Cell], object], cells: list[Cell]) -> list[str]:
    return list(dict.fromkeys(str(of(cell)) for cell in cells))


def _set_of(cell: Cell) -> str:
    """The data set, whatever its size: that inside of ``reduced(...)``."""
    spec = str(cell.settings["data"])
    found = re.match(r"reduced\((\w+)", spec)
    name = found[1] if found else spec.partition("(")[0]
    return spec if name == "blobs" else name


def _side(cell: Cell) -> int:
    found = re.search(r"\bsize=\(?(\d+)", str(cell.settings["data"]))
    return int(found[1]) if found else _SETS.get(_set_of(cell), (0, 0))[1]


def _samples(cell: Cell) -> int:
    found = re.search(r"samples=(\d+)", str(cell.settings["data"]))
    whole = int(found[1]) if found else _SETS.get(_set_of(cell), (0, 0))[0]
    return int(cell.settings.get("samples") or whole)


def _steps(cell: Cell) -> int:
    settings = cell.settings
    per_epoch = ceil(_samples(cell) / int(settings.get("batch_size", 128)))
    return int(settings.get("iterations") or int(settings["epochs"]) * per_epoch)
