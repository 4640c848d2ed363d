"""Several annotators: against closed forms, another library's figures, and simulations in which the truth is known."""

from typing import Any

import numpy as np
import pytest

from pyrite.auditing.annotators import fit_annotators, votes

# What crowd-kit 1.4.2 gives for the labels of ``drawn(300, [0.1, 0.2, 0.3, 0.2, 0.4], 3, gaps=0.3, seed=5)``:
# DawidSkene(n_iter=200, tol=1e-9).fit(table).probas_, of which one minus the mean probability of each worker's labels.
CROWD_KIT_RATES = [0.1358, 0.1934, 0.3087, 0.1549, 0.3733]


def drawn(samples: int, rates: Any, classes: int, *, gaps: float = 0.0, seed: int = 0) -> tuple[Any, Any]:
    """Labels of annotators with these rates of errors, which go to every other class alike, and the true classes."""
    random = np.random.default_rng(seed)
    true, size = random.integers(classes, size=samples), (samples, len(rates))
    wrong = random.random(size) < rates
    labels = np.where(wrong, (true[:, None] + random.integers(1, classes, size=size)) % classes, true[:, None])
    labels[random.random(size) < gaps] = -1
    labels[(labels < 0).all(1), 0] = 0
    return labels, true


def test_three_coins_follow_the_closed_form() -> None:
    # With two balanced classes, P(a and b agree) = (1 + c_a c_b) / 2 where c = 1 - 2 rate.
    labels, _ = drawn(20_000, [0.1, 0.2, 0.3], 2)
    agree = [2 * (labels[:, one] == labels[:, two]).mean() - 1 for one, two in ((0, 1), (0, 2), (1, 2))]
    closed = [
        (1 - np.sqrt(agree[0] * agree[1] / agree[2])) / 2,
        (1 - np.sqrt(agree[0] * agree[2] / agree[1])) / 2,
        (1 - np.sqrt(agree[1] * agree[2] / agree[0])) / 2,
    ]
    assert fit_annotators(labels, 2, errors=False).rates == pytest.approx(closed, abs=0.01)


def test_perfect_annotators_are_never_wrong() -> None:
    labels, true = drawn(200, [0.0, 0.0], 3)
    fit = fit_annotators(labels, 3)
    assert fit.posterior[np.arange(200), true].min() > 0.99
    assert fit.rates.max() < 0.01
    assert (fit.intervals[:, 0] <= fit.rates).all()
    assert (fit.intervals[:, 1] < 0.05).all()
    assert fit.gain.max() < 0.01


def test_rates_are_those_of_another_library_and_the_consensus_is_no_worse() -> None:
    labels, true = drawn(300, [0.1, 0.2, 0.3, 0.2, 0.4], 3, gaps=0.3, seed=5)
    fit = fit_annotators(labels, 3, errors=False)
    assert fit.rates == pytest.approx(CROWD_KIT_RATES, abs=0.01)
    assert (fit.posterior.argmax(1) == true).mean() >= 0.893  # crowd-kit's
    assert fit.counts.tolist() == (labels >= 0).sum(0).tolist()


def test_an_annotator_who_inverts_two_classes_is_read_backwards() -> None:
    labels, true = drawn(1000, [0.1, 0.1, 0.1, 0.0], 2, seed=1)
    labels[:, 3] = 1 - labels[:, 3]
    fit = fit_annotators(labels, 2, errors=False)
    assert fit.rates[3] > 0.99
    assert (fit.posterior.argmax(1) == true).mean() > 0.99  # more than any vote
    assert fit.matrices[3, 0, 1] > 0.97


@pytest.mark.parametrize(
    ("samples", "rates", "classes", "gaps"),
    [(1000, [0.1, 0.25], 2, 0.0), (1000, [0.05, 0.1, 0.2, 0.3, 0.4] * 3, 4, 0.8)],
)
def test_intervals_hold_the_truth_with_a_model_beside(samples: int, rates: Any, classes: int, gaps: float) -> None:
    held = []
    for seed in range(3):
        labels, true = drawn(samples, rates, classes, gaps=gaps, seed=seed)
        scores = 2 * np.eye(classes)[true] + np.random.default_rng(seed).normal(size=(samples, classes))
        fit = fit_annotators(labels, classes, scores)
        wrong = [(own[own >= 0] != true[own >= 0]).mean() for own in labels.T]
        held += [low <= rate <= high for rate, (low, high) in zip(wrong, fit.intervals, strict=True)]
        assert fit.rates == pytest.approx(wrong, abs=0.08)
        assert (fit.posterior.argmax(1) == true).mean() > (votes(labels, classes).argmax(1) == true).mean()
        assert fit.model_rate == pytest.approx((scores.argmax(1) != true).mean(), abs=0.03)
    assert np.mean(held) >= 0.9


def test_a_model_identifies_annotators_who_share_no_sample() -> None:
    labels, true = drawn(2000, [0.1, 0.3], 3)
    labels[np.arange(2000), np.arange(2000) % 2] = -1
    scores = 3 * np.eye(3)[true] + np.random.default_rng(0).normal(size=(2000, 3))
    assert fit_annotators(labels, 3, scores, errors=False).rates == pytest.approx([0.1, 0.3], abs=0.04)


def test_hard_samples_make_annotators_dependent() -> None:
    # On a fifth of the samples everybody guesses, elsewhere nobody is wrong often.
    random = np.random.default_rng(3)
    easy, true = drawn(6000, [0.03] * 4, 4, seed=3)
    hard = random.random(6000) < 0.2
    labels = np.where(hard[:, None], random.integers(4, size=easy.shape), easy)
    fit = fit_annotators(labels, 4, errors=False)
    assert fit.levels == 2
    assert fit.rates == pytest.approx((labels != true[:, None]).mean(0), abs=0.03)
    assert fit.gain[hard].mean() > 10 * fit.gain[~hard].mean()


def test_samples_that_the_model_does_not_know_have_the_frequencies_of_the_classes() -> None:
    labels, true = drawn(1000, [0.1, 0.2, 0.2], 3)
    scores = 2 * np.eye(3)[true] + np.random.default_rng(0).normal(size=(1000, 3))
    scores[::2] = np.nan
    fit = fit_annotators(labels, 3, scores, errors=False)
    right = fit.posterior.argmax(1) == true
    assert right[1::2].mean() > right[::2].mean() > 0.9


def test_a_class_that_nobody_gives_is_possible_but_unlikely() -> None:
    labels, _ = drawn(500, [0.1, 0.2, 0.2], 3)
    fit = fit_annotators(labels, 4, errors=False)
    assert np.isfinite(fit.posterior).all()
    assert fit.posterior[:, 3].max() < 0.05


def test_the_order_of_annotators_changes_nothing() -> None:
    labels, _ = drawn(300, [0.1, 0.3, 0.2], 3, gaps=0.2)
    one, two = fit_annotators(labels, 3), fit_annotators(labels[:, ::-1], 3)
    assert one.rates == pytest.approx(two.rates[::-1], abs=1e-9)
    assert one.posterior == pytest.approx(two.posterior, abs=1e-9)
