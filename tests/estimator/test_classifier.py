"""What ``RobustClassifier`` promises beyond scikit-learn's checks."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import pyrite
from pyrite import RobustClassifier


def quick(**options: Any) -> RobustClassifier:
    return RobustClassifier(**{"folds": 0, "members": 2, "epochs": 2, "batch_size": 32} | options)


@pytest.fixture(scope="module")
def digits() -> dict[str, Any]:
    """A third of the labels of each class are those of another class. Five digits take a third of the time."""
    inputs, true = load_digits(n_class=5, return_X_y=True)
    train, test, labels, answers = train_test_split(inputs, true, test_size=0.3, stratify=true, random_state=3)
    given = pyrite.corrupt(labels, "flip(0.3)", classes=5, seed=3).given
    fitted = RobustClassifier().fit(train, given)
    return {"train": train, "test": test, "given": given, "true": labels, "answers": answers, "fitted": fitted}


def moons(count: int = 80) -> tuple[Any, Any]:
    return make_moons(count, noise=0.2, random_state=0)


def test_it_sees_through_wrong_labels(digits: dict[str, Any]) -> None:
    usual = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(digits["train"], digits["given"])
    beaten = usual.score(digits["test"], digits["answers"])
    assert beaten < 0.85
    assert digits["fitted"].score(digits["test"], digits["answers"]) > 0.91


def test_it_says_which_labels_are_wrong(digits: dict[str, Any]) -> None:
    fitted, wrong = digits["fitted"], digits["given"] != digits["true"]
    assert roc_auc_score(wrong, fitted.wrong_probability_) > 0.95
    assert abs(fitted.noise_rate_ - wrong.mean()) < 0.08
    assert fitted.audit_.noise_interval[0] < wrong.mean() < fitted.audit_.noise_interval[1]
    assert wrong[fitted.suspects_].mean() > 0.8
    assert wrong[fitted.suspects_].sum() > 0.75 * wrong.sum()  # 79 %: the rate is estimated too low
    assert (np.diff(fitted.wrong_probability_[fitted.suspects_]) <= 1e-12).all()
    suggested = fitted.audit_.suggested[fitted.audit_.ranking[:50]]
    assert len(suggested) == 50


def test_probabilities_are_those_of_the_scores(digits: dict[str, Any]) -> None:
    fitted, some = digits["fitted"], digits["test"][:20]
    np.testing.assert_allclose(softmax(fitted.decision_function(some), 1), fitted.predict_proba(some), atol=1e-12)
    assert (fitted.classes_[fitted.decision_function(some).argmax(1)] == fitted.predict(some)).all()
    two = quick().fit(*moons())
    odds = two.predict_proba(moons()[0])
    np.testing.assert_allclose(two.decision_function(moons()[0]), np.log(odds[:, 1] / odds[:, 0]), atol=1e-9)


def test_a_pickle_and_a_clone(digits: dict[str, Any]) -> None:
    fitted, some = digits["fitted"], digits["test"][:20]
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.decision_function(some), fitted.decision_function(some))
    np.testing.assert_array_equal(again.suspects_, fitted.suspects_)
    loss = pyrite.IMAE(T=8)
    assert str(clone(RobustClassifier(loss, lr=0.5)).loss) == "imae(T=8)"


def test_weights_are_repetitions_also_where_there_is_an_audit() -> None:
    inputs, labels = moons(70)
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, 70)
    mixed = rng.permutation(70)
    weighted = RobustClassifier(epochs=2).fit(inputs[mixed], labels[mixed], sample_weight=counts[mixed])
    repeated = RobustClassifier(epochs=2).fit(inputs.repeat(counts, 0), labels.repeat(counts))
    np.testing.assert_array_equal(weighted.decision_function(inputs), repeated.decision_function(inputs))
    assert np.isnan(weighted.wrong_probability_[counts[mixed] == 0]).all()
    back = np.argsort(mixed)
    expected = weighted.wrong_probability_[back].repeat(counts)
    np.testing.assert_array_equal(expected, repeated.wrong_probability_)


def test_a_table_of_few_values() -> None:
    """Many rows are the same there, and differ in their labels: by those one sees which are wrong."""
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 4, (2000, 3))
    true = rng.integers(0, 3, (4, 4, 4))[tuple(inputs.T)]
    wrong = rng.random(2000) < 0.2
    given = np.where(wrong, (true + rng.integers(1, 3, 2000)) % 3, true)
    fitted = RobustClassifier().fit(inputs, given)
    assert (fitted.predict(inputs) == true).mean() > 0.9
    # Boosting predicts the shares of the labels in a cell, which explain a part of the wrong ones.
    assert abs(fitted.noise_rate_ - 0.2) < 0.08
    assert wrong[fitted.suspects_].mean() > 0.9
    one = rng.integers(0, 12, (600, 1))
    assert RobustClassifier().fit(one, one[:, 0] % 2).score(one, one[:, 0] % 2) > 0.95


def test_outliers() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(400, 3))
    labels = (inputs[:, 0] > 0).astype(int)
    inputs[:4, 0] = 1e9 * np.where(labels[:4], 1, -1)
    inputs[4, 1] = 1e300
    fitted = RobustClassifier().fit(inputs, labels)
    assert fitted.score(inputs, labels) > 0.95


def test_threads_get_what_one_alone_gets() -> None:
    inputs, labels = moons()
    before = torch.random.get_rng_state()
    alone = quick().fit(inputs, labels).predict_proba(inputs)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: quick().fit(inputs, labels).predict_proba(inputs), range(6)))
    for each in found:
        np.testing.assert_array_equal(each, alone)
    assert torch.equal(before, torch.random.get_rng_state())


def test_weights_matter_and_their_scale_does_not() -> None:
    inputs, labels = moons()
    weight = np.where(labels, 20.0, 1.0)
    plain, weighted = (quick(epochs=10).fit(inputs, labels, given) for given in (None, weight))
    assert weighted.predict_proba(inputs)[:, 1].mean() > plain.predict_proba(inputs)[:, 1].mean() + 0.05
    some, scaled = (quick(epochs=10).fit(inputs, labels, weight * factor) for factor in (0.3, 1e-300))
    np.testing.assert_allclose(scaled.predict_proba(inputs), some.predict_proba(inputs), atol=1e-4)


def test_labels_may_be_texts_and_columns_have_names() -> None:
    inputs, labels = moons()
    frame = pd.DataFrame(inputs, columns=["width", "height"])
    fitted = quick().fit(frame, pd.Series(np.where(labels, "new", "full")))
    assert fitted.classes_.tolist() == ["full", "new"]
    assert fitted.feature_names_in_.tolist() == ["width", "height"]
    assert set(fitted.predict(frame)) <= {"full", "new"}
    with pytest.raises(ValueError, match=r"same order as they were in fit\. Pass X\[list\(classifier"):
        fitted.predict(frame[["height", "width"]])


def test_pipelines_cross_validation_and_grids() -> None:
    inputs, labels = moons()
    assert len(cross_val_score(make_pipeline(StandardScaler(), quick()), inputs, labels, cv=2)) == 2
    losses = ["ce", "imae(T=8)", "gce(q=0.7)"]
    search = GridSearchCV(quick(), {"loss": losses}, cv=2).fit(inputs, labels)
    assert search.best_params_["loss"] in losses
    scores = {loss: quick(loss=loss).fit(inputs, labels).decision_function(inputs) for loss in losses}
    assert np.abs(scores["ce"] - scores["gce(q=0.7)"]).max() > 1e-3


def test_images() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    images = rng.integers(0, 60, (90, 3, 16, 16), dtype=np.uint8)
    images[np.arange(90), labels] += 150
    fitted = RobustClassifier(epochs=3, lr=0.05).fit(images, labels)
    assert fitted.score(images, labels) > 0.9
    assert fitted.wrong_probability_.shape == (90,)
    assert fitted.n_features_in_ == 3
    with pytest.raises(ValueError, match=r"rows of shape \(3, 8, 8\)"):
        fitted.predict(images[:, :, :8, :8])
    with pytest.raises(ValueError, match="X has images of float32, but the model was trained on images of bytes"):
        fitted.predict(images / 255)
    assert quick().fit(images.transpose(0, 2, 3, 1) / 255, labels).n_features_in_ == 3


def test_a_net_of_ones_own() -> None:
    inputs, labels = moons()
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    before = [weight.clone() for weight in net.parameters()]
    fitted = quick(model=net, epochs=20, lr=0.1).fit(inputs, labels)
    assert fitted.score(inputs, labels) > 0.75
    assert all(torch.equal(one, other) for one, other in zip(before, net.parameters(), strict=True))

    def made(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Linear(shape[0], classes)

    assert quick(model=made).fit(inputs, labels).predict(inputs).shape == (80,)


def test_a_step_in_one_column_is_found() -> None:
    """Held-out labels choose the net with bins where a threshold decides; without bins it is half as good."""
    rng = np.random.default_rng(0)
    inputs = np.exp(2 * rng.normal(size=(600, 4)))
    labels = ((inputs[:, 0] > 1) ^ (inputs[:, 1] > 2)).astype(int)
    fitted = RobustClassifier().fit(inputs[:400], labels[:400])
    without = RobustClassifier(model="mlp(hidden=(128, 128))").fit(inputs[:400], labels[:400])
    assert fitted.score(inputs[400:], labels[400:]) > 0.93
    assert fitted.score(inputs[400:], labels[400:]) > without.score(inputs[400:], labels[400:]) + 0.02


def test_an_audit_that_calls_most_labels_wrong_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = moons(200)
    labels[:20] = 1 - labels[:20]
    model = LogisticRegression()
    alone = RobustClassifier(model=model, folds=0).fit(inputs, labels).decision_function(inputs)
    followed = RobustClassifier(model=model).fit(inputs, labels).decision_function(inputs)
    assert np.abs(followed - alone).max() > 1e-3

    def doubtful_audit(given: Any, **options: Any) -> pyrite.Audit:
        return replace(pyrite.audit(given, **options), noise_rate=0.6)

    monkeypatch.setattr("pyrite.estimator.classifier.audit_scores", doubtful_audit)
    with pytest.warns(
        UserWarning, match="60 % of the labels seem to be wrong.*: the classifier may predict wrong classes"
    ):
        unweighted = RobustClassifier(model=model).fit(inputs, labels)
    np.testing.assert_array_equal(unweighted.decision_function(inputs), alone)


def test_seeds() -> None:
    inputs, labels = moons()

    def scores(state: Any) -> Any:
        return quick(random_state=state).fit(inputs, labels).decision_function(inputs)

    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    np.testing.assert_array_equal(scores(4), scores(4))
    np.testing.assert_array_equal(scores(np.random.RandomState(1)), scores(np.random.RandomState(1)))
    assert np.abs(scores(4) - scores(5)).max() > 0
    assert np.abs(scores(None) - scores(None)).max() > 0
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


def test_few_rows_have_no_audit() -> None:
    inputs, labels = moons(40)
    fitted = RobustClassifier(epochs=2).fit(inputs, labels)
    assert fitted.audit_ is None
    assert np.isnan(fitted.noise_rate_)
    assert np.isnan(fitted.wrong_probability_).all()
    assert len(fitted.suspects_) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folds": 1}, "folds is 1"),
        ({"folds": 2.5}, "folds is 2.5"),
        ({"members": 0}, "members is 0"),
        ({"epochs": -1}, "epochs is -1"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 1}, "batch_size is 1"),
        ({"model": nn.Linear(2, 3)}, r"model is a Linear that gives scores of shape \(2, 3\)"),
        ({"model": nn.Linear(5, 2)}, "model is a Linear that does not take"),
        ({"model": nn.Linear(2, 2).requires_grad_(False)}, "model is a Linear without weights"),
        ({"loss": "gcee"}, "gce"),
        ({"model": "mpl"}, "mlp"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"device": "nowhere"}, "device is 'nowhere'"),
        ({"random_state": -3}, "random_state is -3"),
        ({"loss": "ce", "lr": 1e30}, "training diverged"),
    ],
)
def test_bad_settings_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        quick(**options).fit(*moons())


def test_bad_data_get_a_sentence() -> None:
    inputs, labels = moons()
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        quick().fit(csr_array(inputs), labels)
    with pytest.raises(ValueError, match="NaN"):
        quick().fit(np.where(inputs > 1, np.nan, inputs), labels)
    with pytest.raises(ValueError, match="one class"):
        quick().fit(inputs, np.zeros(80))
    with pytest.raises(ValueError, match="one class"):
        quick().fit(inputs, labels, sample_weight=1.0 * (labels == 0))
    with pytest.raises(ValueError, match=r"sample_weight is -1\.0 at index 0: weights must be 0 or more"):
        quick().fit(inputs, labels, sample_weight=np.where(labels, -1.0, 1.0))
    with pytest.raises(ValueError, match="y is None at index 3"):
        quick().fit(inputs, np.array(["a", "b", "a", None] * 20, object))
    with pytest.raises(ValueError, match="y is <NA> at index 1"):
        quick().fit(inputs, pd.Series(["a", None] * 40, dtype="string"))
    with pytest.raises(ValueError, match="Unknown label type"):
        quick().fit(inputs, inputs[:, 0])


def test_it_says_what_it_does_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    fitted = RobustClassifier(epochs=1, verbose=True, folds=2).fit(*moons())
    lines = capsys.readouterr().out.splitlines()
    assert "2 x mlp(hidden=(128, 128), limit=3, centred=True), erm(unit(mae)), 1 epochs of 80 rows" in lines[0]
    folds = [int(line.split()[1]) for line in lines if line.startswith("linear, ") and line != "linear, 80 rows"]
    assert sum(folds) == 80
    assert len(folds) == 2
    assert repr(fitted.choice_) in lines
    RobustClassifier(epochs=1).fit(*moons())
    assert capsys.readouterr().out == ""
