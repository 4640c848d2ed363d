"""Claims as checks: differences of cells paired by seed, with a confidence interval, and what follows from it."""

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from math import isnan, nan
from typing import Any, Final, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr, t

from pyrite.arrays import Floats
from pyrite.errors import PyriteError
from pyrite.papers.cells import CellResult
from pyrite.papers.recipe import Check, Claimed, Labels

Outcome = Literal["holds", "does not hold", "undecided", "not run"]
Status = Outcome | Literal["not tested in the paper's conditions"]
_CONFIDENCE = 0.95


class Claim(NamedTuple):
    """A statement of a paper: its identifier, the statement in a line, and the table or figure it comes from."""

    id: str
    text: str
    source: str


class Finding(NamedTuple):
    """What was compared, what follows, and the mean over the seeds (nan if nothing was run) with its confidence
    interval (nan with one seed)."""

    words: str
    status: Outcome
    mean: float = nan
    low: float = nan
    high: float = nan
    seeds: int = 0

    @property
    def sentence(self) -> str:
        """The finding in one line."""
        if isnan(self.mean):
            return f"{self.words}: {self.status}"
        interval = "" if isnan(self.low) else f" [{self.low:.3g}, {self.high:.3g}]"
        seeds = f", {self.seeds} seed{'s' if self.seeds > 1 else ''}" if self.seeds else ""
        return f"{self.words}: {self.mean:.3g}{interval}{seeds}: {self.status}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no nan."""
        floats = ((name, value) for name, value in self._asdict().items() if isinstance(value, float))
        return self._asdict() | {name: None if isnan(value) else float(f"{value:.4g}") for name, value in floats}


@final
@dataclass(frozen=True)
class Verdict:
    """What was found for a claim at one scale, and which of the paper's conditions that scale does not have."""

    claim: str
    findings: tuple[Finding, ...]
    note: str = ""
    missing: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """That at this scale, the worst of its findings: the claim holds if all checks hold, and does not if one does
        not. Something missing counts before something undecided."""
        found = {finding.status for finding in self.findings}
        order: tuple[Outcome, ...] = ("does not hold", "not run", "undecided", "holds")
        return next((status for status in order if status in found), "not run")

    @property
    def status(self) -> Status:
        """That of the claim, which a scale far from the paper's conditions does not decide."""
        return "not tested in the paper's conditions" if self.missing and self.outcome != "not run" else self.outcome

    @property
    def words(self) -> str:
        """The status; far from the paper's conditions also how many statements hold at this scale."""
        if self.status == self.outcome:
            return self.status
        held = sum(finding.status == "holds" for finding in self.findings)
        return f"{self.status}; {held} of {len(self.findings)} statements hold here"


