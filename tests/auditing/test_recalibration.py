"""What decisions say about all labels: right for simulated reviews, whichever labels were reviewed."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression

from benchmarks.reviews import TRUTHS, simulate
from pyrite.auditing.probabilities import Recalibration, exact_estimate, stratify


@pytest.mark.parametrize("how", ["100 random", "100 random and 100 suspects"])
def test_rates_of_reviews_with_a_random_check(how: str) -> None:
    held = []
    for truth in TRUTHS:
        every = np.array([simulate(truth, how, "soft", seed) for seed in range(40)], float)
        # A hundred labels alone have a standard error of 4 points.
        assert abs(every[:, 0].mean()) < 0.012, truth
        assert every[:, 2].mean() < 0.16, truth
        held.append(every[:, 1].mean())
    assert min(held) >= 0.85  # of 40 each; expected are 38
    assert np.mean(held) >= 0.93


def test_suspects_speak_for_suspects_alone() -> None:
    """Nobody can know what is wrong where nobody looked: the estimate stays, and the interval is wide."""
    hidden = np.array([simulate("5 % hidden", "all suspects", "soft", seed) for seed in range(20)], float)
    assert hidden[:, 0].mean() < -0.02
    assert hidden[:, 1].mean() >= 0.9
    assert hidden[:, 2].mean() > 0.08


def test_nothing_reviewed_changes_nothing() -> None:
    score = np.random.default_rng(0).normal(-2, 3, 3000)
    strata = stratify(score)
    nothing = np.zeros(len(strata.size))
    fit = Recalibration.fit(strata, nothing, nothing)
    np.testing.assert_allclose(fit.log_odds, strata.centre, atol=1e-9)
    assert fit.estimate(strata.size.astype(float), 0, 3000).value == pytest.approx(expit(score).mean(), abs=1e-4)
    np.testing.assert_array_equal(np.argsort(fit.scores(score)), np.argsort(score))


def test_everything_reviewed_is_known() -> None:
    strata = stratify(np.linspace(-4, 4, 50))
    wrong = strata.counts(np.arange(30, 50))
    share = Recalibration.fit(strata, strata.size.astype(float), wrong).estimate(np.zeros(len(wrong)), 20, 50)
    assert tuple(share) == (0.4, 0.4, 0.4)


def test_the_mode_is_that_of_another_optimiser() -> None:
    random = np.random.default_rng(3)
    strata = stratify(random.normal(-1, 2.5, 400))
    rows = random.permutation(400)[:60]
    reviewed = strata.counts(rows)
    wrong = np.floor(reviewed * expit(0.4 * strata.centre + 1))
    centre = strata.centre
    prior = 9 + np.outer(centre, centre) / 9 + 2.25 * np.exp(-((centre[:, None] - centre) ** 2) / 8)
    factor = np.linalg.cholesky(prior + 1e-9 * np.eye(len(centre)))

    def loss(white: np.ndarray) -> float:
        log_odds = centre + factor @ white
        likelihood = wrong * np.logaddexp(0, -log_odds) + (reviewed - wrong) * np.logaddexp(0, log_odds)
        return float(likelihood.sum() + 0.5 * white @ white)

    found = centre + factor @ minimize(loss, np.zeros(len(centre)), tol=1e-12).x
    fit = Recalibration.fit(strata, reviewed, wrong)
    assert (np.diff(found) < 0).any()
    expected = IsotonicRegression().fit(np.arange(len(found)), found, strata.size).predict(np.arange(len(found)))
    np.testing.assert_allclose(fit.log_odds, expected, atol=2e-3)


def test_wrong_order_is_pooled() -> None:
    """All labels that the audit is sure are wrong are right, and the other way round: one probability for all."""
    strata = stratify(np.repeat([-3.0, 3.0], 500))
    fit = Recalibration.fit(strata, np.array([200.0, 200.0]), np.array([180.0, 20.0]))
    assert fit.log_odds[0] == fit.log_odds[1] == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize(("wrong", "checked"), [(0, 30), (1, 10), (12, 100), (99, 100), (7, 7)])
def test_clopper_and_pearson_by_their_definition(wrong: int, checked: int) -> None:
    share = exact_estimate(wrong, checked)
    assert share.value == wrong / checked
    assert binom.sf(wrong - 1, checked, share.low) == pytest.approx(0.025 if wrong else 1.0)
    assert binom.cdf(wrong, checked, share.high) == pytest.approx(0.025 if wrong < checked else 1.0)
