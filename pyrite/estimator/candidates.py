"""What ``RobustClassifier`` trains: several nets at once, or a classifier of scikit-learn."""

from typing import Any, Final, Literal, NamedTuple, Protocol, final

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from pyrite.data import Dataset
from pyrite.errors import PyriteError
from pyrite.estimator.rows import Floats, Ints
from pyrite.estimator.together import Nets, train_together
from pyrite.methods import ERM
from pyrite.training import python_name, resolve

__all__ = [
    "Candidate",
    "Fitted",
    "Inputs",
    "NetCandidate",
    "Use",
    "Wrapped",
    "is_estimator",
    "likely_right",
    "log_mean",
    "wrap",
]

_FLOOR: Final = 1e-12  # the smallest probability of a class; boosting rounds smaller ones to 0


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


class Fitted(Protocol):
    """A trained model, or several."""

    def log_probabilities(self, features: Inputs) -> Floats:
        """One row per row of the features, one column per class."""
        ...


class Candidate(Protocol):
    """A way to train a model. Weights are those of the rows; a row of weight 0 is left out."""

    @property
    def name(self) -> str: ...

    @property
    def use(self) -> Use: ...

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        """Log-probabilities of every row, by a model that was not trained on its fold."""
        ...

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Fitted: ...


@final
class NetCandidate(NamedTuple):
    """Nets that are trained together: one per fold, or ``members`` whose probabilities are averaged."""

    net: Any
    method: ERM
    classes: tuple[str, ...]
    epochs: int
    batch_size: int
    lr: float | None
    members: int
    device: str
    verbose: bool

    @property
    def name(self) -> str:
        return "nets"

    @property
    def use(self) -> Use:
        return "weighted"

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        folds = np.unique(fold)
        nets = self._fit(features, labels, weight * (fold != folds[:, None]), seed)
        own = nets.scores(features.scaled)[np.searchsorted(folds, fold), np.arange(len(labels))]
        return np.asarray(log_softmax(own, 1))

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> "_AveragedNets":
        return _AveragedNets(self._fit(features, labels, np.tile(weight, (self.members, 1)), seed + 1))

    def _fit(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Nets:
        data = Dataset("rows", features.scaled, labels, self.classes)
        job = resolve(
            data, model=self.net, method=self.method, lr=self.lr, epochs=self.epochs, batch_size=self.batch_size,
            validation=0.0, seed=seed, device=self.device,
        )  # fmt: skip
        if self.verbose:
            net = python_name(job.config.model)
            print(f"{len(weight)} x {net}, {job.config.method}, {self.epochs} epochs of {len(data)} rows")
        return train_together(job, weight)


@final
class _AveragedNets(NamedTuple):
    nets: Nets

    def log_probabilities(self, features: Inputs) -> Floats:
        return log_mean(log_softmax(self.nets.scores(features.scaled), 2))


@final
class Wrapped(NamedTuple):
    """A classifier of scikit-learn, of which clones are trained.

    Rows are weighted if its ``fit`` takes weights. Otherwise rows of a weight below a half are left out.
    """

    estimator: Any
    name: str
    classes: npt.NDArray[Any]
    scaled: bool
    verbose: bool
    use: Use = "weighted"

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        scores = np.zeros((len(labels), len(self.classes)))
        for number in np.unique(fold):
            out = fold == number
            fitted = self.train(features, labels, weight * ~out, seed)
            scores[out] = fitted.log_probabilities(features.part(out))
        return scores

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> "_FittedClassifier":
        model = _seeded(clone(self.estimator), seed)
        argument = _weight_argument(model)
        used = weight > 0 if argument is not None else likely_right(labels, weight)
        if self.verbose:
            print(f"{self.name}, {used.sum()} rows")
        inputs = self._inputs(features.part(used))
        known = np.unique(labels[used])
        if len(known) > 1:
            options = {} if argument is None or np.ptp(weight[used]) == 0 else {argument: weight[used]}
            model.fit(inputs, self.classes[labels[used]], **options)
        return _FittedClassifier(self, model, known)

    def _inputs(self, features: Inputs) -> npt.NDArray[Any]:
        return features.scaled if self.scaled else features.given


@final
class _FittedClassifier(NamedTuple):
    candidate: Wrapped
    model: Any
    known: Ints  # the classes that it was trained on

    def log_probabilities(self, features: Inputs) -> Floats:
        shares = np.zeros((len(features.given), len(self.candidate.classes)))
        shares[:, self.known] = self._known_shares(features)
        shares = np.maximum(shares, _FLOOR)
        return np.asarray(np.log(shares / shares.sum(1, keepdims=True)))

    def _known_shares(self, features: Inputs) -> Any:
        if len(self.known) == 1:  # a fold may leave one class, to which classifiers cannot be fitted
            return 1.0
        inputs = self.candidate._inputs(features)
        if hasattr(self.model, "predict_proba"):
            return self.model.predict_proba(inputs)
        scores = np.asarray(self.model.decision_function(inputs))
        scores = np.stack([np.zeros(len(scores)), scores], 1) if scores.ndim == 1 else scores
        return np.exp(log_softmax(scores, 1))


def log_mean(log_probabilities: Floats) -> Floats:
    """The logarithm of the mean probabilities of several models, one table per model."""
    return np.asarray(logsumexp(log_probabilities, 0) - np.log(len(log_probabilities)))


def wrap(model: Any, classes: npt.NDArray[Any], weighted: bool, verbose: bool) -> Wrapped:
    """A user's classifier, which gets the features as they were given. Raise ValueError for what is not one.

    ``weighted`` says that rows have different weights, which it must then take.
    """
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type):
        raise PyriteError(f"model is the class {name}: give an object, such as {name}()")
    if not is_classifier(model):
        raise PyriteError(f"model is a {name}, which is not a classifier")
    if not (hasattr(model, "predict_proba") or hasattr(model, "decision_function")):
        raise PyriteError(
            f"model is a {name} without predict_proba and decision_function, so its labels have no scores"
        )
    if weighted and _weight_argument(model) is None:
        raise PyriteError(f"model is a {name} whose fit takes no sample_weight, but weights are not whole")
    return Wrapped(model, name, classes, False, verbose)


def is_estimator(model: Any) -> bool:
    """Whether a model is of scikit-learn, and not a net."""
    return isinstance(model, BaseEstimator) or (isinstance(model, type) and issubclass(model, BaseEstimator))


def _weight_argument(model: Any) -> str | None:
    """The name by which ``fit`` takes weights of rows; None if it takes none."""
    if isinstance(model, Pipeline):
        last, step = model.steps[-1]
        return f"{last}__sample_weight" if has_fit_parameter(step, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(model, "sample_weight") else None


def likely_right(labels: Ints, weight: Floats) -> npt.NDArray[np.bool_]:
    """Rows of at least half the weight, and all rows of a class that has no such row."""
    kept = weight >= 0.5
    present = np.isin(labels, labels[kept])
    return kept | (~present & (weight > 0))


def _seeded(model: Any, seed: int) -> Any:
    """The model with this seed wherever it has none, so that results are reproducible."""
    states = {name: seed for name, value in model.get_params().items() if name.endswith("random_state")}
    open_states = {name: state for name, state in states.items() if model.get_params()[name] is None}
    return model.set_params(**open_states)
