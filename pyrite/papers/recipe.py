"""The recipe of a table or figure of a paper: its runs at each scale, what was published and what is claimed."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import product
from math import ceil
from pathlib import Path
from string import Template
from typing import Any, Final, Literal, NamedTuple, Self, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pyrite.checks import whole_number
from pyrite.errors import PyriteError
from pyrite.papers.cells import Cell
from pyrite.spec import nearest

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


Value = str | int | float | bool
Labels = tuple[str, ...]
"""The place of a cell in a recipe's grid: one label per axis."""
ScaleName = Literal["tiny", "small", "paper"]
SCALES: Final[tuple[ScaleName, ...]] = ("tiny", "small", "paper")

RECIPES: Final[Mapping[str, str]] = {
    path.name.removesuffix(".toml"): path.name
    for path in sorted(files("pyrite.papers").joinpath("recipes").iterdir(), key=lambda path: path.name)
    if path.name.endswith(".toml")
}
"""The file of every recipe in ``pyrite/papers/recipes``, by name."""


class Checked(BaseModel):
    """Values that are checked, and not converted, when an object is made."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


@final
class Scale(Checked):
    """A size of the experiment: settings that replace the recipe's, of each axis that differs the labels that are kept,
    with settings that replace the recipe's, and why, where that is not the time that it takes."""

    note: str = ""
    settings: dict[str, Value] = {}
    axes: dict[str, dict[str, dict[str, Value]]] = {}
    seeds: int = Field(default=3, ge=1)


@final
class Published(Checked):
    """Numbers of a paper, fractions in per cent: labels that hold for all, those across, and a list per row."""

    column: str = "final_test_accuracy"
    where: str = ""
    across: list[str]
    rows: dict[str, list[float | Literal["-"]]]


@final
class Check(Checked):
    """One statement about cells: a difference between two of them, paired by seed, or a trend over many.

    Selectors such as ``"CCE, 40 % | 80 %"`` name labels of axes. An axis that none names is gone through, as are labels
    with a bar between them: the statement must hold for each. It is that ``more`` minus ``less`` is above ``by`` or
    between ±``within``, that one of them is above or below ``than``, that it is above the difference of the two in
    ``beyond``, that two columns have a rank ``correlation`` above ``by``, or that the best label of the axis ``best``
    is further up for ``more`` than for ``less``.
    """

    column: str = "final_test_accuracy"
    more: str = ""
    less: str = ""
    by: float = 0.0
    than: float | None = None
    within: float | None = None
    beyond: list[str] = Field([], max_length=2)
    correlation: list[str] = Field([], max_length=2)
    best: str = ""
    scales: list[ScaleName] = []


@final
class Claimed(Checked):
    """A claim of docs/results/claims.json, and what must hold for it."""

    id: str
    checks: list[Check]
    note: str = ""


@final
class Figure(Checked):
    """What is drawn of runs: ``history`` (columns over the epochs), ``margins`` (histograms) or ``bars``, one panel per
    label of the axis ``panels``; or of ``losses``: ``curves`` (weights), ``panels`` (those in three groups), ``areas``
    (under -dL/dp), ``pipeline`` (gradients); ``contrasts`` (IMAE of each); of noises ``matrices`` or ``samples``; of
    nets ``starts`` (margins); of numbers of classes ``bounds`` (of asymmetry)."""

    kind: Literal[
        "history", "margins", "bars", "curves", "panels", "areas", "pipeline", "contrasts", "matrices", "samples",
        "starts", "bounds",
    ]  # fmt: skip
    columns: list[str] = []
    panels: str = ""
    losses: list[str] = []
    classes: int = 10


