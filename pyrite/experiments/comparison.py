"""The same training with several losses or methods, side by side."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, final

from torch import nn

from pyrite.checks import whole_number
from pyrite.files import write
from pyrite.losses import LOSSES
from pyrite.methods import METHODS, Method, method as read_method
from pyrite.processes import join, rank
from pyrite.spec import build
from pyrite.training import COLUMNS, Recipe, Run, RunFailed, train_once

__all__ = ["Comparison", "Row", "compare"]


@final
@dataclass(frozen=True)
class Row:
    """One method with its runs, one a seed."""

    name: str
    runs: tuple[Run, ...]

    def values(self, column: str) -> list[float]:
        """A column's value in every run that knows it."""
        found = (run.table.get(column) for run in self.runs)
        return [value for value in found if value is not None]

    def spelled(self, column: str) -> str:
        """The mean over the seeds in per cent, with the standard deviation where there are several."""
        values = self.values(column)
        if not values:
            return "unknown"
        spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
        return f"{100 * mean(values):.2f}{spread}"


@final
@dataclass(frozen=True)
class Comparison:
    """Methods side by side, each trained alike."""

    path: Path
    rows: tuple[Row, ...]

    def columns(self) -> dict[str, str]:
        """The columns that any run knows, with headings; all labels together only where right ones are not known."""
        known = {name: words.short for name, words in COLUMNS.items() if any(row.values(name) for row in self.rows)}
        if "clean_accuracy" in known:
            del known["train_accuracy"]
        return known

    def to_markdown(self) -> str:
        """A table, in per cent."""
        columns = self.columns()
        lines = [f"| loss | {' | '.join(columns.values())} |", "|---" * (len(columns) + 1) + "|"]
        lines += [f"| `{row.name}` | {' | '.join(row.spelled(name) for name in columns)} |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Every run's table, for a program to read."""
        rows = [
            {"method": row.name, "seed": run.recipe.seed, "run": str(run.path), **run.table}
            | {"warnings": run.facts["warnings"]}
            for row in self.rows
            for run in row.runs
        ]
        return {"path": str(self.path), "rows": rows}


def compare(
    data: str | Path,
    methods: Sequence[str],
    *,
    out: str | Path,
    seeds: int = 1,
    begin: Callable[[str, int], None] = lambda name, seed: None,
    **options: Any,
) -> Comparison:
    """Train with each of several losses or methods, on the same data, noise and seeds, and put them side by side.

    What is in ``out`` already is not trained again: finished runs are read, others are gone on with. A run there that
    was made with other options is an error, not a result.

    Args:
        data: as for ``train``.
        methods: losses, or methods.
        out: the folder that gets a folder for each run, ``table.md`` and ``comparison.json``.
        seeds: how many seeds; they begin with ``seed``, 0 if it is not given.
        begin: told of each run before it is trained.
        options: those of ``train``.
    """
    if not methods:
        raise ValueError("methods is empty: name at least one loss or method")
    seeds = whole_number("seeds", seeds, least=1)
    if isinstance(options.get("model"), nn.Module):
        raise ValueError("model is a net, which every run would go on training: pass a spec, or what makes one")
    said = Recipe.read(Path(options["config"])) if options.get("config") is not None else {}
    said |= {name: options.pop(name) for name in ("seed",) if options.get(name) is not None}
    first = said.get("seed", 0)
    folder = Path(out)
    named = {str(one): _method(one) for one in methods}
    slugs = _slugs(named)
    rows = []
    join(str(options.get("device") or said.get("device", "cpu")))
    for name, chosen in named.items():
        runs = []
        for seed in range(first, first + seeds):
            begin(name, seed)
            path = folder / f"{slugs[name]}-{seed}"
            runs.append(train_once(data, out=path, **{**options, "method": chosen, "seed": seed}))
        rows.append(Row(name, tuple(runs)))
    found = Comparison(folder, tuple(rows))
    if rank() == 0:
        try:
            write(folder / "table.md", found.to_markdown().encode())
            write(folder / "comparison.json", (json.dumps(found.to_dict(), indent=2) + "\n").encode())
        except OSError as error:
            raise RunFailed(f"cannot write to {folder}: {error.strerror or error}; the runs there are whole") from None
    return found


def _method(spec: str) -> str:
    """The method that a spec means, which may be a bare loss."""
    built = build(spec, METHODS | LOSSES, "method")
    return str(read_method(built if isinstance(built, Method) else f"erm({spec})"))


def _slugs(names: Iterable[str]) -> dict[str, str]:
    """Names that every file system takes, each another.

    >>> _slugs(["smooth(ce, rate=0.5)", "smooth(ce, rate=-0.5)"]).values()
    dict_values(['smooth-ce-rate-0.5', 'smooth-ce-rate-0.5-2'])
    """
    taken: dict[str, str] = {}
    for name in names:
        slug = re.sub(r"[^a-z0-9.+]+", "-", name.lower()).strip("-")
        same = sum(re.fullmatch(re.escape(slug) + r"(-\d+)?", other) is not None for other in taken.values())
        taken[name] = f"{slug}-{same + 1}" if same else slug
    return taken
