"""What ``RobustClassifier`` trains: what a candidate is, classifiers of scikit-learn, and kernel regression."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import gen_batches
from sklearn.utils.validation import has_fit_parameter

from pyrite.errors import PyriteError
from pyrite.estimator.rows import Floats, Ints

_FLOOR: Final = 1e-12  # the smallest probability of a class; boosting rounds smaller ones to 0
_LEVELS: Final = 255  # the most that scikit-learn's histograms have
_MOST_CLASSES: Final = 100
_MOST_FEATURES: Final = 1000
_FAR: Final = 10.0  # standard deviations beyond which a linear model would be governed by single outliers

# Of the kernel regression.
_WIDTHS: Final = (0.1, 0.3, 1.0, 3.0)  # of the kernel, in units of the mean squared distance between two rows
_NOISES: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # variance of the labels over that of the function
_KERNEL_FLOOR: Final = 1e-3  # the smallest probability of a class; regression may give less than 0
_KERNEL_FAR: Final = 3.0  # standard deviations beyond which a row would have no neighbours
_BLOCK: Final = 4096  # rows whose distances are computed at once

Use = Literal["all", "weighted", "likely"]
"""Which rows a model is trained on at last: all, all weighted by the probability that their labels are right, or only
those whose labels are more likely right than wrong."""


class Inputs(NamedTuple):
    """Rows as they were given, and as nets take them: standardised features, or the same images."""

    given: npt.NDArray[Any]
    scaled: npt.NDArray[Any]

    def part(self, rows: npt.NDArray[Any]) -> "Inputs":
        """Some of the rows."""
        return Inputs(self.given[rows], self.scaled[rows])


Predict = Callable[[Inputs], Floats]
"""A trained model: log-probabilities, one row per row of the features, one column per class."""


class Candidate(ABC):
    """A way to train a model. Weights are those of the rows; a row of weight 0 is left out."""

    name: str
    use: Use = "weighted"

    @abstractmethod
    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Predict:
        """Train on all rows."""

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        """Log-probabilities of every row, by a model that was not trained on its fold."""
        outs = [fold == number for number in np.unique(fold)]
        tables = [self.train(features, labels, weight * ~out, seed)(features.part(out)) for out in outs]
        return np.concatenate(tables)[np.argsort(np.concatenate([np.flatnonzero(out) for out in outs]))]


def likely_right(labels: Ints, weight: Floats) -> npt.NDArray[np.bool_]:
    """Rows of at least half the weight, and all rows of a class that has no such row."""
    kept = weight >= 0.5
    present = np.isin(labels, labels[kept])
    return kept | (~present & (weight > 0))


def log_probabilities(chances: Floats, floor: float) -> Floats:
    """The logarithms of probabilities, none of which is below ``floor``, and which add up to 1 again."""
    bounded = chances.clip(floor)
    return np.asarray(np.log(bounded / bounded.sum(1, keepdims=True)))


def log_mean(log_probabilities: Floats) -> Floats:
    """The logarithm of the mean probabilities of several models, one table per model."""
    return np.asarray(logsumexp(log_probabilities, 0) - np.log(len(log_probabilities)))


@final
@dataclass(frozen=True)
class Wrapped(Candidate):
    """A classifier of scikit-learn. Unless its ``fit`` takes weights, rows of a weight below a half are left out."""

    estimator: Any
    name: str
    classes: npt.NDArray[Any]
    verbose: bool
    scaled: bool = False
    use: Use = "weighted"

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Predict:
        model = clone(self.estimator)
        # Its seed is this one wherever it has none, so that results are reproducible.
        unset = [name for name, value in model.get_params().items() if name.endswith("random_state") and value is None]
        model.set_params(**dict.fromkeys(unset, seed))
        argument = _weight_argument(model)
        used = weight > 0 if argument is not None else likely_right(labels, weight)
        if self.verbose:
            print(f"{self.name}, {used.sum()} rows")
        known = np.unique(labels[used])
        if len(known) > 1:
            options = {} if argument is None or np.ptp(weight[used]) == 0 else {argument: weight[used]}
            model.fit(self._inputs(features.part(used)), self.classes[labels[used]], **options)
        return partial(self._predict, model, known)

    def _inputs(self, features: Inputs) -> npt.NDArray[Any]:
        return features.scaled if self.scaled else features.given

    def _predict(self, model: Any, known: Ints, features: Inputs) -> Floats:
        """Log-probabilities by a model that was trained on the ``known`` classes."""
        inputs = self._inputs(features)
        chances = np.zeros((len(inputs), len(self.classes)))
        if len(known) == 1:  # a fold may leave one class, to which classifiers cannot be fitted
            chances[:, known] = 1.0
        elif hasattr(model, "predict_proba"):
            chances[:, known] = model.predict_proba(inputs)
        else:
            scores = np.asarray(model.decision_function(inputs))
            if scores.ndim == 2 and scores.shape[1] != len(known):
                name = type(model).__name__
                raise PyriteError(f"{name} has {scores.shape[1]} columns of scores for {len(known)} classes")
            chances[:, known] = softmax(np.stack([0 * scores, scores], 1) if scores.ndim == 1 else scores, axis=1)
        return log_probabilities(chances, _FLOOR)


def wrap(model: Any, classes: npt.NDArray[Any], weighted: bool, verbose: bool) -> Wrapped:
    """A user's classifier, which gets the features as they were given, and must take weights if they differ."""
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type):
        raise PyriteError(f"model is the class {name}: give an object, such as {name}()")
    if not is_classifier(model):
        raise PyriteError(f"model is a {name}, which is not a classifier")
    if not (hasattr(model, "predict_proba") or hasattr(model, "decision_function")):
        raise PyriteError(
            f"model is a {name} without predict_proba and decision_function, so its labels have no scores"
        )
    shape = next((value for key, value in model.get_params().items() if key.endswith("decision_function_shape")), "")
    if shape == "ovo" and len(classes) > 2 and not hasattr(model, "predict_proba"):
        raise PyriteError(
            f"model is a {name} that scores pairs of classes: give it decision_function_shape='ovr', for classes"
        )
    if weighted and _weight_argument(model) is None:
        raise PyriteError(f"model is a {name} whose fit takes no sample_weight, but weights are not whole")
    return Wrapped(model, name, classes, verbose)


