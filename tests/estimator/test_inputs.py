"""What ``fit`` refuses in one sentence, and that neither units nor rare classes spoil what it learns."""

import numpy as np
import pytest

from pyrite import RobustClassifier

RNG = np.random.default_rng(0)
X = RNG.integers(-40, 40, (60, 3)).astype(np.float64)
Y = (X[:, 0] > 0).astype(int)
WORDS = np.where(Y == 1, "yes", "no").astype(object)


def changed(values: np.ndarray, value: object) -> np.ndarray:
    copy = values.copy()
    copy[3] = value
    return copy


@pytest.mark.parametrize(
    ("inputs", "labels", "weight", "said"),
    [
        (X, changed(WORDS, "nan"), None, "y is 'nan' at index 3: a row without a label"),
        (X, changed(WORDS, "nan").astype(str), None, "y is 'nan' at index 3: a row without a label"),
        (X, changed(WORDS, " "), None, "y is ' ' at index 3: a row without a label"),
        (X, changed(WORDS, None), None, "y is None at index 3: a row without a label"),
        (X, changed(WORDS, 7), None, "y mixes texts and numbers, such as '(yes|no)' at index 0 and 7 at index 3"),
        (X, np.ma.masked_array(Y, Y == 1), None, "y is a masked array"),
        (np.ma.masked_array(X, X > 30), Y, None, "X is a masked array"),
        (X, Y, np.ma.masked_array(np.ones(60), Y == 1), "sample_weight is a masked array"),
        (X, Y, changed(np.ones(60), -0.5), "sample_weight is -0.5 at index 3: weights must be 0 or more"),
        (X.astype(int) + 2**60, Y, None, "X, row 0, column 0: .* differ by less than float64 resolves"),
        (np.full((60, 1, 4, 4), np.nan), Y, None, "data, image 0, value 0: nan is not a finite number"),
        (X[:1], Y[:1], None, "all of one class: a classifier needs two or more"),
    ],
)
def test_what_is_refused_before_training(inputs: object, labels: object, weight: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RobustClassifier().fit(inputs, labels, sample_weight=weight)


def quick() -> RobustClassifier:
    return RobustClassifier(epochs=3, members=2, folds=2)


def test_units_of_a_column_change_nothing() -> None:
    expected = quick().fit(X, Y).predict_proba(X)
    for scale in (1e-300, 1e300):
        np.testing.assert_array_equal(quick().fit(X * scale, Y).predict_proba(X * scale), expected)
    each = np.array([1e-300, 1.0, 1e300])
    np.testing.assert_array_equal(quick().fit(X * each, Y).predict_proba(X * each), expected)


@pytest.mark.parametrize("power", [-300, -42, 39, 300])
def test_classes_are_told_apart_at_every_scale(power: int) -> None:
    scaled = X * 10.0**power
    assert RobustClassifier(members=1, folds=0).fit(scaled, Y).score(scaled, Y) > 0.9


def test_a_shift_leaves_what_is_learned() -> None:
    for shift in (1.7e9, -1e12):
        moved = X + shift
        assert RobustClassifier(members=1, folds=0).fit(moved, Y).score(moved, Y) > 0.9


def test_a_class_seen_once_and_one_row_in_a_hundred() -> None:
    once = changed(Y, 2)
    fitted = quick().fit(X, once)
    assert fitted.predict_proba(X).shape == (60, 3)
    rare = (np.arange(300) % 100 == 0).astype(int)
    inputs = RNG.normal(size=(300, 2)) + 8 * rare[:, None]
    with pytest.warns(UserWarning, match="99 % are the same"):  # of three rows nothing can be said
        fitted = RobustClassifier(members=1).fit(inputs, rare)
    assert fitted.score(inputs, rare) >= 0.99
