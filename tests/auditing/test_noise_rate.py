"""How many labels are wrong: the features, the regressions, and simulated labels that no regression has seen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.datasets import load_diabetes, load_wine, make_blobs
from sklearn.linear_model import LogisticRegression, QuantileRegressor
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyrite
from benchmarks import audit_rate, audit_summaries
from pyrite.auditing.noise_fit import LabelGroups, fit_noise
from pyrite.auditing.noise_rate import FEATURES, LEAST, Basis, OddsCalibration, estimate_rate, features
from pyrite.auditing.probabilities import log_odds


def overlapping(samples: int, noise: float, seed: int = 0, classes: int = 2) -> tuple[Any, Any, Any]:
    """Out-of-fold probabilities of classes that overlap, labels of which some are wrong, and which are wrong."""
    random = np.random.default_rng(seed)
    true = random.integers(0, classes, samples)
    inputs = random.normal(size=(samples, 4)) + 1.7 * np.eye(4)[true]
    wrong = random.random(samples) < noise
    given = np.where(wrong, (true + random.integers(1, classes, samples)) % classes, true)
    p = cross_val_predict(LogisticRegression(), inputs, given, cv=3, method="predict_proba")
    return p, given, given != true


def groups_of(p: Any, labels: Any) -> LabelGroups:
    return LabelGroups(np.log(p), labels)


def test_features_by_hand() -> None:
    p, given, _ = overlapping(400, 0.2, classes=3)
    groups = groups_of(p, given)
    found = dict(zip(FEATURES, features(groups).tolist(), strict=True))
    z = groups.sharpness * np.log(p)
    q = softmax(z, axis=1)
    differ, doubt = q.argmax(1) != given, 1 - q.max(1)
    ordered = np.sort(z, axis=1)
    gaps = ordered[:, -1] - ordered[:, -2]
    surest = gaps >= np.quantile(gaps, 0.67)
    assert found["differ"] ** 2 == pytest.approx(differ.mean())
    assert found["doubt"] ** 2 == pytest.approx(doubt.mean())
    assert found["differ 0.33"] ** 2 == pytest.approx(differ[surest].mean(), abs=0.01)
    assert found["far 2"] ** 2 == pytest.approx((z[np.arange(400), given] - z.max(1) < -2).mean())
    assert found["classes"] == 1 / 3
    assert found["spread of classes"] == pytest.approx(np.std([differ[given == each].mean() for each in range(3)]))
    least = min(
        differ[(q.argmax(1) == each) & (gaps >= np.quantile(gaps[q.argmax(1) == each], 0.67))].mean()
        for each in range(3)
    )
    assert found["surest class"] ** 2 == pytest.approx(least)


def test_features_do_not_depend_on_scale_or_order() -> None:
    p, given, _ = overlapping(300, 0.2, classes=4)
    found = features(groups_of(p, given))
    scaled = softmax(3 * np.log(p), axis=1)
    order = np.random.default_rng(0).permutation(300)
    assert features(groups_of(scaled, given)) == pytest.approx(found, abs=0.02)  # the search of the sharpness is coarse
    assert features(groups_of(p[order], given[order])) == pytest.approx(found, abs=1e-9)
    names = np.array([2, 0, 3, 1])
    assert features(groups_of(p[:, np.argsort(names)], names[given])) == pytest.approx(found, abs=1e-9)


def test_the_basis_by_hand() -> None:
    basis = Basis(np.array([1.0, 2.0]), np.array([2.0, 0.5]), np.array([[0.0, 1.0], [5.0, -5.0]]))
    assert basis(np.array([3.0, 2.5])) == pytest.approx(np.array([[1, 1, 1, np.exp(-0.05), np.exp(-0.05 * 52)]]))
    assert basis(np.array([1e9, -1e9])) == pytest.approx(np.array([[1, 5, -5, np.exp(-0.05 * 61), 1]]))  # cut at 5


def test_the_regression_has_the_least_absolute_errors() -> None:
    random = np.random.default_rng(0)
    inputs = np.column_stack([np.ones(400), random.normal(size=(400, 2))])
    target = inputs @ [0.2, 0.1, -0.3] + 0.1 * random.standard_t(2, 400)
    found = audit_rate.median_regression(inputs, target)
    exact = QuantileRegressor(alpha=0).fit(inputs[:, 1:], target)
    assert found == pytest.approx([exact.intercept_, *exact.coef_], abs=0.01)


def test_the_fit_of_the_shipped_regressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitted again to the summaries, the numbers are those of the file; its interval covers what it should."""
    monkeypatch.setattr(audit_rate, "best_slope", lambda *_: 0.0)  # takes most of the time
    cells = audit_summaries.read_summaries()
    told, shipped = audit_rate.regressions(cells[cells.can_tell].reset_index(drop=True))
    with np.load(audit_rate.SHIPPED) as file:
        assert set(file.files) == set(shipped)
        assert file["ends"] == pytest.approx(shipped["ends"], abs=0.05)
    assert ((told.low <= told.rate) & (told.rate <= told.high)).mean() > 0.9


