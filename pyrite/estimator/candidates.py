"""What ``RobustClassifier`` trains: several nets at once, or a classifier of scikit-learn."""

from typing import Any, Final, NamedTuple, Protocol, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import has_fit_parameter

from pyrite.data import Dataset
from pyrite.estimator.rows import Floats, Ints
from pyrite.estimator.together import Nets, train_together
from pyrite.methods import ERM
from pyrite.training import resolve

__all__ = ["Candidate", "Fitted", "Inputs", "NetCandidate", "Wrapped", "boosting", "is_estimator", "linear", "wrap"]

_FLOOR: Final = 1e-12  # the smallest probability of a class; boosting rounds smaller ones to 0
_LEVELS: Final = 255  # the most that scikit-learn's histograms have
_MOST_CLASSES: Final = 100
_MOST_FEATURES: Final = 1000
_FAR: Final = 10.0  # standard deviations beyond which a linear model would be governed by single outliers


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

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        folds = np.unique(fold)
        nets = self._fit(features, labels, weight * (fold != folds[:, None]), seed)
        own = nets.scores(features.scaled)[np.searchsorted(folds, fold), np.arange(len(labels))]
        return np.asarray(log_softmax(own, 1))

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> "_AveragedNets":
        return _AveragedNets(self._fit(features, labels, np.tile(weight, (self.members, 1)), seed + 1))

    def _fit(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Nets:
        data = Dataset("rows", features.scaled, labels, self.classes)
        plan = resolve(
            data, model=self.net, method=self.method, lr=self.lr, epochs=self.epochs, batch_size=self.batch_size,
            validation=0.0, seed=seed, device=self.device,
        )  # fmt: skip
        recipe, method = plan.recipe, plan.method
        assert isinstance(method, ERM)
        if self.verbose:
            print(f"{len(weight)} x {recipe.model}, {recipe.method}, {self.epochs} epochs of {len(data)} rows")
        return train_together(data, weight, recipe.model if self.net is None else self.net, method, recipe)


@final
class _AveragedNets(NamedTuple):
    nets: Nets

    def log_probabilities(self, features: Inputs) -> Floats:
        per_net = self.nets.scores(features.scaled)
        return np.asarray(logsumexp(log_softmax(per_net, 2), 0) - np.log(len(per_net)))


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
        used = weight > 0 if argument is not None else _likely_right(labels, weight)
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


def boosting(classes: npt.NDArray[Any], features: int, verbose: bool) -> list[Candidate]:
    """Gradient boosting at scikit-learn's defaults, and a shorter one that wrong labels mislead less.

    None of them with many classes or features: each step grows one tree per class, and looks at every feature.
    """
    if len(classes) > _MOST_CLASSES or features > _MOST_FEATURES:
        return []
    short = HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=16, l2_regularization=5.0)
    full = HistGradientBoostingClassifier()
    return [
        Wrapped(make_pipeline(_Levels(), model), name, classes, True, verbose)
        for model, name in ((short, "short boosting"), (full, "boosting"))
    ]


def linear(classes: npt.NDArray[Any], verbose: bool) -> Candidate:
    """Logistic regression on standardised features, with outliers moved to ten standard deviations."""
    model = make_pipeline(FunctionTransformer(_without_outliers), LogisticRegression(max_iter=1000))
    return Wrapped(model, "linear", classes, True, verbose)


@final
class _Levels(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Each feature by its place among 255 quantiles, as histogram boosting itself would do.

    Its own quantiles of weighted rows take 30 times as long as the rest of the training (scikit-learn 1.9).
    """

    def fit(self, features: Floats, labels: object = None) -> Self:
        places = np.linspace(0, 1, _LEVELS + 1)[1:-1]
        self.edges_ = [np.unique(edges) for edges in np.quantile(features, places, axis=0, method="midpoint").T]
        return self

    def transform(self, features: Floats) -> Floats:
        columns = [np.searchsorted(edges, column) for edges, column in zip(self.edges_, features.T, strict=True)]
        return np.stack(columns, 1).astype(np.float64)


def _without_outliers(features: npt.NDArray[Any]) -> Floats:
    return np.asarray(features.clip(-_FAR, _FAR), np.float64)


def wrap(model: Any, classes: npt.NDArray[Any], weighted: bool, verbose: bool) -> Wrapped:
    """A user's classifier, which gets the features as they were given. Raise ValueError for what is not one.

    ``weighted`` says that rows have different weights, which it must then take.
    """
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type):
        raise ValueError(f"model is the class {name}: give an object, such as {name}()")
    if not is_classifier(model):
        raise ValueError(f"model is a {name}, which is not a classifier")
    if not (hasattr(model, "predict_proba") or hasattr(model, "decision_function")):
        raise ValueError(f"model is a {name} without predict_proba and decision_function, so its labels have no scores")
    if weighted and _weight_argument(model) is None:
        raise ValueError(f"model is a {name} whose fit takes no sample_weight, but weights are not whole")
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


def _likely_right(labels: Ints, weight: Floats) -> npt.NDArray[np.bool_]:
    """Rows of at least half the weight, and all rows of a class that has no such row."""
    kept = weight >= 0.5
    present = np.isin(labels, labels[kept])
    return kept | (~present & (weight > 0))


def _seeded(model: Any, seed: int) -> Any:
    """The model with this seed wherever it has none, so that results are reproducible."""
    states = {name: seed for name, value in model.get_params().items() if name.endswith("random_state")}
    open_states = {name: state for name, state in states.items() if model.get_params()[name] is None}
    return model.set_params(**open_states)
