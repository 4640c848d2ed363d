import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from pyrite.diagnostics import average_precision, best_f1, detection, precision_at, roc_auc

# Few distinct scores, so that ties are everywhere; and all of float32, infinities included.
few = st.integers(-3, 3).map(float)
many = st.floats(width=32, allow_nan=False)
samples = st.one_of(
    st.lists(st.tuples(few, st.booleans()), min_size=1, max_size=40),
    st.lists(st.tuples(many, st.booleans()), min_size=1, max_size=40),
)


@settings(deadline=None)
@given(samples)
def test_against_scikit_learn(rows: list[tuple[float, bool]]) -> None:
    scores, wrong = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = detection(scores, wrong)
    # scikit-learn refuses infinite scores; ranks say the same.
    ranks = np.searchsorted(np.unique(scores), scores)
    both = 0 < wrong.sum() < len(wrong)
    assert found.roc_auc == (pytest.approx(roc_auc_score(wrong, ranks), abs=1e-12) if both else None)
    if not wrong.any():
        assert (found.average_precision, found.best_f1) == (None, None)
        return
    assert found.average_precision == pytest.approx(average_precision_score(wrong, ranks), abs=1e-12)
    assert found.best_f1 is not None
    every = {threshold: f1_score(wrong, scores >= threshold) for threshold in np.unique(scores)}
    assert found.best_f1.f1 == pytest.approx(max(every.values()), abs=1e-12)
    assert every[found.best_f1.threshold] == pytest.approx(found.best_f1.f1, abs=1e-12)
    better = [threshold for threshold, f1 in every.items() if f1 > found.best_f1.f1 - 1e-12]
    assert found.best_f1.threshold == max(better)


@settings(deadline=None)
@given(st.lists(st.tuples(few, st.booleans()), min_size=1, max_size=6), st.data())
def test_precision_at_k_is_the_mean_over_every_order_of_equals(rows: list[tuple[float, bool]], data: object) -> None:
    k = data.draw(st.integers(1, len(rows)))  # type: ignore[attr-defined]
    orders = [
        sum(wrong for _, wrong in order[:k]) / k
        for order in itertools.permutations(rows)
        if all(one[0] >= next_[0] for one, next_ in itertools.pairwise(order))
    ]
    scores, wrong = zip(*rows, strict=True)
    assert precision_at(scores, wrong, k) == pytest.approx(np.mean(orders))


def test_by_hand() -> None:
    scores, wrong = [0.9, 0.8, 0.8, 0.8, 0.1], [True, True, False, False, True]
    # pairs (wrong, true): 0.9 beats both; 0.8 ties with both; 0.1 beats none
    assert roc_auc(scores, wrong) == (2 + 2 * 0.5 + 0) / 6
    # precision 1 at the first, 2/4 for the group, 3/5 at the end
    assert average_precision(scores, wrong) == pytest.approx((1 + 2 / 4 + 3 / 5) / 3)
    assert best_f1(scores, wrong) == (pytest.approx(2 * 3 / (5 + 3)), 0.1)
    assert precision_at(scores, wrong, 1) == 1.0
    assert precision_at(scores, wrong, 2) == pytest.approx((1 + 1 / 3) / 2)
    assert precision_at(scores, wrong, 5) == pytest.approx(3 / 5)
    assert dict(detection(scores, wrong, at=[1, 4]).precision_at) == {1: 1.0, 4: 0.5}


def test_a_score_that_says_nothing_is_worth_nothing_in_any_order() -> None:
    wrong = [True] * 3 + [False] * 7
    for order in (wrong, wrong[::-1]):
        found = detection([1.0] * 10, order, at=[1, 5, 10])
        assert found.roc_auc == 0.5
        assert found.average_precision == pytest.approx(0.3)
        assert list(found.precision_at.values()) == pytest.approx([0.3] * 3)


def test_minus_zero_is_zero_and_infinity_is_a_score() -> None:
    assert roc_auc([0.0, -0.0], [True, False]) == 0.5
    assert roc_auc([np.inf, 1e308, -np.inf], [True, False, False]) == 1.0


def test_auc_is_exact_where_pairs_are_many() -> None:
    # 10^10 pairs, of which all but one are in order
    count = 100_000
    scores = np.concatenate([np.arange(count, 2 * count), np.arange(count)]).astype(float)
    wrong = np.arange(2 * count) < count
    scores[0], scores[-1] = scores[-1], scores[0]  # the lowest wrong and the highest true
    assert roc_auc(scores, wrong) == 1 - 1 / count**2


def test_bad_input() -> None:
    for call, words in (
        (lambda: roc_auc([0.1, np.nan], [True, False]), "scores is nan at index 1"),
        (lambda: roc_auc([0.1], [True, False]), "lengths differ: scores 1, is_wrong 2"),
        (lambda: average_precision([0.1], [2]), "is_wrong"),
        (lambda: precision_at([0.1], [True], 2), "k is 2, but there are 1 samples"),
        (lambda: precision_at([0.1], [True], 0), "k is 0"),
        (lambda: precision_at([], [], 1), "k is 1, but there are 0 samples"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    empty = detection([], np.zeros(0, bool))
    assert (empty.roc_auc, empty.average_precision, empty.best_f1) == (None, None, None)
