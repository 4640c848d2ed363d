"""``reproduce``: a table or figure of a paper, run at some scale, beside what was published and claimed."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, Literal, cast, final

import torch

from pyrite.checks import one_of, whole_number
from pyrite.comparing import mean_and_deviation, run_grid, write_results
from pyrite.curves import Curve
from pyrite.losses import loss as read_loss
from pyrite.papers.cells import Cell, CellFolder, CellResult, in_per_cent, train_cell
from pyrite.papers.claims import CLAIMS, Computed, Results, Verdict, evaluate
from pyrite.papers.exact import EXACT
from pyrite.papers.recipe import SCALES, Difference, PaperRecipe, ScaleName
from pyrite.text_tables import Table
from pyrite.training import COLUMNS, measure_pace


@final
@dataclass(frozen=True)
class Reproduction:
    """The result of a recipe at a scale: finished cells or computed values, the table and the verdicts on the claims.

    Attributes:
        name: the name of the recipe.
        scale: the scale, or ``"exact"`` for values that are computed without training.
        recipe: the recipe.
        results: the finished cells; None if nothing is trained.
        computed: the values that are computed without training.
        expected: the number of cells of the recipe.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = reproduce("imae_table7", out=folder)
    >>> result.scale, result.finished
    ('exact', True)
    """

    name: str
    scale: ScaleName | Literal["exact"]
    recipe: PaperRecipe
    results: Results | None = None
    computed: tuple[Computed, ...] = ()
    expected: int = 0

    @property
    def stem(self) -> str:
        """The name of the files, without suffix."""
        return f"{Path(self.name).name.removesuffix('.toml')}-{self.scale}"

    @property
    def command(self) -> str:
        """The command that repeats the recipe."""
        return f"pyrite reproduce {self.name}" + ("" if self.scale == "exact" else f" --scale {self.scale}")

    @property
    def finished(self) -> bool:
        """Whether all cells are finished."""
        return self.results is None or len(self.results.cells) == self.expected

    @cached_property
    def differences(self) -> list[Difference]:
        """The differences between this scale and the paper."""
        return [] if self.scale == "exact" else self.recipe.differences(self.scale)

    @property
    def setting(self) -> str:
        """The seeds, the differences between this scale and the paper, and those between the recipe and the printed
        settings.
        """
        differs = dict.fromkeys([*self.recipe.source.differs, *self.recipe.differs])
        choices = f"Differences from the print, and choices: {'; '.join(differs)}." if differs else ""
        if self.results is None or self.scale == "exact":
            return f"Computed without training. {choices}".strip()
        counts = {
            len(self.results.runs(dict(zip(self.results.axes, place, strict=True)))) for place, _ in self.results.cells
        }
        low, high = (min(counts), max(counts)) if counts else (0, 0)
        seeds = f"{high} seed{'s' if high != 1 else ''}" if low == high else f"{low} to {high} seeds per cell"
        note = self.recipe.scale(self.scale).note
        reduced = "; ".join(one.words for one in self.differences)
        parts = [f"{seeds}.", f"Reduced: {reduced}." if reduced else "Nothing is reduced.", f"{note}." if note else ""]
        return " ".join(part for part in (*parts, choices) if part)

    def claim_text(self, claim: str) -> str:
        """A claim with its source, in one line."""
        known = CLAIMS.get(claim)
        return self.recipe.shows if known is None else f"{known.text} ({known.source})"

    def verdicts(self) -> list[Verdict]:
        """The verdict on each claim of the recipe."""
        if self.results is None:
            return [computed.verdict for computed in self.computed]
        results, missing = self.results, [one.words for one in self.differences if one.is_far]
        claims = [(claimed, missing if claimed.id in CLAIMS else ()) for claimed in self.recipe.claims]
        found = (evaluate(claimed, results, self.scale, far) for claimed, far in claims)
        return [verdict for verdict in found if verdict is not None]

    def table(self) -> Table:
        """The table of measured values, mean ± standard deviation over seeds, with published values in brackets."""
        return self._table_of_computed() if self.results is None else self._arranged(self.results.axes, self._cell)

    def published(self) -> Table | None:
        """The published values under the labels of the paper, if no cell of this scale has the same labels."""
        if self.results is None or "paper" not in self.recipe.scales():
            return None
        cells = product(self.results.cells, self.recipe.columns)
        if any(self.recipe.published_number(place, column) for (place, _), column in cells):
            return None
        axes = self.recipe.axis_labels("paper")
        both = {axis: [label for label in labels if label in self.results.axes[axis]] for axis, labels in axes.items()}
        table = self._arranged({axis: both[axis] or labels for axis, labels in axes.items()}, self._published)
        names = sum(heading in self.results.axes for heading in table.headings)
        rows = tuple(row for row in table.rows if any(row[names:]))
        return table._replace(rows=rows) if rows else None

    def _arranged(self, axes: Mapping[str, Sequence[str]], cell: Callable[[dict[str, str], str], str]) -> Table:
        recipe = self.recipe
        last = [axis for axis in recipe.rows if axis in axes]
        down = [axis for axis in axes if axis not in (*last, recipe.across)] + last
        shown = [axis for axis in down if len(axes[axis]) > 1 or axis == down[-1]]
        wide = [{recipe.across: label} for label in axes[recipe.across]] if recipe.across else [{}]
        names = [""] if len(wide) > 1 and len(recipe.columns) == 1 else [heading(name) for name in recipe.columns]
        headings = [f"{''.join(label.values())} {name}".strip() for label in wide for name in names]
        rows = []
        for labels in product(*(axes[axis] for axis in down)):
            chosen = dict(zip(down, labels, strict=True))
            cells = [cell({**chosen, **label}, column) for label in wide for column in recipe.columns]
            rows.append((*(chosen[axis] for axis in shown), *cells))
        return Table((*shown, *headings), tuple(rows), code=-1)

    def _table_of_computed(self) -> Table:
        """What was computed; of curves that are only drawn, the largest weights."""
        wanted = self.recipe.figure
        if wanted is not None and wanted.kind == "curves" and not self.computed:
            peaks = [(spec, cast(Curve, read_loss(spec)).peak()) for spec in wanted.losses]
            rows = [(spec, f"{float(peak.weight):.4g}", f"{float(peak.margin):.3g}") for spec, peak in peaks]
            return Table(("loss", "largest weight", "at the margin"), tuple(rows))
        numbers = [(name, f"{value:.6g}") for one in self.computed for name, value in one.numbers.items()]
        return Table(("", "computed"), tuple(numbers), code=-1)

    def _cell(self, chosen: Mapping[str, str], column: str) -> str:
        assert self.results is not None
        values = self.results.values(chosen, column)
        published = self._published(chosen, column)
        percent = in_per_cent(column)
        ours = mean_and_deviation(values, lambda n: f"{100 * n:.1f}" if percent else f"{n:.3g}") if values else ""
        return f"{ours} ({published})" if published else ours

    def _published(self, chosen: Mapping[str, str], column: str) -> str:
        return self.recipe.published_number(set(chosen.values()), column)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, ready for JSON."""
        trained = {} if self.results is None else self.results.cells
        cells = []
        for (labels, seed), cell in trained.items():
            values = {column: cell.value(column) for column in self.recipe.columns}
            cells.append({"labels": list(labels), "seed": seed, "cell": cell.cell.key, **values})
        claims = []
        for verdict in self.verdicts():
            findings = [finding.to_dict() for finding in verdict.findings]
            told = {"status": verdict.status, "outcome": verdict.outcome, "missing": list(verdict.missing)}
            claims.append({"id": verdict.claim, **told, "findings": findings})
        return {"recipe": self.name, "scale": self.scale, "command": self.command, "cells": cells, "claims": claims}

    def to_markdown(self) -> str:
        """Title, reduction, table and verdicts."""
        recipe = self.recipe
        lines = [f"### {recipe.article}: {recipe.title}", "", recipe.shows, ""]
        lines += [f"`{self.command}`. {self.setting}", ""]
        table = self.table()
        lines += [table.to_markdown()] if table.rows else []
        for verdict in self.verdicts():
            lines += [f"- **{verdict.claim} {verdict.words}**: {self.claim_text(verdict.claim)}"]
            lines += [f"  - {verdict.note}"] if verdict.note else []
            lines += [f"  - {finding.sentence}" for finding in verdict.findings]
        return "\n".join(lines) + "\n"


