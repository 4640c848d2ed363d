"""The parameters of annotators and of a model beside them, fitted to each other by expectation maximisation.

Matrices are shrunk towards the mean matrix of all annotators, and that one towards errors that go to every class alike.
The pseudo-counts are those under which the counts of all rows are most likely (empirical Bayes). A difficulty of the
samples, easy or hard, makes annotators dependent.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, final

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import expit, gammaln, logsumexp, softmax

from pyrite.arrays import Flags, Floats, Ints

_TOLERANCE: Final = 1e-6  # of the mean log-likelihood of a sample, from step to step
_MOST_STEPS: Final = 500
_SMALLEST: Final = 1e-12  # probabilities below it, including 0, are taken as that
_PSEUDO: Final = (-2.0, 14.0)  # the range of the logarithm of pseudo-counts: from none to those that leave no freedom
_RENEWED: Final = 5  # steps after which pseudo-counts are found again, which takes longer than the rest of a step
_HARDER: Final = 4.0  # by how much the odds of errors differ from the average, at the start, for easy and hard samples


@final
@dataclass(frozen=True, eq=False)
class Samples:
    """Labels as a sparse table with a row per sample, and a column per annotator and class, annotator by annotator."""

    table: Any  # csr_array of ones; typed loosely, because scipy's stubs differ between versions
    weight: Floats  # how often each sample counts
    log_p: Floats  # by the model; 0 where it is not known
    known: Flags  # whether the model knows the sample
    hardness: Floats  # minus the gap of the model's two best classes, standardised; 0 where it is not known
    classes: int
    annotators: int

    @classmethod
    def of(cls, labels: Ints, classes: int, log_p: Floats | None) -> "Samples":
        count, annotators = labels.shape
        row, column = np.nonzero(labels >= 0)
        table = csr_array(
            (np.ones(len(row)), (row, column * classes + labels[row, column])), shape=(count, annotators * classes)
        )
        known = np.asarray(np.zeros(count, bool) if log_p is None else np.isfinite(log_p).all(axis=1))
        logs, hardness = np.zeros((count, classes)), np.zeros(count)
        if log_p is not None and known.any():
            logs[known] = log_p[known] - log_p[known].max(1, keepdims=True)
            second, first = np.partition(logs[known], -2, axis=1)[:, -2:].T
            gap = second - first
            hardness[known] = (gap - gap.mean()) / max(gap.std(), _SMALLEST)
        return cls(table, np.ones(count), logs, known, hardness, classes, annotators)

    @property
    def counts(self) -> Floats:
        """The number of each annotator's labels."""
        return np.asarray((self.table.T @ self.weight).reshape(self.annotators, self.classes).sum(1))

    def confusions(self, posterior: Floats) -> Floats:
        """Expected numbers of samples by annotator, level, class and label."""
        flat = posterior.reshape(len(posterior), -1) * self.weight[:, None]
        found = np.asarray(self.table.T @ flat).reshape(self.annotators, self.classes, -1, self.classes)
        return found.transpose(0, 2, 3, 1)

    def wrong_rates(self, posterior: Floats) -> Floats:
        """The expected fraction of wrong labels of each annotator; NaN without labels."""
        found = self.confusions(posterior)[:, 0]
        with np.errstate(invalid="ignore"):
            return np.asarray(1 - np.trace(found, axis1=1, axis2=2) / found.sum((1, 2)))


# --- the parameters --------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Parameters:
    """Of the model: prior distribution of classes, difficulty, and the matrices of annotators."""

    sharpness: float  # the factor of ``log_p``
    bias: Floats  # what is added to it, by class
    frequency: Floats  # of classes where the model does not know the sample
    difficulty: Floats  # intercept and slope of the log-odds that a sample is hard, by the model's ``hardness``
    matrices: Floats  # P(label | class), by annotator, level, class and label
    typical_matrix: Floats  # the mean over annotators, by level, class and label
    pseudo: Floats  # the pseudo-counts of each level, in the order of ``_shrunk_matrices``

    @property
    def levels(self) -> int:
        return int(self.matrices.shape[1])

    def log_prior(self, samples: Samples) -> Floats:
        logs = np.where(samples.known[:, None], self.sharpness * samples.log_p + self.bias, np.log(self.frequency))
        return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))

    def level_chances(self, samples: Samples) -> Floats:
        if self.levels == 1:
            return np.ones((len(samples.weight), 1))
        hard = expit(self.difficulty[0] + self.difficulty[1] * samples.hardness)
        return np.asarray(np.clip(np.stack([1 - hard, hard], 1), _SMALLEST, 1))

    def log_joint(self, samples: Samples, prior: Floats) -> Floats:
        """log P(level, class, labels), one row per sample."""
        logs = np.log(np.maximum(self.matrices, _SMALLEST)).transpose(0, 3, 1, 2)
        found = np.asarray(samples.table @ logs.reshape(samples.annotators * samples.classes, -1))
        found = found.reshape(len(found), self.levels, samples.classes)
        return np.asarray(found + prior[:, None] + np.log(self.level_chances(samples))[:, :, None])


