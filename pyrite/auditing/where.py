"""The columns of an audit's samples, and the slices of them in which labels are wrong far more often."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from time import perf_counter

import numpy as np

from pyrite.arrays import Flags, Floats, Ints
from pyrite.auditing.audit import Audit
from pyrite.auditing.column_models import ColumnModels
from pyrite.auditing.slices import LEVEL, Disagreement, find_slices
from pyrite.data import Column, Dataset, Records, named_files, shown
from pyrite.errors import PyriteError


def with_slices(
    audit: Audit,
    columns: Records,
    preferred: Ints,
    certainty: Floats,
    used: Flags,
    models: ColumnModels | None = None,
    *,
    own: bool = False,
    copies: Ints | None = None,
    deadline: float = math.inf,
) -> Audit:
    """The audit with its ``slices``.

    Args:
        audit: of all samples; columns and all others have the same rows.
        columns: in which wrong labels are looked for.
        preferred: the class that the model of the audit prefers.
        certainty: how certain it is, in any unit.
        used: which samples it did not learn.
        models: models that did not learn where labels are wrong, if the model of the audit may have seen the columns.
        own: whether it may as well not have seen them. Then its scores are searched first, and the models after them.
        copies: the same number for copies of a sample, which count once.
        deadline: when the search ends, by ``time.perf_counter``, whether it is finished or not.
    """
    if len(columns) != len(audit):
        raise PyriteError(f"metadata has {len(columns)} rows, but there are {len(audit)} labels")
    if copies is not None:
        rows = np.flatnonzero(used)
        used = np.isin(np.arange(len(used)), rows[np.unique(copies[rows], return_index=True)[1]])
    if models is not None:
        used = used & models.used
    if not audit.can_tell or used.sum() < 2:
        return audit
    found = Disagreement.of(preferred, certainty, audit.labels, len(audit.classes), used)
    searches: list[tuple[Disagreement, Callable[[tuple[str, ...]], Disagreement]]] = []
    if models is None or own:
        searches.append((found, lambda _: found))
    if models is not None:
        searches.append((found.difficulty(used), cache(models.disagreement)))
    for screen, evidence_of in searches:
        slices = find_slices(
            columns, screen, evidence_of, audit.wrong_probability, used,
            learned=None if models is None else models.unpredicted, level=LEVEL / len(searches),
            late=lambda: perf_counter() > deadline,
        )  # fmt: skip
        if slices:
            audit = replace(audit, slices=slices)
            break
    if perf_counter() > deadline:
        where = "RUN" if audit.run is None else audit.run.path
        note = f"the time was up before all groups of samples were searched for wrong labels: pyrite audit {where}"
        audit = replace(audit, warnings=(*audit.warnings, f"{note} searches the rest"))
    return audit


def columns_of(data: Dataset) -> Records | None:
    """The columns of a data set's samples: those of a table, or the folders that the samples are in."""
    if isinstance(data.inputs, Records):
        columns = [column for column in data.inputs.columns if column.kind != "text"]
    elif data.inputs.ndim == 2:
        values = np.asarray(data.inputs, np.float64)
        columns = [Column(name, "number", values[:, place]) for place, name in enumerate(data.columns)]
    else:
        columns = []
    columns = columns or _folders(data.paths, {*data.classes})
    return Records(columns) if columns else None


def _folders(paths: Sequence[str], classes: set[str]) -> list[Column]:
    """The folders of files by level, without those that are the classes."""
    parts = [path.replace("\\", "/").split("/")[:-1] for path in paths]
    depth = max(map(len, parts), default=0)
    levels = [[path[level] if level < len(path) else "" for path in parts] for level in range(depth)]
    kept = [(f"folder {number}", names) for number, names in enumerate(levels, 1) if not {*names} <= classes | {""}]
    return [Column(name, "category", np.array(names, object)) for name, names in kept]


def with_metadata(columns: Records | None, metadata: Records | None, data: Dataset) -> Records | None:
    """The columns of samples and further ones, which replace those of the same name. If samples are files, the first
    column of the further ones may name them."""
    if metadata is None:
        return columns
    key = metadata.columns[0]
    files = named_files([shown(key, row) for row in range(len(metadata))], data.paths, "metadata")
    row_of = {file: row for row, file in enumerate(files) if file}
    rows = [row_of.get(path, -1) for path in data.paths]
    # Numbers may be something else than names: those of all samples are.
    if rows and max(rows) >= 0 and (key.kind in ("category", "text") or min(rows) >= 0):
        if len(row_of) < len([*filter(None, files)]):
            raise PyriteError("metadata has two rows of one sample")
        if min(rows) < 0:
            raise PyriteError(f"metadata has no row of the sample {data.paths[rows.index(-1)]!r}")
        metadata = Records(metadata[rows].columns[1:])
    if len(metadata) != len(data):
        raise PyriteError(f"metadata has {len(metadata)} rows, but there are {len(data)} samples")
    own = () if columns is None else tuple(one for one in columns.columns if one.name not in metadata.names)
    return Records((*own, *metadata.columns))
