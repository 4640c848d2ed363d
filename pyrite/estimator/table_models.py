"""The models of tables that are trained beside a smooth one: gradient boosting and logistic regression."""

from typing import Any, Final, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pyrite.estimator.candidates import Candidate, Fitted, Inputs, Use, Wrapped, log_mean
from pyrite.estimator.rows import Floats, Ints

__all__ = ["boosting", "linear"]

_LEVELS: Final = 255  # the most that scikit-learn's histograms have
_MOST_CLASSES: Final = 100
_MOST_FEATURES: Final = 1000
_FAR: Final = 10.0  # standard deviations beyond which a linear model would be governed by single outliers


@final
class _Boosting(NamedTuple):
    """A short and a full boosting, whose probabilities are averaged at last. Held-out rows are scored by the short one.

    The full one would more than double the time of cross-validation, and is misled by the wrong labels that are still
    among the rows then.
    """

    short: Wrapped
    full: Wrapped

    @property
    def name(self) -> str:
        return "boosting"

    @property
    def use(self) -> Use:
        return "likely"

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        return self.short.held_out(features, labels, weight, fold, seed)

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> "_Mean":
        return _Mean(tuple(each.train(features, labels, weight, seed) for each in self))


@final
class _Mean(NamedTuple):
    models: tuple[Fitted, ...]

    def log_probabilities(self, features: Inputs) -> Floats:
        return log_mean(np.stack([model.log_probabilities(features) for model in self.models]))


def boosting(classes: npt.NDArray[Any], features: int, together: bool, verbose: bool) -> list[Candidate]:
    """Gradient boosting at scikit-learn's defaults, and a shorter one that wrong labels mislead less.

    Trees learn single wrong labels even if their weights are small, so rows with such labels are left out at last.

    None of them with many classes or features: each step grows one tree per class, and looks at every feature.

    Args:
        classes: the names of the classes.
        features: their number.
        together: one candidate of both, which takes less time.
        verbose: print a line for each training.
    """
    if len(classes) > _MOST_CLASSES or features > _MOST_FEATURES:
        return []
    short = HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=16, l2_regularization=5.0)
    both = [
        Wrapped(make_pipeline(_Levels(), model), name, classes, True, verbose, use="likely")
        for model, name in ((short, "short boosting"), (HistGradientBoostingClassifier(), "boosting"))
    ]
    return [_Boosting(*both)] if together else [*both]


def linear(classes: npt.NDArray[Any], verbose: bool) -> list[Candidate]:
    """Logistic regression on standardised features, with outliers moved to ten standard deviations.

    Twice: at scikit-learn's default strength of the penalty, and 100 times as strong, for few rows with much noise.
    """
    return [
        Wrapped(
            make_pipeline(FunctionTransformer(_without_outliers), LogisticRegression(C=c, max_iter=1000)),
            name, classes, True, verbose, use="all",
        )
        for c, name in ((1.0, "linear"), (0.01, "shrunken linear"))
    ]  # fmt: skip


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
