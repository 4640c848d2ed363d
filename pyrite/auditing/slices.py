"""Where labels are wrong: values of columns, and pairs of values, in which labels are wrong far more often."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.stats import binom

from pyrite.arrays import Flags, Floats, Ints
from pyrite.auditing.parts import Parts, parts_of
from pyrite.data import Records

LEVEL: Final = 0.05  # the probability of naming anything where nothing differs
_FEWEST: Final = 20  # samples of a slice
_MOST: Final = 5  # slices that are named
_LARGEST: Final = 0.35  # of all samples
_EXCESS: Final = (0.1, 0.3)  # more wrong labels than elsewhere, at least, of a column and of a pair of columns:
# models that keep two columns apart do not see that classes overlap where both have certain values
_TIMES: Final = 3.0  # as many wrong labels as elsewhere, at least
_PAIRED: Final = 40  # columns of which pairs are looked at
_SIMPLER: Final = 10.0  # by how much the log-probability of a pair must be lower than that of a column
_NARROWER: Final = 0.8  # of the samples of either part are in a pair, at most
_SCREEN: Final = float(np.log(1e-3))
_FITTED: Final = 200  # samples of a preferred class that have a curve of their own
_TRIED: Final = 5  # pairs of columns for which models are fitted


class Slice(NamedTuple):
    """Samples among which labels are wrong far more often.

    ``conditions`` describe them, such as ``("region = Online",)``; there are two if two columns matter. ``labels`` is
    their number, ``rate`` the fraction that is wrong, with an interval of 95 %, ``elsewhere`` that of the samples in no
    slice, and ``rows`` are those of the audit.
    """

    conditions: tuple[str, ...]
    labels: int
    rate: float
    interval: tuple[float, float]
    elsewhere: float
    rows: Ints

    @property
    def name(self) -> str:
        return " and ".join(self.conditions)

    @property
    def sentence(self) -> str:
        rates = f"{100 * self.rate:.0f} % of {self.labels:,} labels, elsewhere {100 * self.elsewhere:.0f} %"
        return f"{self.name} ({rates})"

    def summary(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        values = self._asdict() | {"name": self.name, "conditions": list(self.conditions)}
        return {name: value for name, value in values.items() if name != "rows"} | {"interval": list(self.interval)}


class Leak(NamedTuple):
    """A column that gives the label away: of so many samples whose label all other columns ``contradict``, it has a
    value that names ``followed`` of the labels."""

    column: str
    contradicted: int
    followed: int

    @property
    def sentence(self) -> str:
        return (
            f"the column {self.column!r} is likely a leak of the label: its values name {self.followed:,} of "
            f"{self.contradicted:,} labels that all other columns contradict; if it is made from the label, leave "
            f"it out with --ignore {self.column}"
        )


class Disagreement(NamedTuple):
    """Which labels a model disagrees with, and how likely that is for a sample of which it is as certain."""

    found: Floats
    expected: Floats
    chance: float  # how often a model disagrees by chance with a label that is drawn at random

    @classmethod
    def of(cls, preferred: Ints, certainty: Floats, labels: Ints, classes: int, used: Flags) -> "Disagreement":
        """``preferred`` is the model's class of every sample, ``certainty`` any number that grows with how certain it
        is: the expected disagreement is fitted to it, for each preferred class that is ``used`` often enough."""
        from sklearn.isotonic import IsotonicRegression

        found = (preferred != labels).astype(np.float64)
        expected = np.zeros(len(labels))
        size = np.bincount(preferred[used], minlength=classes)
        few = size[preferred] < _FITTED
        for group in (few, *(preferred == number for number in np.flatnonzero(size >= _FITTED))):
            some = group & used
            if some.any():
                curve = IsotonicRegression(increasing=False, out_of_bounds="clip")
                expected[some] = curve.fit_transform(certainty[some], found[some])
        return cls(found, expected, 1 - 1 / classes)

    def at_most(self, member: Flags, found: Floats) -> "Disagreement":
        """The same, or with what another model found of these samples if it disagrees with fewer labels."""
        if found.sum() >= self.found[member].sum():
            return self
        changed = self.found.copy()
        changed[member] = found
        return self._replace(found=changed)

    def difficulty(self, used: Flags) -> "Disagreement":
        """The same, if every sample were as difficult as any other."""
        return self._replace(expected=np.full(len(self.found), self.found[used].mean()))


class _Set(NamedTuple):
    """A set of samples: a run of parts of a column, or of two columns one part each."""

    parts: tuple[Parts, ...]
    runs: tuple[tuple[int, int], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(one.column for one in self.parts)

    @property
    def member(self) -> Flags:
        inside = [one.inside(run) for one, run in zip(self.parts, self.runs, strict=True)]
        return np.asarray(np.logical_and.reduce(inside))


class _Found(NamedTuple):
    log_p: float
    where: _Set


def find_slices(
    columns: Records,
    screen: Disagreement,
    evidence_of: Callable[[tuple[str, ...]], Disagreement],
    wrong: Floats,
    used: Flags,
    learned: Callable[[Flags], Floats] | None = None,
    level: float = LEVEL,
    late: Callable[[], bool] = lambda: False,
) -> tuple[Slice, ...]:
    """Slices by decreasing evidence.

    Args:
        columns: of the samples.
        screen: what decides which columns are looked at.
        evidence_of: by a model that cannot have learned that labels differ where these columns have certain values.
        wrong: the probability that the label of each sample is wrong.
        used: which samples there is evidence of.
        learned: which labels of a set a model of that set alone does not predict. Labels that it predicts follow a
            rule that the other models missed, and are not wrong.
        level: the probability of naming anything where nothing differs.
        late: asked before every fit of models; a true result ends the search with what is found.
    """
    parts = [made for column in columns.columns if (made := parts_of(column, _FEWEST)) is not None]
    tests = sum(len(one.runs()) for one in parts) + sum(
        len(one) * len(two) for one, two in combinations(parts[:_PAIRED], 2)
    )
    limit = np.log(level / max(tests, 1))
    free = used.copy()
    named: list[tuple[_Set, Disagreement]] = []
    while len(named) < _MOST:
        proposed = _columns_of(_search(parts, screen, free), max(limit, _SCREEN))
        best = None
        for some in proposed:
            if late():
                best = None
                break
            evidence = evidence_of(tuple(one.column for one in some))
            found = next(iter(sorted(_search(some, evidence, free, exactly=True), key=lambda one: one.log_p)), None)
            if found is None or found.log_p > limit:
                continue
            member = found.where.member & free
            if not all(_matters(member, one, wrong, free, len(some)) for one in (evidence, screen)):
                continue
            if best is not None and found.log_p + _SIMPLER * (len(some) - len(best[0].where.parts)) >= best[0].log_p:
                continue
            if learned is not None:
                evidence = evidence.at_most(member, learned(member))
                if not _matters(member, evidence, wrong, free, len(some)):
                    continue
            best = found, evidence
        if best is None:
            break
        named.append((best[0].where, best[1]))
        free &= ~best[0].where.member
    base = float(wrong[free].mean()) if free.any() else 0.0
    return tuple(_described(where, evidence, used, free, base) for where, evidence in named)


def _columns_of(found: Sequence[_Found], limit: float) -> list[tuple[Parts, ...]]:
    """Columns, and some pairs of them, of which a set has at most this log-probability; the first ones first."""
    ordered = sorted((one for one in found if one.log_p < limit), key=lambda one: one.log_p)
    distinct = {one.where.columns: one.where.parts for one in ordered}
    pairs = [columns for columns in distinct if len(columns) == 2]
    return [parts for columns, parts in distinct.items() if len(columns) == 1 or columns in pairs[:_TRIED]]


def _search(parts: Sequence[Parts], evidence: Disagreement, free: Flags, exactly: bool = False) -> list[_Found]:
    """The best set of every column and pair of columns; ``exactly`` of these columns together alone."""
    singles = () if exactly and len(parts) > 1 else parts
    found = [one for single in singles if (one := _best_run(single, evidence, free)) is not None]
    for pair in combinations(parts[:_PAIRED], 2):
        one = _best_pair(*pair, evidence, free)
        found += [] if one is None else [one]
    return found


def _best_run(parts: Parts, evidence: Disagreement, free: Flags) -> _Found | None:
    counted = _sums(parts.codes, len(parts), evidence, free)
    runs = parts.runs()
    before = np.concatenate([np.zeros((1, 3)), np.cumsum(counted, 0)])
    ends = np.array(runs)
    log_p = _log_p(before[ends[:, 1]] - before[ends[:, 0]], counted.sum(0))
    best = int(log_p.argmin())
    return _Found(float(log_p[best]), _Set((parts,), (runs[best],))) if np.isfinite(log_p[best]) else None


def _best_pair(one: Parts, two: Parts, evidence: Disagreement, free: Flags) -> _Found | None:
    codes = np.where((one.codes < 0) | (two.codes < 0), -1, one.codes * len(two) + two.codes)
    counted = _sums(codes, len(one) * len(two), evidence, free)
    log_p = _log_p(counted, _sums(np.zeros(len(codes), np.int64), 1, evidence, free)[0])
    size = counted[:, 0].reshape(len(one), len(two))
    narrow = size <= _NARROWER * np.minimum(size.sum(1, keepdims=True), size.sum(0))
    log_p = np.where(narrow.ravel(), log_p, np.inf)  # a part that holds nearly all of a pair describes it better
    best = int(log_p.argmin())
    first, second = divmod(best, len(two))
    found = _Set((one, two), ((first, first + 1), (second, second + 1)))
    return _Found(float(log_p[best]), found) if np.isfinite(log_p[best]) else None


def _sums(codes: Ints, count: int, evidence: Disagreement, free: Flags) -> Floats:
    """By part the number of samples, of disagreements, and of expected ones."""
    used = free & (codes >= 0)
    columns = (None, evidence.found[used], evidence.expected[used])
    return np.stack([np.bincount(codes[used], weight, count) for weight in columns], 1)


def _log_p(inside: Floats, total: Floats) -> Floats:
    """Logarithms of the probability of as many disagreements by chance; infinite if a set is too small or large.

    The probability of a disagreement differs between samples, for which the binomial distribution of the mean is wider
    than that of their number.
    """
    size, found, expected = inside.T
    outside = total - inside
    share = np.clip(expected * outside[:, 1] / np.maximum(outside[:, 2], 1e-9) / np.maximum(size, 1), 1e-3, 1)
    tail = binom.logsf(found - 1, size, share)
    return np.where((size >= _FEWEST) & (size <= _LARGEST * total[0]), tail, np.inf)


def _excess(member: Flags, evidence: Disagreement, outside: Flags) -> tuple[float, float]:
    """The fraction of labels that are wrong beyond what is expected, and its standard error."""
    factor = evidence.found[outside].sum() / max(evidence.expected[outside].sum(), 1e-9)
    expected = np.minimum(evidence.expected[member] * factor, evidence.chance - 0.05)
    # A label that is drawn again turns an agreement into a disagreement, and back with the chance of the class.
    room = (1 - expected / evidence.chance).sum()
    excess = (evidence.found[member] - expected).sum() / room
    share = evidence.found[member].mean()
    return float(min(excess, 1.0)), float(np.sqrt(max(share * (1 - share), 1e-4) * member.sum()) / room)


def _matters(member: Flags, evidence: Disagreement, wrong: Floats, free: Flags, columns: int) -> bool:
    """Whether labels are wrong far more often, and not only a little, in a set by so many columns."""
    excess, error = _excess(member, evidence, free & ~member)
    return excess - error > max(_EXCESS[columns - 1], (_TIMES - 1) * float(wrong[free & ~member].mean()))


def _described(where: _Set, evidence: Disagreement, used: Flags, free: Flags, base: float) -> Slice:
    member = where.member
    excess, error = _excess(member & used, evidence, free)
    ends = (excess, excess - 1.96 * error, excess + 1.96 * error)
    rate, low, high = (min(max(base + (1 - base) * part, 0.0), 1.0) for part in ends)
    conditions = tuple(one.name(run) for one, run in zip(where.parts, where.runs, strict=True))
    return Slice(conditions, int(member.sum()), rate, (low, high), base, np.flatnonzero(member))
