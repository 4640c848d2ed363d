import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import accuracy_score

from pyrite.diagnostics import Tally, accuracy, clearly_better, hybrid_accuracy, subset_accuracies


def test_by_hand() -> None:
    #             clean   clean   memorised  recovered  neither
    found = subset_accuracies([0, 2, 1, 0, 2], given=[0, 1, 1, 1, 1], true=[0, 1, 0, 0, 0])
    assert found.given == Tally(2, 5)
    assert found.clean == Tally(1, 2)
    assert found.memorised == Tally(1, 3)
    assert found.recovered == Tally(1, 3)
    assert found.true == Tally(2, 5)
    assert hybrid_accuracy(Tally(4, 5), found.true) == 6 / 10
    assert found.fractions() == {"given": 0.4, "clean": 0.5, "memorised": 1 / 3, "recovered": 1 / 3, "true": 0.4}


def test_without_truth_only_the_given_labels_count() -> None:
    found = subset_accuracies([0, 1], given=[0, 0])
    assert found.fractions() == {"given": 0.5, "clean": None, "memorised": None, "recovered": None, "true": None}


def test_an_empty_subset_has_no_share() -> None:
    found = subset_accuracies([0, 1], given=[0, 1], true=[0, 1])
    assert found.memorised == Tally(0, 0)
    assert found.fractions()["memorised"] is None
    assert found.fractions()["clean"] == 1.0
    assert hybrid_accuracy(Tally(0, 0), Tally(0, 0)) is None


labels = st.lists(st.tuples(*(st.integers(0, 3),) * 3), min_size=1, max_size=60)


@settings(deadline=None)
@given(labels)
def test_against_scikit_learn(rows: list[tuple[int, int, int]]) -> None:
    predicted, label, true = np.array(rows).T
    found = subset_accuracies(predicted, label, true)
    assert found.given.fraction == pytest.approx(accuracy_score(label, predicted))
    assert found.true is not None
    assert found.true.fraction == pytest.approx(accuracy_score(true, predicted))
    for tally, part, against in (
        (found.clean, label == true, true),
        (found.memorised, label != true, label),
        (found.recovered, label != true, true),
    ):
        assert tally is not None
        assert tally.fraction == (pytest.approx(accuracy_score(against[part], predicted[part])) if part.any() else None)


# IMAE, Table 6, CIFAR-10: noise rate, final test, noisy subset, clean subset, hybrid
PRINTED = [
    (0.0, 91.3, 0.0, 100, 98.5),
    (0.0, 89.2, 0.0, 95.8, 94.7),
    (0.4, 67.0, 34.3, 93.3, 72.6),
    (0.4, 75.9, 6.8, 84.6, 79.7),
    (0.4, 84.0, 5.5, 94.0, 88.2),
    (0.8, 20.3, 38.3, 57.0, 22.0),
    (0.8, 27.5, 9.7, 29.4, 27.8),
    (0.8, 41.0, 16.8, 64.8, 41.5),
    (0.4, 63.3, 75.0, 96.2, 63.6),
    (0.4, 66.9, 8.1, 74.3, 70.2),
    (0.4, 81.5, 6.5, 93.1, 86.5),
    (0.8, 16.4, 52.5, 62.3, 18.7),
    (0.8, 15.1, 9.6, 15.6, 15.1),
    (0.8, 34.0, 13.0, 44.7, 34.8),
]


@pytest.mark.parametrize(("rate", "test", "noisy", "clean", "hybrid"), PRINTED)
def test_the_printed_table_takes_the_whole_training_set_by_its_true_labels(
    rate: float, test: float, noisy: float, clean: float, hybrid: float
) -> None:
    tested = Tally(round(100 * test), 10_000)
    kept = Tally(round(500 * (1 - rate) * clean), round(50_000 * (1 - rate)))
    wrong = 50_000 - kept.total
    if not wrong:
        assert hybrid_accuracy(tested, kept) == pytest.approx(hybrid / 100, abs=6e-4)
        return
    other_reading = hybrid_accuracy(tested, kept)
    assert other_reading is not None
    assert other_reading > hybrid / 100 + 0.002  # the clean subset alone: more than rounding explains, up to 24 points
    # The table does not print how many were recovered. What it implies must fit beside those memorised.
    recovered = Tally(round(600 * hybrid) - tested.hits - kept.hits, wrong)
    assert recovered.fraction is not None
    assert 0.05 < recovered.fraction <= 1 - noisy / 100


def test_equal_predictors_differ_by_a_standard_error_as_often_as_chance_says() -> None:
    """Of two predictors that are as good, one is ahead by more than a standard error in about 16 % of samples."""
    rng = np.random.default_rng(0)
    pairs = rng.random((2000, 2, 400)) < 0.7
    ahead = np.mean([clearly_better(first, second) for first, second in pairs])
    assert 0.13 < ahead < 0.18  # P(Z > 1) is .159; ties of whole numbers take some of it


@pytest.mark.parametrize(
    ("gap", "differing", "expected"), [(5, 25, False), (6, 26, True), (0, 0, False), (1, 1, False)]
)
def test_clearly_better_by_hand(gap: int, differing: int, expected: bool) -> None:
    ahead = (differing + gap) // 2
    hits = np.arange(40) < ahead
    others = (np.arange(40) >= ahead) & (np.arange(40) < differing)
    assert clearly_better(hits, others) is expected


def test_compared_predictors_must_have_the_same_labels() -> None:
    with pytest.raises(ValueError, match="lengths differ"):
        clearly_better([True], [True, False])


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="lengths differ: predictions 2, labels 1"):
        accuracy([0, 1], [0])
    with pytest.raises(ValueError, match="lengths differ: given 2, true 3"):
        subset_accuracies([0, 1], [0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="predictions has the dtype float64"):
        accuracy([0.5], [0])
    with pytest.raises(ValueError, match="hits is 3, of a total of 2"):
        Tally(3, 2)
