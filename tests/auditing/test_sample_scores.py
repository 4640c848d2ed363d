"""Scores of samples beside the probability that their labels are wrong; samples that look like none of the classes."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gmean
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

import pyrite
from pyrite.auditing import SCORES, AuditScore, Evidence
from pyrite.report.audit_page import write_audit_page


def test_flatness_is_a_ratio_of_means() -> None:
    probabilities = np.random.default_rng(0).dirichlet(np.ones(7), 50)
    expected = gmean(probabilities, axis=1) / probabilities.mean(1)
    for values, wanted in ((np.log(probabilities), expected), (np.array([[0.0, -800.0], [-800.0, 0.0]]), np.zeros(2))):
        found = SCORES["no_class"].compute(Evidence(values, np.zeros(len(values), np.int64)))
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-100)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores and labels of the digits 0 to 7, of which a tenth is wrong, and of 8 and 9 with random labels."""
    images, digit = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    few = np.flatnonzero((digit < 8) | (np.arange(len(digit)) % 5 == 0))
    images, digit = images[few] / 16, digit[few]
    stranger = digit > 7
    given = np.where(stranger | (random.random(len(digit)) < 0.1), random.integers(0, 8, len(digit)), digit)
    net = LogisticRegression(max_iter=500)
    return cross_val_predict(net, images, given, method="predict_proba", cv=3), given, stranger


def test_digits_of_no_class_are_found(digits: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    scores, given, stranger = digits
    found = pyrite.audit(given, scores=scores, kind="probabilities")
    assert found.no_class is not None
    assert ((found.no_class >= 0) & (found.no_class <= 1)).all()
    assert roc_auc_score(stranger, found.no_class) > 0.9
    wrong = stranger | (found.wrong_probability > 0.9)
    # The score of wrong labels does not tell the two apart.
    assert roc_auc_score(stranger[wrong], found.no_class[wrong]) > 0.8
    assert roc_auc_score(stranger[wrong], found.score[wrong]) < 0.6
    with found.to_csv(tmp_path / "suspects.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    column = [float(row["no_class"]) for row in rows]
    np.testing.assert_allclose(column, found.no_class[found.ranking], rtol=1e-5)


def test_scale_and_labels_do_not_matter(digits: tuple[np.ndarray, ...]) -> None:
    scores, given, _ = digits
    first = pyrite.audit(given, scores=np.log(scores), kind="logits").no_class
    second = pyrite.audit(np.roll(given, 1), scores=5 * np.log(scores) + 3, kind="logits").no_class
    np.testing.assert_allclose(first, second, rtol=1e-6)


class Gap(AuditScore):
    name, heading, help, listed = (
        "gap",
        "gap of two",
        "how far the best class is ahead",
        "Samples with the largest gap.",
    )

    def compute(self, evidence: Evidence) -> np.ndarray:
        second, first = np.sort(evidence.log_p, axis=1)[:, -2:].T
        return first - second


def test_a_score_is_one_class(digits: tuple[np.ndarray, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry of the registry, and it is in the order, the frame, the CSV, the JSON and the page."""
    monkeypatch.setitem(SCORES, "gap", Gap())
    found = pyrite.audit(digits[1], scores=digits[0], kind="probabilities")
    values = found.evidence["gap"]
    assert (np.diff(values[found.ranked_by("gap")]) <= 0).all()
    np.testing.assert_array_equal(found.to_frame()["gap"], values[found.ranking])
    assert "gap" in found.to_csv(tmp_path / "suspects.csv").read_text().splitlines()[0].split(",")
    assert found.summary()["scores"]["gap"] == {"help": Gap.help, "highest": found.ranked_by("gap")[:10].tolist()}
    page = write_audit_page(found, tmp_path / "page.html").read_text()
    assert all(text in page for text in (f'"heading":"{Gap.heading}"', Gap.help, Gap.listed, 'data-list="gap"'))
