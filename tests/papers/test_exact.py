"""Claims that need no training, against mpmath, closed forms and counting; and that each check can fail."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import torch

import pyrite
from pyrite.papers import exact, exact_losses
from pyrite.papers.exact import EXACT, initial_margins_of_nets


def test_variances_against_mpmath() -> None:
    """The L1 norm of the gradient is 4p(1 - p) for MAE, 2(1 - p) for CE and exp(T p(1 - p)) for IMAE; p is uniform."""

    def variance(norm: "mp.mpf") -> float:
        mean = mp.quad(norm, [0, 0.5, 1])
        return float(mp.quad(lambda p: (norm(p) - mean) ** 2, [0, 0.5, 1]))

    found = EXACT["I2"]()
    assert found.holds
    assert found.numbers["variance, mae"] == pytest.approx(variance(lambda p: 4 * p * (1 - p)), rel=1e-9)
    assert found.numbers["variance, ce"] == pytest.approx(1 / 3, rel=1e-9)
    found = EXACT["I9"]()
    assert found.holds
    for t in (0.5, 1, 2, 4, 8, 16):
        wanted = variance(lambda p, t=t: mp.exp(t * p * (1 - p)))
        assert found.numbers[f"variance, T = {t:g}"] == pytest.approx(wanted, rel=1e-8)


def test_imae_is_neither_symmetric_nor_bounded() -> None:
    found = EXACT["I15"]()
    assert found.holds
    # phi(-m) - phi(m) is m plus the bump's whole integral, whatever m.
    bump = float(mp.quad(lambda p: (mp.exp(8 * p * (1 - p)) - 1) / (p * (1 - p)), [0, 0.25, 0.5, 0.75, 1])) / 2
    ends = [found.numbers[f"value at margin {end}"] for end in (-10000, 10000)]
    assert ends[0] - ends[1] == pytest.approx(10000 + bump, rel=1e-9)


def test_every_loss_is_a_weight_times_a_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EXACT["C1"]().holds
    monkeypatch.setitem(exact_losses._TABLE_6, "ce", (lambda p: -torch.log(p), lambda p: 1 - p**1.001))
    failed = [words for words, holds in EXACT["C1"]().statements.items() if not holds]
    assert failed == ["ce: largest difference, printed weight"]


def test_nce_and_its_bound() -> None:
    found = EXACT["C2"]()
    assert found.statements == {"Eq. 2": True, "Eq. 3": False}
    assert not found.holds
    assert all(found.corrections.values())
    # A learned sample of 3 classes by hand: p = (.98, .01, .01).
    p = [0.98, 0.01, 0.01]
    total = -sum(map(math.log, p))
    gamma, epsilon = 1 / total, -3 * math.log(p[0]) / total
    gradient = [gamma * ((p[i] - (i == 0)) + epsilon * (1 / 3 - p[i])) for i in range(3)]
    assert sum(map(abs, gradient)) > 2 * gamma * (1 + epsilon) * (1 - p[0])
    assert found.numbers["weight over Eq. 3, largest"] > 1.1


def test_asymmetry() -> None:
    found = EXACT["C15"]()
    wrong = [words for words, holds in found.statements.items() if not holds]
    assert wrong == ["AUL, a=2.0, q=2.0", "AUL, a=1.1, q=5.0"]
    assert all(found.corrections.values())
    # Of aul(a=2, q=2), (2 - p)^2/2: the loss of p falls by 2 - p per unit, half as fast at 1 as at 0.
    assert found.numbers["bound, aul(a=2.0, q=2.0)"] == pytest.approx(1 / 2, rel=1e-3)


def test_margins_of_nets() -> None:
    found = initial_margins_of_nets(("fast_cnn", "cnn8"), (10,), seeds=(0, 1))
    assert found.statements == {"cnn8, 10 classes": True, "most nets of this library": False}  # one of two
    assert found.numbers["fraction of nets within a tenth of Eq. 4"] == 0.5
    assert all(found.corrections.values())
    margins = [pyrite.measure_start("cnn8", classes=10, seed=seed, batch_size=16).margins for seed in (0, 1)]
    assert found.numbers["margin, cnn8, 10 classes"] == pytest.approx(np.mean(margins))


def test_theorem_1() -> None:
    found = exact.noise_shortens_meta_gradient(draws=2)
    assert found.holds
    assert found.numbers["length under noise over length, median, mae"] == pytest.approx(0.4, rel=1e-9)
    assert found.numbers["cosine, median, mae"] == pytest.approx(1, rel=1e-9)
    clean, all_noise = exact._meta_gradients(pyrite.MAE(), rate=1.0, seed=0)
    assert float(all_noise.norm()) < 1e-12 * float(clean.norm())


def test_what_noise_adds_by_counting_labels() -> None:
    """The gradient at t is -y times 2 sigmoid'(t); all outcomes of label and noise are listed."""
    for share, rate in itertools.product((0.5, 0.9), (0.1, 0.7)):
        for t in (-1.0, 0.0, 2.0):
            slope = 2 * math.exp(-t) / (1 + math.exp(-t)) ** 2
            outcomes = [
                (-y * slope, p * q)
                for true, p in ((1, share), (-1, 1 - share))
                for y, q in ((true, 1 - rate), (1, rate / 2), (-1, rate / 2))
            ]
            mean = sum(value * chance for value, chance in outcomes)
            noisy = sum(chance * (value - mean) ** 2 for value, chance in outcomes)
            clean = 4 * share * (1 - share) * slope**2
            assert mean == pytest.approx((1 - rate) * (1 - 2 * share) * slope)
            assert noisy - clean <= exact._added_variance(share, rate) + 1e-12
            if t == 0:
                assert noisy - clean == pytest.approx(exact._added_variance(share, rate))


