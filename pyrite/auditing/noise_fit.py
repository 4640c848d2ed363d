"""How labels go wrong, fitted to scores and labels in a few passes over them.

A model gives the classes of a sample the probabilities p. The true class is k with a probability in proportion to
p_k^β exp(b[a, k]), with a the class that the model prefers, and the label is drawn from row k of the noise matrix T.
Scores cannot show how sharp true classes are: a model doubts because classes are alike, or because labels of such
samples are often wrong. So β is not fitted. ``LabelGroups`` finds the sharpness at which p predicts the *given* labels
best, and true classes are twice as sharp. That choice decides little: the ranking hardly changes from 1.4 to 2.8, and
the noise rate is not that of this fit, see ``noise_rate``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, final

import numpy as np
from scipy.optimize import minimize_scalar

from pyrite.arrays import Floats, Ints

POWERS: Final = (1, 2, 3, 5, 8)
"""How much sharper than the given labels true classes may be."""

_SHARPER: Final = 2.0
_PATTERN: Final = 0.5
_PSEUDO: Final = 10.0  # pseudo-samples per class, which pull a row of the matrix towards symmetric noise
_ROUNDS: Final = 15  # of expectation maximisation; the rate then changes by less than 0.1 points a round
_MANY_ROUNDS: Final = 200
_PER_BIAS: Final = 2  # samples for each of the K² biases that it takes; with fewer there is one row of biases for all
_LEAST: Final = -16.0  # log-odds to the likeliest class below this count as this: models are not that certain
_SMALLEST: Final = 1e-9  # of the entries of a matrix, which have logarithms
_SURE_GAIN: Final = 6.0  # nats over class frequencies, for all labels together; random scores gain up to 4


class LabelNoise(NamedTuple):
    """The columns of a noise matrix, P(given j | true k), that were fitted; all other labels share one column.

    Of many classes most have no label among the samples of a fit, so this takes no more memory than their scores.
    """

    columns: Floats  # one row for each label that was fitted, and a last row for the others
    place: Ints  # the row of each label
    own: Floats  # the diagonal

    @classmethod
    def of(cls, matrix: Floats) -> "LabelNoise":
        """All columns of a matrix."""
        return cls(matrix.T, np.arange(len(matrix)), matrix.diagonal())

    @property
    def matrix(self) -> Floats:
        """The whole matrix, which is large for many classes."""
        return np.ascontiguousarray(self.of_labels(np.arange(len(self.own))).T)

    def of_labels(self, labels: Ints) -> Floats:
        """The columns of these labels, one row each."""
        found = self.columns[self.place[labels]]
        found[np.arange(len(labels)), labels] = self.own[labels]
        return found


@final
@dataclass(frozen=True, eq=False)
class NoiseFit:
    """How labels go wrong."""

    sharpness: float  # β, what log-probabilities are multiplied by
    bias: Floats  # b, one row for each class that a model may prefer, or one row for all
    noise: LabelNoise  # T[i, j] = P(given j | true i)
    rate: float = np.nan  # of the wrong labels by this fit
    can_tell: bool = True  # whether scores predict labels at all, so that they separate wrong ones from right ones
    pattern: float = 1.0  # the power to which matrix and biases count

    @classmethod
    def initial(cls, classes: int) -> "NoiseFit":
        """For labels that there are too few of: symmetric noise, and no claim."""
        return cls(_SHARPER, np.zeros((1, classes)), LabelNoise.of(symmetric(classes, 0.1)), can_tell=False)

    @property
    def classes(self) -> int:
        """Their number."""
        return len(self.noise.own)

    @property
    def matrix(self) -> Floats:
        """The noise matrix, whose entries have logarithms."""
        return np.maximum(self.noise.matrix, _SMALLEST)

    @cached_property
    def _log_noise(self) -> LabelNoise:
        columns, place, own = self.noise
        return LabelNoise(np.log(np.maximum(columns, _SMALLEST)), place, np.log(np.maximum(own, _SMALLEST)))

    def log_prior(self, log_p: Floats) -> Floats:
        """The log-probabilities of the true classes before the label is known."""
        logits = self.sharpness * log_p
        logits += self.pattern * self.bias[log_p.argmax(1) if len(self.bias) > 1 else 0]
        return _normalised(logits)

    def log_joint(self, log_p: Floats, labels: Ints) -> Floats:
        """log P(true k, given label) of every sample and class, up to a constant per sample."""
        joint = self.log_prior(log_p)
        joint += self.pattern * self._log_noise.of_labels(labels)
        return joint


def symmetric(classes: int, rate: float) -> Floats:
    """The matrix of symmetric noise."""
    return np.where(np.eye(classes, dtype=bool), 1 - rate, rate / (classes - 1))


def log_sum_exp(logits: Floats) -> Floats:
    """Of every row, as a column; a third of the time of scipy's."""
    top = logits.max(1, keepdims=True)
    return np.asarray(top + np.log(np.exp(logits - top).sum(1, keepdims=True)))