def heading(column: str) -> str:
    """A column's name in tables and figures."""
    return COLUMNS[column].heading if column in COLUMNS else column


def read_reproduction(name: str, scale: ScaleName, cells: Path, seeds: int | None = None) -> Reproduction:
    """What is known of a recipe from finished cells, without training."""
    recipe = PaperRecipe.load(name)
    if recipe.is_exact:
        return Reproduction(name, "exact", recipe, computed=tuple(EXACT[claim]() for claim in recipe.compute))
    grid, finished = recipe.grid(scale, seeds), CellFolder(cells).results()
    results = {place: finished[cell.key] for place, cell in grid.items() if cell.key in finished}
    found = Results(recipe.axis_labels(scale), results, recipe.all_labels())
    return Reproduction(name, scale, recipe, found, expected=len(grid))


def reproduce(
    name: str,
    scale: ScaleName = "tiny",
    *,
    out: str | Path,
    cells: str | Path | None = None,
    workers: int = 1,
    seeds: int | None = None,
    estimate: Callable[[int, int, float], None] = lambda missing, expected, seconds: None,
    finished: Callable[[str, float, float], None] = lambda words, seconds, left: None,
) -> Reproduction:
    """Reproduce a table or figure of a paper and compare the values with the published ones.

    Finished cells are not trained again, even if they were trained for another recipe; interrupted cells are continued.

    Args:
        name: the name of the recipe; ``pyrite list recipes`` lists all recipes.
        scale: ``"tiny"``, ``"small"`` or ``"paper"``.
        out: the folder for the table, and for run directories during training.
        cells: the folder of finished cells, one file per recipe; ``cells`` in ``out`` by default.
        workers: the number of parallel runs.
        seeds: the number of seeds, starting at 0; by default that of the recipe.
        estimate: called before training with the number of missing cells, the number of all cells, and the estimated
            time for the missing cells in seconds.
        finished: called after each trained cell with its labels, its time in seconds, and the estimated remaining time
            in seconds.

    Returns:
        The values, and the verdicts on the claims of the paper.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(reproduce("imae_table7", out=folder).command)
    pyrite reproduce imae_table7
    """
    one_of("scale", scale, SCALES)
    whole_number("workers", workers, least=1)
    recipe, folder = PaperRecipe.load(name), Path(out)
    kept = CellFolder(folder / "cells" if cells is None else Path(cells))
    if not recipe.is_exact:
        grid, known = recipe.grid(scale, seeds), kept.results()
        # Each cell once, all labels of a seed before the next seed.
        ordered = [cell for _, cell in sorted(grid.items(), key=lambda item: item[0][1])]
        missing = list({cell.key: cell for cell in ordered if cell.key not in known}.values())
        estimate(len(missing), len(grid), _seconds(missing, known.values(), workers) if missing else 0.0)
        words = {cell.key: " ".join(labels) + f", seed {seed}" for (labels, seed), cell in grid.items()}
        train = partial(train_cell, recipe=recipe.cells or name, cells=kept, runs=folder / "runs")
        spent = []
        for cell, result in run_grid(missing, train, workers=workers):
            spent.append(float(result.facts["seconds"]))
            finished(words[cell.key], spent[-1], mean(spent) * (len(missing) - len(spent)) / workers)
    found = read_reproduction(name, scale, kept.path, seeds)
    write_results(folder, f"{found.stem}.md", found.to_markdown(), f"{found.stem}.json", found.to_dict())
    return found


def _seconds(missing: Sequence[Cell], known: Iterable[CellResult], workers: int) -> float:
    """How long the missing cells will take: from finished ones of their kind, or from the first steps of one."""
    finished = defaultdict[tuple[Any, ...], list[float]](list)
    for result in known:
        finished[_kind(result.cell)].append(float(result.facts["seconds"]))
    times, threads = {kind: mean(seconds) for kind, seconds in finished.items()}, torch.get_num_threads()
    try:
        if workers > 1:
            torch.set_num_threads(1)  # as the workers do
        for cell in missing:
            if _kind(cell) not in times:
                job = cell.job()
                times[_kind(cell)] = measure_pace(job).seconds(job.config.epochs)
    finally:
        torch.set_num_threads(threads)
    return sum(times[_kind(cell)] for cell in missing) / workers


def _kind(cell: Cell) -> tuple[Any, ...]:
    """Cells of one kind take about as long as each other: next to the net, a loss takes hardly any time."""
    cost = ("data", "model", "epochs", "iterations", "samples", "batch_size", "augment")
    return str(cell.settings["method"]).partition("(")[0], *map(cell.settings.get, cost)