def test_theorem_2() -> None:
    found = EXACT["R2"]()
    assert found.holds
    # To first order in the rate the bound is reached where all labels are the same.
    assert 0.99 < found.numbers["added variance over 2 rate rho^2, largest"] <= 1
    # With one label there is no chance in it: descent by hand.
    t, smallest = 0.0, math.inf
    for _ in range(20):
        slope = 2 * math.exp(-t) / (1 + math.exp(-t)) ** 2
        smallest, t = min(smallest, slope**2), t + 0.5 * slope
    assert exact._smallest_gradient(1.0, 4, 20, 0.5, seed=0, repeats=2) == pytest.approx(smallest)


def test_what_follows_is_a_verdict() -> None:
    found = EXACT["C15"]().verdict
    assert (found.claim, found.status) == ("C15", "does not hold")
    assert found.note.startswith("corrected, it holds: AUL, a=1.5, q=0.5, with q > 1 restricted; ")
    assert EXACT["I2"]().verdict.status == "holds"


def test_shifted_and_scaled_curves() -> None:
    """Of MAE at unit maximum, 4 p (1 - p): at the start both have p = sigmoid(-tau), and at 0 the scaled one is 1."""
    found = EXACT["C17"]()
    assert found.holds
    p = 1 / (1 + math.exp(2.717))
    assert found.numbers["weight at the start, scaled"] == pytest.approx(4 * p * (1 - p))
    p = 1 / (1 + math.exp(-(pyrite.expected_margin(classes=100) * -1 - 2.717)))
    assert found.numbers["shifted over scaled at a margin of 0"] == pytest.approx(4 * p * (1 - p))
    assert not exact_losses.shifted_falls_sooner(tau=6.0).holds  # beyond |E| the shifted one falls off later


def test_regularisers_of_four_losses() -> None:
    assert EXACT["C18"]().holds
    # The entropy of p = (.7, .2, .1) after a small step down the sum of squares, by hand.
    p = np.array([0.7, 0.2, 0.1])
    s = np.log(p) - 0.01 * 2 * p * (p - (p**2).sum())
    after = np.exp(s) / np.exp(s).sum()
    assert -(after * np.log(after)).sum() > -(p * np.log(p)).sum()


def test_cures_give_up_the_guarantee() -> None:
    """The closed form beside the bound that is found on a grid; unscaled and not shifted, MAE keeps it whole."""
    found = EXACT["guarantee"]()
    assert found.holds
    beta = -pyrite.expected_margin(classes=100) - 3.0
    assert found.numbers["symmetric 0.4, tau 3.0: bound of shifted MAE"] == pytest.approx(math.exp(-2 * beta), rel=0.01)
    assert pyrite.MAE().asymmetry_bound() == 1.0


def test_the_contrast_of_mae_is_imae() -> None:
    found = EXACT["contrast"]()
    assert found.holds
    assert found.numbers["variance, mae, T = 8"] == pytest.approx(4.546, rel=1e-3)
    # Of cross entropy, u = 1 - p: exp(2 (0.99 - 0.5)).
    assert found.numbers["weight of p = 0.01 over that of p = 0.5, ce, T = 8"] == pytest.approx(
        math.exp(0.98), rel=1e-6
    )