class Fit(NamedTuple):
    """What was fitted."""

    parameters: Parameters
    posterior: Floats  # of the classes


def from_votes(samples: Samples, shares: Floats) -> Parameters:
    """One level, with matrices by the votes on each sample, among which the model has one."""
    count = np.asarray(samples.table.sum(1)).reshape(-1, 1)
    own = np.where(samples.known[:, None], softmax(samples.log_p, axis=1), shares)
    shares = (count * shares + own) / (count + 1)
    even = np.full(samples.classes, 1 / samples.classes)
    empty = np.zeros((samples.annotators, 1, samples.classes, samples.classes))
    start = Parameters(1.0, np.zeros(samples.classes), even, np.zeros(2), empty, empty[0], np.ones((1, 5)))
    return _updated(samples, start, shares[:, None], shares, renew=True)


def with_difficulty(one: Parameters) -> Parameters:
    """Two levels, from one: the odds of errors are lower in the first, and higher in the second."""

    def changed(factor: float) -> Floats:
        matrices = one.matrices * np.where(np.eye(one.matrices.shape[-1], dtype=bool), 1.0, factor)
        return np.asarray(matrices / matrices.sum(-1, keepdims=True))

    matrices = np.concatenate([changed(1 / _HARDER), changed(_HARDER)], axis=1)
    return replace(
        one,
        matrices=matrices,
        typical_matrix=matrices.mean(0),
        difficulty=np.array([-1.0, 0.5]),
        pseudo=np.repeat(one.pseudo, 2, axis=0),
    )


def fit_parameters(samples: Samples, start: Parameters, *, renew: bool = True) -> Fit:
    """Expectation maximisation; unless ``renew``, the pseudo-counts stay."""
    parameters, before = start, -np.inf
    for number in range(_MOST_STEPS):
        prior = parameters.log_prior(samples)
        joint = parameters.log_joint(samples, prior)
        likely = logsumexp(joint, axis=(1, 2))
        gain = float(likely @ samples.weight / samples.weight.sum())
        chances = np.exp(joint - likely[:, None, None])
        if abs(gain - before) < _TOLERANCE:
            break
        parameters, before = (
            _updated(samples, parameters, chances, np.exp(prior), renew=renew and number % _RENEWED == 0),
            gain,
        )
    return Fit(parameters, chances.sum(1))


def _updated(samples: Samples, old: Parameters, chances: Floats, prior: Floats, *, renew: bool) -> Parameters:
    """The parameters after one step, from the probabilities of level and class of every sample, and the prior ones."""
    posterior, weight = chances.sum(1), samples.weight
    known = weight * samples.known
    sharpness, bias = old.sharpness, old.bias
    if known.any():
        expected, wanted = known @ prior, known @ posterior
        bias = bias + np.log((wanted + 0.5) / (expected + 0.5))
        mean = (prior * samples.log_p).sum(1)
        slope = known @ ((posterior - prior) * samples.log_p).sum(1)
        curvature = known @ ((prior * samples.log_p**2).sum(1) - mean**2)
        step = np.clip(slope / max(curvature, _SMALLEST), -0.5 * sharpness, 0.5 * sharpness + 0.1)
        sharpness = max(sharpness + step, 1e-3)
    total = weight @ posterior + 0.5
    counts = samples.confusions(chances)
    matrices, typical, pseudo = _shrunk_matrices(counts, None if renew else old.pseudo)
    difficulty = old.difficulty
    if chances.shape[1] > 1:
        difficulty = _logistic_step(samples, difficulty, chances[:, 1].sum(1))
    return Parameters(sharpness, bias, total / total.sum(), difficulty, matrices, typical, pseudo)