def is_estimator(model: Any) -> bool:
    """Whether a model is of scikit-learn, and not a net."""
    return isinstance(model, BaseEstimator) or (isinstance(model, type) and issubclass(model, BaseEstimator))


def _weight_argument(model: Any) -> str | None:
    """The name by which ``fit`` takes weights of rows; None if it takes none."""
    if isinstance(model, Pipeline):
        last, step = model.steps[-1]
        return f"{last}__sample_weight" if has_fit_parameter(step, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(model, "sample_weight") else None


def boosting(classes: npt.NDArray[Any], features: int, together: bool, verbose: bool) -> list[Candidate]:
    """Gradient boosting at scikit-learn's defaults, and a shorter one that wrong labels mislead less.

    Trees learn single wrong labels even if their weights are small, so rows with such labels are left out at last.
    ``together`` makes one candidate of both, which takes less time.
    """
    # Each step grows one tree per class, and looks at every feature.
    if len(classes) > _MOST_CLASSES or features > _MOST_FEATURES:
        return []
    models = {
        "short boosting": HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=16, l2_regularization=5.0),
        "boosting": HistGradientBoostingClassifier(),
    }
    short, full = (
        Wrapped(make_pipeline(_Levels(), model), name, classes, verbose, scaled=True, use="likely")
        for name, model in models.items()
    )
    return [_Boosting(short, full)] if together else [short, full]


@final
@dataclass(frozen=True)
class _Boosting(Candidate):
    """A short and a full boosting, whose probabilities are averaged at last. The short one alone scores held-out rows:
    the full one would more than double the time, and is misled by the wrong labels that are still among them."""

    short: Wrapped
    full: Wrapped
    name: str = "boosting"
    use: Use = "likely"

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        return self.short.held_out(features, labels, weight, fold, seed)

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Predict:
        return partial(_mean_of, [each.train(features, labels, weight, seed) for each in (self.short, self.full)])


def _mean_of(models: list[Predict], features: Inputs) -> Floats:
    return log_mean(np.stack([model(features) for model in models]))


def linear(classes: npt.NDArray[Any], verbose: bool) -> list[Candidate]:
    """Logistic regression on standardised features without outliers, at scikit-learn's default penalty, and 100 times
    that, for few rows with much noise."""
    return [
        Wrapped(
            make_pipeline(FunctionTransformer(without_outliers), LogisticRegression(C=c, max_iter=1000)),
            name, classes, verbose, scaled=True, use="all",
        )
        for c, name in ((1.0, "linear"), (0.01, "shrunken linear"))
    ]  # fmt: skip


