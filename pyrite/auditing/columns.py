"""What the columns of samples show of wrong labels: slices with far more of them, and columns that give labels away.

Models of the labels by the columns stand beside the net of an audit, which may have learned where labels are wrong.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.stats.contingency import association

from pyrite.arrays import Flags, Floats, Ints, coded
from pyrite.auditing.audit import Audit
from pyrite.auditing.parts import Parts, parts_of
from pyrite.auditing.slices import LEVEL, Disagreement, Leak, find_slices
from pyrite.data import Column, Dataset, Records, named_files, shown
from pyrite.errors import PyriteError

_FOLDS: Final = 3
_INNER: Final = 5  # folds, and trees, of the model of a set of samples
_FOREST: Final = 50
_MOST: Final = 20_000  # samples that are used
_CELLS: Final = 2_000_000  # of all columns
_TREES: Final = 40  # of two classes; with more there are fewer for each
_ALL_TREES: Final = 200
_RELATED: Final = 0.4
_FEWEST: Final = 20  # samples of a part
_CATEGORIES: Final = 200  # with a number of their own
_LARGEST: Final = 1e38  # forests have numbers of four bytes
_NAMING: Final = 5  # samples of a value that names a label, at least
_PURE: Final = 0.98  # the fraction of a value's other samples that have one label, from which on it names the label
_NAMED: Final = 0.05  # of all samples, at least, have such a value
_EXCLUDED: Final = 0.1  # the highest probability of a label that the other columns contradict
_FOLLOWED: Final = 0.9
_CONTRADICTED: Final = 20  # samples, at least
_SHARE: Final = 0.01  # and of all samples


class ColumnModels:
    """Cross-fitted models of the labels by the columns of a table; ``groups`` are samples that share a fold. Of many
    samples or columns, some samples are ``used``.

    A net that sees the column of a slice learns that labels there are wrong, and agrees with them. These models may
    learn that a class is more frequent there, but not that the other columns mean something else.
    """

    def __init__(self, columns: Records, labels: Ints, classes: int, groups: Ints | None = None, seed: int = 0) -> None:
        self.labels, self.classes, self.seed = labels, classes, seed
        self.columns = [column for column in columns.columns if column.kind != "text"]
        self.names = [column.name for column in self.columns]
        self.used = np.ones(len(labels), bool)
        most = min(_MOST, _CELLS // max(1, len(self.names)))
        if len(labels) > most:
            self.used[np.random.default_rng(seed).permutation(len(labels))[most:]] = False
        self.groups = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]

    def _folds(self, count: int) -> Ints:
        order = np.random.default_rng(self.seed).permutation(self.groups.max() + 1)
        return np.asarray(order[self.groups] % count)

    @cached_property
    def _parts(self) -> dict[str, Parts | None]:
        return {column.name: parts_of(column, _FEWEST) for column in self.columns}

    @cached_property
    def _chances(self) -> Floats:
        return self.probabilities()

    @cached_property
    def _inputs(self) -> Floats:
        return np.stack([_numbers(column) for column in self.columns], 1)

    def disagreement(self, apart: tuple[str, ...]) -> Disagreement:
        """With the labels, by models in which these columns, and all that tell much about them, interact with none."""
        related = [name for name in self.names if any(self._association(name, one) > _RELATED for one in apart)]
        chances = self.probabilities(apart=(*apart, *related))
        two = np.partition(chances, -2, axis=1)[:, -2:]
        return Disagreement.of(chances.argmax(1), two[:, 1] - two[:, 0], self.labels, self.classes, self.used)

    def unpredicted(self, member: Flags) -> Floats:
        """1 for each of these samples whose label a forest of the others among them does not predict, 0 for others."""
        from sklearn.ensemble import RandomForestClassifier

        labels, folds = self.labels[member], self._folds(_INNER)[member]
        inputs, wrong = np.hstack([self._inputs[member], self._chances[member]]), np.ones(len(labels))
        inputs = np.clip(inputs, -_LARGEST, _LARGEST)
        for fold in np.unique(folds) if len(np.unique(folds)) > 1 else ():
            test = folds == fold
            forest = RandomForestClassifier(_FOREST, min_samples_leaf=3, max_features=0.5, random_state=self.seed)
            wrong[test] = forest.fit(inputs[~test], labels[~test]).predict(inputs[test]) != labels[test]
        return wrong

    def _association(self, one: str, two: str) -> float:
        """Cramér's V of the parts of two columns: 0 if they are independent, 1 if one determines the other."""
        first, second = self._parts[one], self._parts[two]
        if first is None or second is None:
            return 0.0
        both = (first.codes >= 0) & (second.codes >= 0)
        counts = np.zeros((len(first), len(second)))
        np.add.at(counts, (first.codes[both], second.codes[both]), 1)
        counts = counts[counts.any(1)][:, counts.any(0)]
        return float(association(counts.astype(np.int64))) if min(counts.shape) > 1 else 0.0

    def probabilities(self, *, apart: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> Floats:
        """Of the classes, of every sample by a model that did not learn its label."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        kept = [place for place, name in enumerate(self.names) if name not in without]
        inputs, names = self._inputs[:, kept], [self.names[place] for place in kept]
        alone = [{place} for place, name in enumerate(names) if name in apart]
        rest = {place for place, name in enumerate(names) if name not in apart}
        found = np.zeros((len(inputs), self.classes))
        trees = max(10, min(_TREES, _ALL_TREES // (self.classes if self.classes > 2 else 1)))
        folds = self._folds(_FOLDS)
        for fold in range(_FOLDS):
            train, test = self.used & (folds != fold), self.used & (folds == fold)
            if not test.any() or len(np.unique(self.labels[train])) < 2:
                continue
            model = HistGradientBoostingClassifier(
                max_iter=trees, learning_rate=0.2, max_leaf_nodes=15, early_stopping=False, random_state=self.seed,
                categorical_features=[self.columns[place].kind == "category" for place in kept],
                interaction_cst=[*alone, *([rest] if rest else [])] if apart else None,
            )  # fmt: skip
            model.fit(inputs[train], self.labels[train])
            found[np.ix_(test, model.classes_)] = model.predict_proba(inputs[test])
        return found


def _numbers(column: Column) -> npt.NDArray[Any]:
    if column.kind != "category":
        return column.numbers
    names, codes = coded(column.values)
    order = np.argsort(-np.bincount(codes), kind="stable")
    rank = np.empty(len(names))
    rank[order] = np.arange(len(names))
    return np.where(column.missing, np.nan, np.minimum(rank, _CATEGORIES)[codes])


def find_leaks(models: ColumnModels) -> tuple[Leak, ...]:
    """Columns that give the label away, those that contradict the others most often first."""
    found, rows, count = [], np.arange(len(models.labels)), int(models.used.sum())
    for column in models.columns:
        parts = parts_of(column, _NAMING)
        if parts is None or len(models.names) < 2:
            continue
        label, pure = _named_labels(parts, models.labels, models.classes)
        pure &= models.used
        if pure.sum() < _NAMED * count:
            continue
        chance = models.probabilities(without=(column.name,))[rows, label]
        against = pure & (chance <= _EXCLUDED)
        followed = int((models.labels[against] == label[against]).sum())
        if against.sum() >= max(_CONTRADICTED, _SHARE * count) and followed >= _FOLLOWED * against.sum():
            found.append(Leak(column.name, int(against.sum()), followed))
    return tuple(sorted(found, key=lambda leak: -leak.contradicted))


def _named_labels(parts: Parts, labels: Ints, classes: int) -> tuple[Ints, Flags]:
    """The most frequent label among the other samples with the same value, and whether nearly all have it."""
    known = parts.codes >= 0
    codes = np.where(known, parts.codes, 0)
    counts = np.zeros((len(parts), classes))
    np.add.at(counts, (codes[known], labels[known]), 1)
    others = counts[codes]
    others[np.arange(len(labels)), labels] -= 1
    size = others.sum(1)
    return others.argmax(1), known & (others.max(1) >= _PURE * size) & (size >= _NAMING - 1)


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