@final
@dataclass(frozen=True)
class Computed:
    """What came out of the computation of a claim: whether its statements hold as they are printed, the numbers behind
    them, and whether corrected statements hold, where a printed one does not."""

    claim: str
    statements: Mapping[str, bool]
    numbers: Mapping[str, float]
    corrections: Mapping[str, bool] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether all of the claim holds as it is printed."""
        return all(self.statements.values())

    @property
    def verdict(self) -> Verdict:
        """What follows; what holds once it is corrected is in the note."""
        findings = [Finding(words, "holds" if true else "does not hold") for words, true in self.statements.items()]
        corrected = "; ".join(words for words, true in self.corrections.items() if true)
        words = "corrected, it holds further" if self.holds else "corrected, it holds"
        return Verdict(self.claim, tuple(findings), f"{words}: {corrected}" if corrected else "")


@final
class Results:
    """The finished cells of a recipe's grid at one scale, and the labels that the recipe has at other scales."""

    def __init__(
        self,
        axes: Mapping[str, Sequence[str]],
        cells: Mapping[tuple[Labels, int], CellResult],
        elsewhere: Collection[str] = (),
    ) -> None:
        self.axes, self.cells, self.elsewhere = axes, cells, elsewhere
        self.seeds = sorted({seed for _, seed in cells})

    def runs(self, chosen: Mapping[str, str]) -> list[CellResult]:
        """The finished runs of a cell, in the order of their seeds."""
        place = tuple(chosen[axis] for axis in self.axes)
        return [self.cells[place, seed] for seed in self.seeds if (place, seed) in self.cells]

    def by_seed(self, chosen: Mapping[str, str], column: str) -> Floats:
        """A number of a cell, one per seed; nan if it is not finished or does not have it."""
        if column.startswith("-"):
            return -self.by_seed(chosen, column[1:])
        if column == "diff" and "noise" in self.axes:  # what noise costs: its axis begins with none
            clean = {**chosen, "noise": self.axes["noise"][0]}
            return self.by_seed(clean, "final_test_accuracy") - self.by_seed(chosen, "final_test_accuracy")
        place = tuple(chosen[axis] for axis in self.axes)
        cells = [self.cells.get((place, seed)) for seed in self.seeds]
        return np.array([None if cell is None else cell.value(column) for cell in cells], np.float64)

    def values(self, chosen: Mapping[str, str], column: str) -> list[float]:
        """The number in every seed that has it."""
        return [float(value) for value in self.by_seed(chosen, column) if not isnan(value)]

    def choices(self, *selectors: str) -> Iterator[tuple[dict[str, str], ...]]:
        """The labels that selectors stand for, once for every combination of labels that none of them names."""
        chosen = [self._selected(selector) if selector else {} for selector in selectors]
        named = {axis: label for one in chosen for axis, label in one.items()}
        free = [axis for axis in self.axes if axis not in named]
        # A label that only another selector names holds for this one too: "CCE, 40 %" beside "IMAE".
        borrowed = [{axis: label for axis, label in named.items() if axis not in one} for one in chosen]
        for labels in product(*(self.axes[axis] for axis in free)):
            rest = dict(zip(free, labels, strict=True))
            yield tuple({**rest, **more, **one} for more, one in zip(borrowed, chosen, strict=True))

    def _selected(self, selector: str) -> dict[str, str]:
        """The labels that a selector names, by axis."""
        chosen = {}
        for label in (part.strip() for part in selector.split(",")):
            found = [axis for axis, labels in self.axes.items() if label in labels]
            if len(found) != 1:
                known = ", ".join(label for labels in self.axes.values() for label in labels)
                raise PyriteError(f"{label!r} in {selector!r} is not the label of one axis: there are {known}")
            chosen[found[0]] = label
        return chosen


def evaluate(claimed: Claimed, results: Results, scale: str, missing: Sequence[str] = ()) -> Verdict | None:
    """The verdict on a claim at a scale; None if none of its checks is meant for that scale."""
    checks = [check for check in claimed.checks if not check.scales or scale in check.scales]
    found = tuple(finding for check in checks for one in _each(check) for finding in _findings(one, results))
    return Verdict(claimed.id, found, claimed.note, tuple(missing)) if checks else None


def _each(check: Check) -> Iterator[Check]:
    """The check once for every choice among labels with a bar between them."""
    texts = [check.more, check.less, *check.beyond]
    parts = [[[one.strip() for one in label.split("|")] for label in text.split(",")] for text in texts]
    for more, less, *beyond in product(*([", ".join(one) for one in product(*labels)] for labels in parts)):
        yield check.model_copy(update={"more": more, "less": less, "beyond": beyond})


def _findings(check: Check, results: Results) -> list[Finding]:
    named = [label.strip() for text in (check.more, check.less, *check.beyond) for label in text.split(",")]
    here = {label for labels in results.axes.values() for label in labels}
    absent = [label for label in named if label not in here and label in results.elsewhere]
    if absent:
        return [Finding(f"{check.column}: {check.more} and {check.less}; {absent[0]} is not in this scale", "not run")]
    if check.correlation:
        return [_correlation(check, results)]
    if check.best:
        first = results.axes[check.best][0]
        return [
            _trend(check, results, *two)
            for two in results.choices(check.more, check.less)
            if two[0][check.best] == first
        ]
    selectors = [check.more or check.less] if check.than is not None else [check.more, check.less]
    return [_difference(check, results, *choice) for choice in results.choices(*selectors, *check.beyond)]