@final
class _Levels(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Each feature by its place among 255 quantiles, as histogram boosting itself would do, 30 times as slowly where
    rows have weights (scikit-learn 1.9)."""

    def fit(self, features: Floats, labels: object = None) -> Self:
        places = np.linspace(0, 1, _LEVELS + 1)[1:-1]
        self.edges_ = [np.unique(edges) for edges in np.quantile(features, places, axis=0, method="midpoint").T]
        return self

    def transform(self, features: Floats) -> Floats:
        columns = [np.searchsorted(edges, column) for edges, column in zip(self.edges_, features.T, strict=True)]
        return np.stack(columns, 1).astype(np.float64)


def without_outliers(features: npt.NDArray[Any], far: float = _FAR) -> Floats:
    """Standardised features, of which none is further from 0."""
    return np.asarray(features.clip(-far, far), np.float64)


class KernelCandidate(Candidate):
    """Ridge regression of the classes with a Gaussian kernel, which is the mean of a Gaussian process.

    The noise of the labels is a parameter of the model, chosen by held-out labels, so that wrong labels are averaged
    over as many neighbours as it takes. The scores of held-out rows follow from one decomposition of the kernel matrix:
    with G = (K + noise W⁻¹)⁻¹ the residuals of a fold b are (G_bb)⁻¹ (G y)_b, for weights W. So five folds and all
    settings take less time than training one net, as long as the rows are few: the time grows with their cube.

    Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, sections 2.2 and 5.4.2.
    """

    name = "kernel"
    use = "all"

    def __init__(self, classes: int, verbose: bool) -> None:
        self._classes, self._verbose = classes, verbose
        self._width, self._noise = 0.0, 0.0

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        """Log-probabilities of every row, in the setting with the smallest squared error, which ``train`` uses too."""
        rows = without_outliers(features.scaled, _KERNEL_FAR)
        targets, mean = _targets(labels, weight, self._classes)
        distance, unit = euclidean_distances(rows, squared=True), _unit(rows)
        best, lowest = np.zeros_like(targets), np.inf
        for width in _WIDTHS:
            kernel = np.exp(-distance / (width * unit))
            for noise, found in zip(_NOISES, _predictions(kernel, targets, weight, fold), strict=True):
                error = float(np.average(((found - targets) ** 2).sum(1), weights=weight))
                if error < lowest:
                    best, lowest, self._width, self._noise = found, error, width, noise
        if self._verbose:
            print(f"{self.name}, {len(labels)} rows, width {self._width}, noise {self._noise}")
        return log_probabilities(best + mean, _KERNEL_FLOOR)

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Predict:
        assert self._width, "held_out has not been called"
        used = weight > 0
        rows, weight = without_outliers(features.scaled, _KERNEL_FAR)[used], weight[used]
        targets, mean = _targets(labels[used], weight, self._classes)
        model = KernelRidge(alpha=self._noise, kernel="rbf", gamma=1 / (self._width * _unit(rows)))
        return partial(_predict, model.fit(rows, targets, sample_weight=weight), mean)


def _predict(model: Any, mean: Floats, features: Inputs) -> Floats:
    rows = without_outliers(features.scaled, _KERNEL_FAR)
    parts = [model.predict(rows[some]) for some in gen_batches(len(rows), _BLOCK)]
    return log_probabilities(np.concatenate(parts) + mean, _KERNEL_FLOOR)


def _predictions(kernel: Floats, targets: Floats, weight: Floats, fold: Ints) -> list[Floats]:
    """For each noise the predictions of all rows, each by a fit to the other folds."""
    root = np.sqrt(weight)[:, None]
    values, vectors = np.linalg.eigh(root * kernel * root.T)
    values = values.clip(0)
    inner, vectors = vectors.T @ (root * targets), root * vectors  # of W^½ K W^½, so that G = vectors (…)⁻¹ vectorsᵀ
    parts = [np.flatnonzero(fold == number) for number in np.unique(fold)]
    results = []
    for noise in _NOISES:
        scale = 1 / (values + noise)
        whole = vectors @ (scale[:, None] * inner)
        found = np.empty_like(targets)
        for part in parts:
            own = vectors[part]
            found[part] = targets[part] - np.linalg.solve((own * scale) @ own.T, whole[part])
        results.append(found)
    return results


def _targets(labels: Ints, weight: Floats, classes: int) -> tuple[Floats, Floats]:
    """One column per class, centred, and the means."""
    one_hot = np.eye(classes)[labels]
    mean = np.average(one_hot, axis=0, weights=weight)
    return one_hot - mean, np.asarray(mean)


def _unit(rows: Floats) -> float:
    """The mean squared distance between two rows, which is twice the sum of the variances; 1 if all are equal."""
    unit = 2 * float(rows.var(0).sum())
    return unit if unit > 0 else 1.0
