"""Classifiers of scikit-learn as the model, and several models weighed by held-out labels."""

from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import pyrite
from pyrite import RobustClassifier
from pyrite.estimator.mixture import Calibration, mixture_weights, why_doubtful

WEIGHTED_FORESTS = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="scikit-learn before 1.9 draws the rows of a tree without their weights",
)


class Recorder(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Remembers what it was fitted with, and predicts like naive Bayes."""

    seen: list[tuple[Any, Any, Any]] = []  # noqa: RUF012  # clones share it

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Recorder":  # noqa: N803
        self.seen.append((X, y, sample_weight))
        self.bayes_ = GaussianNB().fit(X, y, sample_weight)
        self.classes_ = self.bayes_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        return self.bayes_.predict_proba(X)


class Unweighted(Recorder):
    """The same without weights."""

    seen: list[tuple[Any, Any, Any]] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any) -> "Unweighted":  # noqa: N803
        super().fit(X, y)
        return self


@pytest.fixture
def noisy_iris() -> tuple[Any, Any, Any]:
    inputs, true = load_iris(return_X_y=True)
    given = pyrite.corrupt(true, "symmetric(0.2)", classes=3, seed=1).given
    return inputs, np.array(["setosa", "versicolor", "virginica"])[given], given != true


def test_a_classifier_gets_rows_labels_and_weights_as_they_are(noisy_iris: tuple[Any, Any, Any]) -> None:
    inputs, labels, wrong = noisy_iris
    Recorder.seen.clear()
    fitted = RobustClassifier(model=Recorder()).fit(inputs, labels)
    assert len(Recorder.seen) == 6  # five folds, then all rows
    rows, given, weight = Recorder.seen[-1]
    order = fitted.audit_.index
    np.testing.assert_array_equal(rows, inputs[order])
    np.testing.assert_array_equal(given, labels[order])
    np.testing.assert_allclose(weight, 1 - fitted.audit_.wrong_probability)
    assert weight[wrong[order]].mean() < 0.35
    assert weight[~wrong[order]].mean() > 0.9
    by_hand = GaussianNB().fit(inputs, labels, 1 - fitted.wrong_probability_)
    np.testing.assert_allclose(fitted.predict_proba(inputs), by_hand.predict_proba(inputs), atol=1e-9)


@pytest.mark.parametrize("setting", [{"loss": "gce(q=0.7)"}, {"epochs": 3}, {"lr": 0.1}, {"members": 2}])
def test_settings_of_nets_are_not_ignored(setting: dict[str, Any], noisy_iris: tuple[Any, Any, Any]) -> None:
    inputs, labels, _ = noisy_iris
    for model in (LogisticRegression(), [LogisticRegression(), GaussianNB()]):
        with pytest.raises(ValueError, match="but LogisticRegression is not a net: omit"):
            RobustClassifier(model=model, **setting).fit(inputs, labels)


def test_rows_are_left_out_if_it_takes_no_weights(noisy_iris: tuple[Any, Any, Any]) -> None:
    inputs, labels, wrong = noisy_iris
    Unweighted.seen.clear()
    fitted = RobustClassifier(model=Unweighted()).fit(inputs, labels)
    kept = fitted.audit_.index[fitted.audit_.wrong_probability <= 0.5]
    np.testing.assert_array_equal(Unweighted.seen[-1][0], inputs[kept])
    assert wrong[kept].mean() < 0.08
    with pytest.raises(ValueError, match="model is a Unweighted whose fit takes no sample_weight"):
        RobustClassifier(model=Unweighted()).fit(inputs, labels, np.linspace(1, 2, 150))


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(),
        KNeighborsClassifier(),
        pytest.param(RandomForestClassifier(20), marks=WEIGHTED_FORESTS),
        make_pipeline(StandardScaler(), LogisticRegression()),
        [GaussianNB(), LogisticRegression(max_iter=1000)],
    ],
    ids=lambda model: type(model).__name__,
)
def test_any_classifier(model: Any, noisy_iris: tuple[Any, Any, Any]) -> None:
    inputs, labels, wrong = noisy_iris
    true = np.repeat(["setosa", "versicolor", "virginica"], 50)
    fitted = RobustClassifier(model=model).fit(inputs, labels)
    assert fitted.score(inputs, true) > 0.88
    assert wrong[fitted.suspects_].mean() > 0.6
    again = RobustClassifier(model=model).fit(inputs, labels)
    np.testing.assert_array_equal(fitted.predict_proba(inputs), again.predict_proba(inputs))


def test_a_class_that_a_fold_lacks() -> None:
    inputs, labels = make_moons(60, noise=0.1, random_state=0)
    labels[7] = 2
    fitted = RobustClassifier(model=LogisticRegression()).fit(inputs, labels)
    assert fitted.predict_proba(inputs).shape == (60, 3)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LogisticRegression, r"model is the class LogisticRegression: give an object, such as LogisticRegression\(\)"),
        (LinearRegression(), "model is a LinearRegression, which is not a classifier"),
        (NearestNeighbors(), "model is a NearestNeighbors, which is not a classifier"),
        ([], "model is an empty list"),
        (["mlp", 3], "model is 3"),
    ],
)
def test_what_is_not_a_model(model: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RobustClassifier(model=model, epochs=1).fit(*make_moons(60, random_state=0))


def test_images_need_nets() -> None:
    images = np.zeros((60, 1, 8, 8), np.uint8)
    with pytest.raises(ValueError, match="takes rows of features, but X is images"):
        RobustClassifier(model=GaussianNB()).fit(images, np.arange(60) % 2)


def test_trees_and_lines_are_chosen_where_they_suit() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(500, 6))
    steps = ((abs(inputs[:, 0]) < 0.9) & (inputs[:, 1] > -0.8)).astype(int)
    line = (inputs @ [1, -1, 2, 0.5, -1.5, 1] > 0.2).astype(int)
    for true, best in ((steps, "boosting"), (line, "linear")):
        given = pyrite.corrupt(true, "symmetric(0.2)", classes=2, seed=0).given
        fitted = RobustClassifier().fit(inputs[:350], given[:350])
        choice = fitted.choice_
        assert sum(share for name, share in zip(choice.models, choice.weights, strict=True) if best in name) > 0.5
        assert choice.weights.sum() == pytest.approx(1)
        assert f"% {choice.models[choice.weights.argmax()]}" in repr(choice)
        assert fitted.score(inputs[350:], true[350:]) > 0.9


@pytest.mark.filterwarnings("ignore:.*may predict wrong classes")  # five rows tell little of a class
def test_many_classes_are_not_boosted() -> None:
    labels = np.arange(505) // 5
    fitted = RobustClassifier(epochs=1, folds=2).fit(labels[:, None] + np.arange(505)[:, None] / 1000, labels)
    assert fitted.choice_.models == ("nets", "linear", "shrunken linear")


def test_weights_have_the_largest_likelihood() -> None:
    """Against scipy's general minimiser."""
    rng = np.random.default_rng(0)
    likelihood = rng.uniform(size=(3, 40)) * [[1.0], [1.2], [0.5]]
    weight = rng.uniform(0.5, 2, 40)

    def cost(free: Any) -> float:
        found = softmax(free)
        return float(-(weight * np.log(found @ likelihood)).sum() - np.log(found).sum())

    best = minimize(cost, np.zeros(3), tol=1e-10).x
    np.testing.assert_allclose(
        mixture_weights(np.log(likelihood), weight), np.exp(best) / np.exp(best).sum(), atol=1e-3
    )


def test_calibration_undoes_uneven_noise() -> None:
    """A model that predicts the shares of given labels exactly becomes one of the true classes."""
    rng = np.random.default_rng(0)
    right = 1 / (1 + np.exp(-rng.normal(0, 4, 4000)))
    true = (rng.uniform(size=4000) < right).astype(int)
    given = np.where((true == 0) & (rng.uniform(size=4000) < 0.4), 1, true)
    shares = np.stack([0.6 * (1 - right), right + 0.4 * (1 - right)], 1)
    calibration = Calibration.of(np.log(shares), given)
    found = np.exp(calibration.log_probabilities(np.log(shares)))
    assert calibration.fit.matrix[0, 1] > 0.25 > 0.02 > calibration.fit.matrix[1, 0]  # 0.4 and 0
    assert (found.argmax(1) == true).mean() > (shares.argmax(1) == true).mean() + 0.05
    rows = np.arange(4000)
    ideal = np.log(np.where(true == 1, right, 1 - right)).mean()
    before, after = (np.log(each[rows, true]).mean() for each in (shares, found))
    assert after > (before + 2 * ideal) / 3  # two thirds of the way to the truth, or more


def test_a_class_taken_for_another() -> None:
    scores = np.log(np.array([[0.8, 0.1, 0.1]] * 40 + [[0.1, 0.8, 0.1]] * 40 + [[0.1, 0.1, 0.8]] * 40))
    labels = np.array([0] * 18 + [1] * 22 + [1] * 36 + [2] * 4 + [2] * 40)
    names = "a", "b", "c"
    assert why_doubtful(scores, labels, np.ones(120), names).startswith("rows that are predicted to be 'a' have the")
    assert why_doubtful(scores, labels, np.where(labels == 0, 2.0, 1.0), names) == ""
    # 58 of 120 have the label b, and 69 are predicted, 2.01 standard errors more; one less is not enough.
    labels = np.array([1] * 29 + [0] * 11 + [1] * 29 + [0] * 11 + [2] * 29 + [0] * 11)
    assert "predicted to be 'a'" in why_doubtful(scores, labels, np.ones(120), names)
    labels[80] = 0
    expected = "of the held-out labels 57 % are predicted, and 48 % are the same"
    assert why_doubtful(scores, labels, np.ones(120), names) == expected


def test_it_warns_where_labels_say_nothing() -> None:
    inputs, labels = load_breast_cancer(return_X_y=True)
    mixed = np.random.default_rng(0).permutation(labels)
    with pytest.warns(UserWarning, match=r"63 % are the same: the classifier may predict wrong classes"):
        fitted = RobustClassifier(model=GaussianNB()).fit(inputs, mixed)
    assert np.isnan(fitted.noise_rate_)