def _difference(check: Check, results: Results, *choice: dict[str, str]) -> Finding:
    names = [" ".join(one.values()) for one in choice]
    numbers = [results.by_seed(one, check.column) for one in choice]
    if check.than is not None:
        side = "above" if check.more else "below"
        words = f"{check.column} of {names[0]} {side} {check.than:g}"
        return _judged(words, numbers[0], **{side: check.than})
    gaps = numbers[0] - numbers[1] - (numbers[2] - numbers[3] if check.beyond else 0)
    words = f"{check.column} of {names[0]} minus {names[1]}"
    words += f", beyond {names[2]} minus {names[3]}" if check.beyond else ""
    if check.within is not None:
        return _judged(f"{words}, within ±{check.within:g}", gaps, above=-check.within, below=check.within)
    return _judged(f"{words}, above {check.by:g}", gaps, above=check.by)


def _correlation(check: Check, results: Results) -> Finding:
    first, second = check.correlation
    found, known = [], np.empty((0, 2))
    chosen = [one for (one,) in results.choices(check.more)]
    for points in np.transpose([[results.by_seed(one, name) for one in chosen] for name in check.correlation]):
        known = points[~np.isnan(points).any(1)]
        varied = len(known) > 3 and np.ptp(known, 0).all()
        found.append(float(spearmanr(known).statistic) if varied else nan)
    where = f" with {check.more}" if check.more else ""
    words = f"rank correlation of {first} and {second} over {len(known)} cells{where}, above {check.by:g}"
    judged = _judged(words, found, above=check.by)
    # Student's interval does not take into account that a correlation is at most 1; nan, of one seed, stays.
    return judged._replace(low=float(np.clip(judged.low, -1, 1)), high=float(np.clip(judged.high, -1, 1)))


def _trend(check: Check, results: Results, more: dict[str, str], less: dict[str, str]) -> Finding:
    """How many places further up the best label of an axis is for one choice of the others than for another."""
    best = []
    for one in (more, less):
        table = np.array(
            [results.by_seed({**one, check.best: label}, check.column) for label in results.axes[check.best]]
        )
        best.append(np.where(np.isnan(table).any(0), nan, table.argmax(0)))
    names = [" ".join(label for axis, label in one.items() if axis != check.best) for one in (more, less)]
    words = f"places that the best {check.best} of {names[0]} is above that of {names[1]}, above {check.by:g}"
    return _judged(words, best[0] - best[1], above=check.by)


def _judged(words: str, by_seed: npt.ArrayLike, above: float | None = None, below: float | None = None) -> Finding:
    """What follows for a mean that must lie above and below these: it does if its Student's interval does."""
    values = np.asarray(by_seed)
    values = values[~np.isnan(values)]
    if not len(values):
        return Finding(words, "not run")
    mean, low, high = float(values.mean()), nan, nan
    if len(values) > 1:
        half = float(t.ppf((1 + _CONFIDENCE) / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
        low, high = mean - half, mean + half
    fits = (above is None or low > above) and (below is None or high < below)
    fails = (above is not None and high < above) or (below is not None and low > below)
    status: Outcome = "holds" if fits else "does not hold" if fails else "undecided"
    return Finding(words, status, mean, low, high, len(values))


CLAIMS: Final[Mapping[str, Claim]] = {
    name: Claim(name, *one)
    for name, one in tomllib.loads(files("pyrite.papers").joinpath("claims.toml").read_text(encoding="utf-8")).items()
}
"""Every claim of the papers by its identifier."""