@final
class PaperRecipe(Checked):
    """One table or figure: its text, what is computed or trained for it, its table, figure and claims.

    ``axes`` has what is varied: for each axis, its labels and the settings that each stands for. ``cells`` is the
    recipe whose grid is used, if it is not its own, and ``keep`` are the labels of it that are used. ``differs`` has
    what is not as it is printed, at the paper's scale too, beside that of the recipe whose grid is used.
    """

    title: str
    article: Literal["IMAE", "IMAE rebuttal", "curriculum", "gold samples", "own"]
    shows: str
    differs: list[str] = []
    compute: list[str] = []
    cells: str = ""
    keep: dict[str, list[str]] = {}
    settings: dict[str, Value] = {}
    axes: dict[str, dict[str, dict[str, Value]]] = {}
    rows: list[str] = []
    across: str = ""
    columns: list[str] = ["final_test_accuracy"]
    published: list[Published] = []
    claims: list[Claimed] = []
    figure: Figure | None = None
    tiny: Scale | None = None
    small: Scale | None = None
    paper: Scale | None = None

    @classmethod
    @cache
    def load(cls, name: str) -> Self:
        """The recipe of this name, or that in a file of your own, whose name ends in ``.toml``."""
        if name not in RECIPES and not name.endswith(".toml"):
            near = nearest(name, RECIPES)
            # Where no name is near, all are listed, which would be a page here.
            advice = near if near.startswith("did you mean") else "see 'pyrite list recipes'"
            raise PyriteError(f"there is no recipe {name!r}: {advice}")
        path = files("pyrite.papers").joinpath("recipes", RECIPES[name]) if name in RECIPES else Path(name)
        try:
            return cls.parse(path.read_text(encoding="utf-8"), name)
        except OSError as error:
            raise PyriteError(f"cannot read {name}: {error.strerror or error}") from None

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """A recipe from TOML; the first thing that is wrong raises ``PyriteError``."""
        try:
            return cls(**tomllib.loads(text))
        except ValidationError as error:
            first = error.errors()[0]
            value = "missing" if first["type"] == "missing" else repr(first["input"])
            where = ".".join(map(str, first["loc"]))
            raise PyriteError(f"recipe {name}: {where} is {value}: {first['msg'].lower()}") from None
        except tomllib.TOMLDecodeError as error:
            raise PyriteError(f"recipe {name}: {error}") from None

    @property
    def is_exact(self) -> bool:
        """Whether nothing is trained for it."""
        return not self.cells and not self.axes

    @property
    def source(self) -> "PaperRecipe":
        """The recipe that has the grid."""
        return PaperRecipe.load(self.cells).source if self.cells else self

    def scales(self) -> dict[ScaleName, Scale]:
        """The scales that it has, by their names; none if nothing is trained."""
        found: dict[ScaleName, Scale | None] = {name: getattr(self.source, name) for name in SCALES}
        return {name: scale for name, scale in found.items() if scale is not None}

    def scale(self, name: ScaleName) -> Scale:
        """The scale of this name."""
        has = self.scales()
        if name not in has:
            raise PyriteError(f"{self.article}, {self.title} has no scale {name!r}: choose {' or '.join(has)}")
        return has[name]

    def axis_labels(self, name: ScaleName) -> dict[str, list[str]]:
        """The labels of every axis at a scale."""
        chosen = self.scale(name).axes
        labels = {axis: list(chosen.get(axis, values)) for axis, values in self.source.axes.items()}
        return {axis: [one for one in values if one in self.keep.get(axis, values)] for axis, values in labels.items()}

    def all_labels(self) -> set[str]:
        """The labels of all axes at all scales."""
        every = (self.source.axes, *(scale.axes for scale in self.scales().values()))
        return {label for axes in every for labels in axes.values() for label in labels}

    def grid(self, name: ScaleName, seeds: int | None = None) -> dict[tuple[Labels, int], Cell]:
        """The cells at a scale, by their labels and their seed; of the first ``seeds`` alone if that is given."""
        scale, source = self.scale(name), self.source
        most = scale.seeds if seeds is None else min(scale.seeds, whole_number("seeds", seeds, least=1))
        cells: dict[tuple[Labels, int], Cell] = {}
        for labels in product(*self.axis_labels(name).values()):
            values = _replaced(source.settings, scale.settings)
            for axis, label in zip(source.axes, labels, strict=True):
                for axes in (source.axes, scale.axes):
                    values = _replaced(values, axes.get(axis, {}).get(label, {}))
            cell = Cell.make(_filled(values))
            cells |= {(labels, seed): cell.with_seed(seed) for seed in range(most)}
        return cells

    def differences(self, name: ScaleName) -> list[Difference]:
        """How a scale differs from the paper's: its settings, and labels that are left out."""
        if name == "paper" or "paper" not in self.scales() or self.source.article == "own":
            return []
        ours, papers = (self.grid(scale, 1).values() for scale in (name, "paper"))
        kept, every = self.axis_labels(name), self.axis_labels("paper")
        fewer = [f"{', '.join(kept[axis])} alone" for axis in kept if set(kept[axis]) < set(every[axis])]
        return differences(ours, papers) + [Difference(words, False) for words in fewer]

    def published_number(self, labels: Collection[str], column: str) -> str:
        """The number that the paper has for a cell with these labels; empty if it has none."""
        for block in self.published:
            where = [part.strip() for part in block.where.split(",")]
            for row, numbers in block.rows.items() if block.column == column else ():
                for label, number in zip(block.across, numbers, strict=True):
                    if number != "-" and {part for part in (row, label, *where) if part} <= set(labels):
                        return str(number)
        return ""


def _replaced(settings: Mapping[str, Value], others: Mapping[str, Value]) -> dict[str, Value]:
    """The settings with others in their place; a length in epochs and one in iterations replace each other."""
    lengths = {"epochs", "iterations"}
    dropped = lengths if lengths & set(others) else set()
    return {**{name: value for name, value in settings.items() if name not in dropped}, **others}


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with ``$name`` replaced by the value of that name; such names are no settings themselves."""
    variables = {name[1:]: value for name, value in values.items() if name.startswith("$")}
    settings = {name: value for name, value in values.items() if not name.startswith("$")}
    try:
        return {n: Template(v).substitute(variables) if isinstance(v, str) else v for n, v in settings.items()}
    except KeyError as error:
        raise PyriteError(f"nothing sets ${error.args[0]}") from None