def _logistic_step(samples: Samples, old: Floats, hard: Floats) -> Floats:
    """One step of Newton's method for the logistic regression of difficulty on the model's hardness."""
    features = np.stack([np.ones(len(hard)), samples.hardness], 1)
    chance = expit(features @ old)
    slope = features.T @ (samples.weight * (hard - chance))
    curvature = (features * (samples.weight * chance * (1 - chance))[:, None]).T @ features
    return np.asarray(old + np.clip(np.linalg.solve(curvature + 1e-6 * np.eye(2), slope), -1, 1))


def _shrunk_matrices(counts: Floats, pseudo: Floats | None) -> tuple[Floats, Floats, Floats]:
    """Matrices of annotators, the mean one of each level, and pseudo-counts, which are found if they are not given.

    How often an annotator is right about a class is shrunk towards what its ability and the class let expect, an
    ability towards that of all. Errors are shrunk towards those of all annotators, and these towards equal ones.
    ``counts`` are by annotator, level, class and label.
    """
    classes, levels = counts.shape[-1], counts.shape[1]
    right, wrong = np.diagonal(counts, axis1=2, axis2=3), counts * ~np.eye(classes, dtype=bool)
    hits = np.stack([right, wrong.sum(3)], 3)  # by annotator, level, class: right and wrong
    matrices, typical, used = np.empty_like(counts), np.empty_like(counts[0]), np.empty((levels, 5))
    for level in range(levels):
        own, errors = hits[:, level], wrong[:, level]
        known = [None] * 5 if pseudo is None else pseudo[level].tolist()
        every = (own.sum((0, 1)) + 0.5) / (own.sum() + 1)
        ability, used[level, 0] = _shrunk(own.sum(1), every, known[0])
        of_class, used[level, 1] = _shrunk(own.sum(0), every, known[1])
        expected = expit(_odds(of_class)[None] + _odds(ability)[:, None] - _odds(every))
        accuracy, used[level, 2] = _shrunk(own, np.stack([expected, 1 - expected], 2), known[2])
        even = (1 - np.eye(classes)) / (classes - 1)
        of_all, used[level, 3] = _shrunk(errors.sum(0), even, known[3])
        of_each, used[level, 4] = _shrunk(errors, of_all, known[4])
        typical[level] = np.diag(of_class[:, 0]) + of_class[:, 1:] * of_all
        matrices[:, level] = accuracy[..., :1] * np.eye(classes) + accuracy[..., 1:] * of_each
    return matrices, typical, used


def _odds(chances: Floats) -> Floats:
    """The log-odds of the first of two chances."""
    return np.asarray(np.log(chances[..., 0]) - np.log(chances[..., 1]))


def _shrunk(counts: Floats, centre: Floats, pseudo: float | None) -> tuple[Floats, float]:
    """The fractions of counts (last axis) with pseudo-counts that are spread as ``centre``, and the number of these."""
    centre = np.broadcast_to(centre, counts.shape)
    if pseudo is None:
        pseudo = _pseudo_count(counts.reshape(-1, counts.shape[-1]), centre.reshape(-1, counts.shape[-1]))
    return np.asarray((counts + pseudo * centre) / (counts.sum(-1, keepdims=True) + pseudo)), pseudo


def _pseudo_count(counts: Floats, centre: Floats) -> float:
    """The number of pseudo-counts, spread as ``centre``, under which the counts of all rows are most likely.

    The rows are Dirichlet-multinomial. Minka, 2000 ("Estimating a Dirichlet distribution"), has the likelihood.
    """
    used = counts.sum(1) > 0
    counts, centre = counts[used], np.maximum(centre[used], _SMALLEST)
    totals = counts.sum(1)

    def unlikely(log_pseudo: float) -> float:
        alpha = np.exp(log_pseudo) * centre
        rows = gammaln(np.exp(log_pseudo)) - gammaln(np.exp(log_pseudo) + totals)
        return -float(rows.sum() + (gammaln(alpha + counts) - gammaln(alpha)).sum())

    found = minimize_scalar(unlikely, bounds=_PSEUDO, method="bounded", options={"xatol": 0.05})
    return float(np.exp(found.x))
