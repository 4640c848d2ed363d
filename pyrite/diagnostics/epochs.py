"""Measures of an epoch: accuracies on the test set and on parts of the training set, and weights of samples."""

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pyrite.arrays import Flags, check_same_length, to_flags, to_floats, to_ints
from pyrite.checks import whole_number
from pyrite.errors import PyriteError

# sigmoid(-20) is 2e-9, so finer bins beyond ±20 would show nothing more.
MARGIN_EDGES: Final[tuple[float, ...]] = tuple(i / 2 for i in range(-40, 41))


@final
@dataclass(frozen=True)
class Tally:
    """A number of hits out of a total: a fraction that can be summed over batches, ranks or data sets.

    >>> (Tally(9, 10) + Tally(1, 10)).fraction
    0.5
    """

    hits: int
    total: int

    def __post_init__(self) -> None:
        whole_number("hits", self.hits, least=0)
        if whole_number("total", self.total, least=0) < self.hits:
            raise PyriteError(f"hits is {self.hits}, of a total of {self.total}")

    @classmethod
    def of(cls, flags: Flags) -> "Tally":
        return cls(int(np.count_nonzero(flags)), len(flags))

    @property
    def fraction(self) -> float | None:
        """hits / total; None if the total is 0."""
        return self.hits / self.total if self.total else None

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.hits + other.hits, self.total + other.total)


def accuracy(predictions: object, labels: object) -> Tally:
    """The number of predictions that equal the label, as a ``Tally``.

    >>> accuracy([0, 1, 1], [0, 1, 2])
    Tally(hits=2, total=3)
    """
    predicted, label = to_ints(predictions, "predictions"), to_ints(labels, "labels")
    check_same_length(predictions=predicted, labels=label)
    return Tally.of(predicted == label)


@final
@dataclass(frozen=True)
class SubsetAccuracies:
    """Accuracies on the training set, by whether the given label is the true one.

    Without true labels, all but ``given`` are None.

    Attributes:
        given: all samples, predicted as their given label.
        clean: samples with a right label, predicted as that label.
        memorised: samples with a wrong label, predicted as that wrong label. Papers call this the accuracy on the noisy
            subset; low is good.
        recovered: samples with a wrong label, predicted as their true label; high is good.
        true: all samples, predicted as their true label.
    """

    given: Tally
    clean: Tally | None = None
    memorised: Tally | None = None
    recovered: Tally | None = None
    true: Tally | None = None

    def fractions(self) -> dict[str, float | None]:
        """Each accuracy as a fraction, by name; None also where the subset is empty."""
        tallies = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: None if tally is None else tally.fraction for name, tally in tallies.items()}


def subset_accuracies(predictions: object, given: object, true: object | None = None) -> SubsetAccuracies:
    """The accuracies on the training set and on its clean and noisy parts.

    >>> subset_accuracies([0, 1, 1, 0], given=[0, 0, 1, 1], true=[0, 0, 0, 0]).fractions()
    {'given': 0.5, 'clean': 0.5, 'memorised': 0.5, 'recovered': 0.5, 'true': 0.5}
    """
    predicted, label = to_ints(predictions, "predictions"), to_ints(given, "given")
    check_same_length(predictions=predicted, given=label)
    if true is None:
        return SubsetAccuracies(Tally.of(predicted == label))
    truth = to_ints(true, "true")
    check_same_length(given=label, true=truth)
    wrong, agrees, right = label != truth, predicted == label, predicted == truth
    return SubsetAccuracies(
        Tally.of(agrees), Tally.of(right[~wrong]), Tally.of(agrees[wrong]), Tally.of(right[wrong]), Tally.of(right)
    )


def hybrid_accuracy(test: Tally, train: Tally) -> float | None:
    """The accuracy on the union of the test set and the clean training set (Wang et al., IMAE, Table 6).

    The clean training set is the whole training set with its true labels, not only the samples whose label is right.
    Only this definition is consistent with the printed rows with noise. Pass ``true`` of ``subset_accuracies``, or
    ``clean`` for the other definition.
    """
    return (test + train).fraction


def clearly_better(hits: object, others: object) -> bool:
    """Whether one predictor has more hits than another, by more than one standard error of the difference.

    Only labels that exactly one of the two predicts are informative. If both predictors are equally good, each of these
    labels is predicted by either with probability 1/2. The standard error of the difference of the numbers of hits is
    therefore the square root of their number.

    >>> clearly_better([True, True, True, False], [True, False, False, False])
    True
    >>> clearly_better([True, True, True, False], [True, True, False, False])
    False

    McNemar, 1947.
    """
    first, second = to_flags(hits, "hits"), to_flags(others, "others")
    check_same_length(hits=first, others=second)
    return int(first.sum()) - int(second.sum()) > math.sqrt(int((first != second).sum()))


def epoch_weight(followed: float | None, held_out: float | None) -> float:
    """The weight of an epoch in an audit, from the accuracies on training labels and on held-out labels.

    ``followed`` is the accuracy on given training labels, ``held_out`` that on given held-out labels. An epoch is
    informative if the net generalises and has not memorised labels. The weight is a product of two factors:
    ``held_out ** 2`` measures generalisation, and ``(1 - followed) / (1 - held_out)``, at most 1, measures the absence
    of memorisation, because a net that has memorised nothing is as accurate on training labels as on held-out labels.
    Without held-out labels, all epochs have the weight 1.

    >>> epoch_weight(0.5, 0.5), epoch_weight(0.75, 0.5), epoch_weight(1.0, 0.5), epoch_weight(None, None)
    (0.25, 0.125, 1e-06, 1.0)
    """
    if followed is None or held_out is None:
        return 1.0
    left = 1.0 if held_out >= 1 else min(1.0, (1 - followed) / (1 - held_out))
    return max(held_out**2 * left, 1e-6)  # if no epoch is informative, all have the same weight


def weight_statistics(weight: object) -> dict[str, float | None]:
    """Mean, standard deviation, quantiles and effective number of samples of the weights of an epoch; None without
    weights.

    Quantiles are exact, with the linear interpolation of NumPy. ``effective_fraction`` is the effective number of
    samples divided by the number of samples: 1 if all weights are equal, 1/n if only one weight is not 0.
    """
    values = to_floats(weight, "weight")
    names = ("min", "q05", "q25", "median", "q75", "q95", "max")
    if not values.size:
        return dict.fromkeys(("mean", "std", *names, "effective_fraction"))
    # As np.quantile, which takes five times as long for some thousand values.
    places = np.array((0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)) * (len(values) - 1)
    low, ordered = places.astype(int), np.sort(values)
    below, above = ordered[low], ordered[np.minimum(low + 1, len(values) - 1)]
    quantiles = below + (above - below) * (places - low)
    effective = effective_samples(values)
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        **{name: float(value) for name, value in zip(names, quantiles, strict=True)},
        "effective_fraction": None if effective is None else effective / len(values),
    }


def effective_samples(weight: object) -> float | None:
    """(Σw)² / Σw²: the effective number of samples (Kish, 1965). None if all weights are 0.

    >>> effective_samples([1, 1, 0, 0])
    2.0
    """
    values = to_floats(weight, "weight")
    largest = float(np.abs(values).max(initial=0.0))
    if not largest:
        return None
    scaled = values / largest  # so that squares neither overflow nor underflow
    return float(scaled.sum() ** 2 / (scaled @ scaled))