def test_summaries_have_what_the_fit_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_summaries, "SUMMARIES", tmp_path / "summaries.npz")
    made = {f"table{seed}__logistic__symmetric_0.2": overlapping(300 + seed, 0.2, seed, 3) for seed in (0, 1)}
    for name, (p, given, wrong) in made.items():
        np.savez(tmp_path / f"{name}.npz", P=p, given=given, true=np.where(wrong, -1, given))
        audit_summaries.add_summaries(tmp_path, name.partition("__")[0])
    assert audit_summaries.known_sets() == {"table0", "table1"}
    read = audit_summaries.read_summaries()
    for (p, given, wrong), row in zip(made.values(), read.itertuples(), strict=True):
        audit, groups = pyrite.audit(given, scores=p, kind="probabilities"), groups_of(p, given)
        odds = log_odds(fit_noise(groups).log_joint(np.log(p), given), given)
        assert row.rate == wrong.mean()
        assert row.differ == pytest.approx(features(groups)[0], abs=1e-6)
        assert row.ap == pytest.approx(average_precision_score(wrong, audit.score), abs=1e-6)
        assert (row.cell.wrong == wrong[audit.ranking]).all()
        assert abs(row.cell.odds - np.sort(odds)[::-1]).mean() < 0.05  # by 65 quantiles


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("noise", [0.0, 0.08, 0.3])
def test_overlapping_classes_are_never_called_clean(noise: float, classes: int) -> None:
    """What a new user has: classes that overlap, so that 12 to 30 % of right labels differ from the preferred class."""
    p, given, wrong = overlapping(4000, noise, classes=classes)
    found = pyrite.audit(given, scores=p, kind="probabilities")
    low, high = found.noise_interval
    assert low <= wrong.mean() <= high
    assert abs(found.noise_rate - wrong.mean()) < 0.08
    assert found.noise_rate > 0.999 * LEAST
    assert found.wrong_probability.min() > found.noise_rate / 101
    assert found.is_suspect.any()


@pytest.mark.parametrize("name", ["quintiles", "blobs"])
def test_clean_classes_that_overlap_may_be_clean(name: str) -> None:
    """Half of the labels or more differ from the preferred class, and all are right. No set of the regression."""
    if name == "quintiles":
        inputs, values = load_diabetes(return_X_y=True)
        labels = np.digitize(values, np.quantile(values, [0.2, 0.4, 0.6, 0.8]))
    else:
        inputs, labels = make_blobs(900, centers=[[0, 0], [1, 0], [0, 1]], cluster_std=1.0, random_state=0)
    scores = cross_val_predict(LogisticRegression(), inputs, labels, cv=5, method="predict_log_proba")
    found = pyrite.audit(labels, scores=scores, kind="log-probabilities")
    assert (scores.argmax(1) != labels).mean() > 0.4
    assert found.noise_interval[0] == 0


def test_all_numbers_agree() -> None:
    p, given, _ = overlapping(1000, 0.15, classes=3)
    found = pyrite.audit(given, scores=p, kind="probabilities")
    assert found.wrong_probability.mean() == pytest.approx(found.noise_rate, abs=1e-9)
    true = found.posterior.sum(0)
    assert 1 - true @ np.diag(found.matrix) / len(given) == pytest.approx(found.noise_rate, abs=1e-5)


def test_no_cliffs() -> None:
    """A little more noise in scores or labels changes the answer a little."""
    p, given, _ = overlapping(2000, 0.1, classes=3)
    before = pyrite.audit(given, scores=p, kind="probabilities").noise_rate
    random = np.random.default_rng(0)
    for _ in range(10):
        moved = np.log(p) + 0.02 * random.normal(size=p.shape)
        assert abs(pyrite.audit(given, scores=moved, kind="logits").noise_rate - before) < 0.02
        few = random.permutation(2000)[:4]
        other = given.copy()
        other[few] = (other[few] + 1) % 3
        assert abs(pyrite.audit(other, scores=p, kind="probabilities").noise_rate - before) < 0.02
    rates = []
    for noise in (0.0, 0.1, 0.2, 0.3, 0.4):
        p, given, _ = overlapping(2000, noise, classes=3)
        rates.append(pyrite.audit(given, scores=p, kind="probabilities").noise_rate)
    assert np.all(np.diff(rates) > -0.01)


def test_perfect_scores_allow_perfect_labels() -> None:
    labels = np.arange(200) % 4
    rate = estimate_rate(groups_of(softmax(9 * np.eye(4)[labels], axis=1), labels))
    assert rate.rate <= 1 / 200
    assert rate.low == 0


def test_probabilities_have_the_mean_that_they_should() -> None:
    odds = np.random.default_rng(0).normal(size=500) * 30
    for rate in (0.001, 0.2, 0.9):
        chances = expit(OddsCalibration.of(odds, rate, 0.8)(odds))
        assert chances.mean() == pytest.approx(rate, abs=1e-7)
        assert chances.min() > min(rate, 1 - rate) / 101  # one in a hundred wrong labels may be anywhere
        assert (np.argsort(chances, kind="stable") == np.argsort(odds)).all()


def test_a_real_table_that_is_clean() -> None:
    """wine is among the sets of the regression; here with another model and other folds."""
    inputs, labels = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
    scores = cross_val_predict(model, inputs, labels, cv=4, method="predict_log_proba")
    found = pyrite.audit(labels, scores=scores, kind="log-probabilities")
    assert found.noise_rate < 0.03
    assert found.noise_interval[0] == 0
