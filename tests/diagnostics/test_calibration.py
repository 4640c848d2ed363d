import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from pyrite.diagnostics import brier_score, brier_score_of_event, reliability, top_label


def test_by_hand() -> None:
    curve = reliability([0.1, 0.25, 0.3, 0.9, 1.0], [False, True, False, True, True], bins=4)
    assert curve.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert curve.count.tolist() == [2, 1, 0, 2]  # 0.25 belongs to the bin it closes
    assert curve.confidence[[0, 1, 3]].tolist() == pytest.approx([0.175, 0.3, 0.95])
    assert curve.accuracy[[0, 1, 3]].tolist() == [0.5, 0.0, 1.0]
    assert np.isnan(curve.confidence[2])
    assert np.isnan(curve.accuracy[2])
    assert curve.expected_calibration_error == pytest.approx((2 * 0.325 + 1 * 0.3 + 2 * 0.05) / 5)
    assert curve.maximum_calibration_error == pytest.approx(0.325)


events = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


@settings(deadline=None)
@given(events, st.integers(1, 20))
def test_against_scikit_learn(rows: list[tuple[float, bool]], bins: int) -> None:
    said, came = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    curve = reliability(said, came, bins)
    used = curve.count > 0
    accuracy, confidence = calibration_curve(came, said, n_bins=bins, pos_label=True)
    np.testing.assert_allclose(curve.accuracy[used], accuracy, atol=1e-12)
    np.testing.assert_allclose(curve.confidence[used], confidence, atol=1e-12)
    assert curve.count.sum() == len(rows)
    assert brier_score_of_event(said, came) == pytest.approx(brier_score_loss(came, said, pos_label=True), abs=1e-12)
    both = np.column_stack([1 - said, said])
    assert brier_score(both, came.astype(int)) == pytest.approx(2 * brier_score_loss(came, said, pos_label=True))


def test_brier_of_three_classes_by_hand() -> None:
    probabilities = [[0.7, 0.2, 0.1], [0.0, 0.0, 1.0]]
    assert brier_score(probabilities, [0, 0]) == pytest.approx(((0.09 + 0.04 + 0.01) + 2) / 2)
    assert brier_score(probabilities, [0, 2]) == pytest.approx(0.07)


def test_top_label() -> None:
    confidence, correct = top_label([[0.7, 0.3], [0.4, 0.6]], [0, 0])
    assert confidence.tolist() == [0.7, 0.6]
    assert correct.tolist() == [True, False]


def test_what_is_calibrated_has_an_error_near_zero_and_what_is_not_its_gap() -> None:
    rng = np.random.default_rng(0)
    said = rng.random(200_000)
    came = rng.random(200_000) < said
    error = reliability(said, came).expected_calibration_error
    assert error is not None
    # a bin of 13,333 samples is off by 0.8 * 0.5 / sqrt(13333) = 0.0035 at most on average
    assert error < 0.0035
    bold = reliability(np.sqrt(said), came).expected_calibration_error
    assert bold == pytest.approx(1 / 6, abs=0.004)  # the mean of sqrt(p) - p


def test_without_samples() -> None:
    curve = reliability([], np.zeros(0, bool))
    assert (curve.expected_calibration_error, curve.maximum_calibration_error) == (None, None)
    assert np.isnan(curve.accuracy).all()
    assert brier_score(np.zeros((0, 3)), np.zeros(0, int)) is None
    assert brier_score_of_event([], np.zeros(0, bool)) is None
    assert [len(part) for part in top_label(np.zeros((0, 3)), np.zeros(0, int))] == [0, 0]


def test_bad_input() -> None:
    for call, words in (
        (lambda: reliability([0.5, 1.2], [True, True]), "confidence is 1.2 at index 1"),
        (lambda: reliability([np.nan], [True]), "confidence is nan at index 0"),
        (lambda: reliability([0.5], [True, True]), "lengths differ"),
        (lambda: reliability([0.5], [True], bins=0), "bins is 0"),
        (lambda: brier_score([[0.5, 0.5], [2.0, -1.0]], [0, 0]), "probabilities at index 1 are"),
        (lambda: brier_score([[3.0, 1.0]], [0]), "which is not a distribution"),
        (lambda: brier_score([[0.5, 0.5]], [2]), "labels is 2 at index 0, but there are 2 classes"),
        (lambda: brier_score([[0.5, 0.5]], [0, 1]), "lengths differ"),
        (lambda: brier_score_of_event([-0.1], [True]), "probability is -0.1 at index 0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