def _normalised(logits: Floats) -> Floats:
    """Log-probabilities, in place."""
    logits -= logits.max(1, keepdims=True)
    np.maximum(logits, _LEAST, out=logits)
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    return logits


@final
class LabelGroups:
    """Log-probabilities that predict the given labels best, sorted by label, so that a pass is two products per class.

    Args:
        log_p: one row per sample, one column per class; of any sharpness, and up to a constant per sample.
        labels: the given ones.
    """

    def __init__(self, log_p: Floats, labels: Ints) -> None:
        self.classes = log_p.shape[1]
        preferred = log_p.argmax(1)
        order = np.lexsort((preferred, labels))
        self.labels, self.preferred, self.rows = labels[order], preferred[order], np.arange(len(labels))
        self.counts = np.bincount(labels, minlength=self.classes)
        self.present = np.flatnonzero(self.counts)
        self.place = np.full(self.classes, len(self.present))
        self.place[self.present] = np.arange(len(self.present))
        log_p = log_p[order]
        self.sharpness = self._calibrate(log_p)
        log_p *= self.sharpness
        self.log_p = _normalised(log_p)

    def _calibrate(self, log_p: Floats) -> float:
        """The sharpness at which the likelihood of the given labels is largest."""
        labelled = log_p[self.rows, self.labels]

        def loss(log_sharpness: float) -> float:
            sharpness = np.exp(log_sharpness)
            own = sharpness * labelled - log_sum_exp(sharpness * log_p)[:, 0]
            return -float(np.maximum(own, _LEAST).mean())

        return float(np.exp(minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 0.01}).x))

    def groups(self) -> Iterator[tuple[int, slice]]:
        """The labels that occur, and their rows."""
        ends = self.counts.cumsum()
        return ((int(label), slice(ends[label] - self.counts[label], ends[label])) for label in self.present)

    @cached_property
    def own(self) -> Floats:
        """The log-probability of each label."""
        return np.asarray(self.log_p[self.rows, self.labels])

    @property
    def can_tell(self) -> bool:
        """Whether labels are predicted better than by their frequencies, by more nats than random scores reach."""
        gains = self.own - np.log(np.maximum(self.counts, 1) / len(self.labels))[self.labels]
        return bool(gains.sum() > _SURE_GAIN)

    def sharpened(self, sharper: float) -> Floats:
        """Probabilities in proportion to a power of those that predict labels best."""
        logits = _normalised(sharper * self.log_p)
        return np.exp(logits, out=logits)

    def fit_matrix(self, sharper: float) -> tuple[LabelNoise, float, float]:
        """By expectation maximisation, for classes so much sharper: matrix, mean log-likelihood, and noise rate."""
        p, (noise, rate) = self.sharpened(sharper), self._smoothed(self._no_counts(), rate=0.1)
        likelihood = 0.0
        for _ in range(_ROUNDS):
            expected, likelihood = self._no_counts(), 0.0
            for place, (_, rows) in enumerate(self.groups()):
                of_label = p[rows] @ noise.columns[place]
                likelihood += float(np.log(of_label).sum())
                expected[place] = noise.columns[place] * ((1 / of_label) @ p[rows])
            noise, rate = self._smoothed(expected)
        return noise, likelihood / len(self.labels), rate

    def fit_biases(
        self, sharper: float, rounds: int = _ROUNDS, uneven: bool = False
    ) -> tuple[Floats, LabelNoise, float, float]:
        """The same with biases of the true classes: biases, matrix, mean log-likelihood, and noise rate.

        A model that was fitted to noisy labels predicts the noise as doubt. A bias for each preferred class removes the
        pattern of this doubt, and leaves to every sample what it has beyond that. The prior of a bias is normal with a
        standard deviation of 1, which counts as about one sample. If noise is ``uneven``, two classes may have
        different rates, and there is one row of biases for all samples.
        """
        p, (noise, rate) = self.sharpened(sharper), self._smoothed(self._no_counts(), rate=0.1)
        own_rows = len(self.labels) >= _PER_BIAS * self.classes**2 and not uneven
        preferred = self.preferred if own_rows else np.zeros_like(self.labels)
        bias = np.zeros((self.classes if own_rows else 1, self.classes))
        cells, starts = np.unique(self.labels * len(bias) + preferred, return_index=True)
        label, row = np.divmod(cells, len(bias))
        place, likelihood = self.place[label], 0.0
        for _ in range(rounds):
            of_label = np.concatenate([p[rows] @ noise.columns[each] for each, (_, rows) in enumerate(self.groups())])
            likelihood = float(np.log(of_label).mean())
            counts = np.add.reduceat(p / of_label[:, None], starts, axis=0) * noise.columns[place]
            expected, true, prior = self._no_counts(), np.zeros_like(bias), np.zeros_like(bias)
            np.add.at(expected, place, counts)
            np.add.at(true, row, counts)
            np.add.at(prior, row, np.add.reduceat(p, starts, axis=0))
            step = np.clip((true - prior - bias) / (prior + 1), -1, 1)
            bias += step
            p *= np.exp(step)[preferred]
            p /= p.sum(1, keepdims=True)
            noise, rate = self._smoothed(expected, uneven)
        return bias, noise, likelihood, rate

    def _no_counts(self) -> Floats:
        return np.zeros((len(self.present) + 1, self.classes))

    def _smoothed(self, expected: Floats, uneven: bool = False, rate: float | None = None) -> tuple[LabelNoise, float]:
        """The matrix of these counts, pulled towards symmetric noise of the same rate, and that rate.

        With two classes it is symmetric, because two rates of error and a rare class look nearly the same.
        """
        diagonal = np.arange(len(self.present)), self.present
        right = expected[diagonal]
        if rate is None:
            rate = 1 - float(right.sum()) / len(self.labels)
        if self.classes == 2 and not uneven:
            expected, right = np.zeros_like(expected), np.zeros_like(right)
        totals = expected.sum(0) + _PSEUDO
        columns, own = expected + _PSEUDO * rate / (self.classes - 1), np.full(self.classes, _PSEUDO * (1 - rate))
        own[self.present] += right
        columns[diagonal] = own[self.present]
        return LabelNoise(columns / totals, self.place, own / totals), rate

    def symmetric_rate(self, sharper: float) -> float:
        """The noise rate of symmetric noise, for classes so much sharper."""
        own = self.sharpened(sharper)[self.rows, self.labels]
        rate = 0.1
        for _ in range(_ROUNDS):
            wrong = (1 - own) * rate / (self.classes - 1)
            rate = float((wrong / (wrong + own * (1 - rate))).mean())
        return rate


def fit_noise(groups: LabelGroups) -> NoiseFit:
    """The noise of labels, for true classes that are twice as sharp as what predicts the given ones.

    The pattern of the noise, matrix and biases, counts by its square root. On left-out sets that ranks wrong labels
    better than the full pattern, and better than none: fitted patterns have errors of their own.
    """
    bias, noise, _, rate = groups.fit_biases(_SHARPER)
    return NoiseFit(_SHARPER * groups.sharpness, bias, noise, rate, groups.can_tell, _PATTERN)


def likeliest_fit(groups: LabelGroups) -> NoiseFit:
    """The fit with the sharpness under which the given labels are most likely, to compare models.

    Two classes have biases, and rates of their own, which takes more rounds to find.
    """
    if groups.classes == 2:
        fits = {power: groups.fit_biases(power, _MANY_ROUNDS, uneven=True) for power in (1.0, 1.4, 2.0, 2.8)}
    else:
        fits = {power: (np.zeros((1, groups.classes)), *groups.fit_matrix(power)) for power in map(float, POWERS)}
    best = max(fits, key=lambda power: fits[power][2])
    bias, noise, _, rate = fits[best]
    return NoiseFit(best * groups.sharpness, bias, noise, rate)
