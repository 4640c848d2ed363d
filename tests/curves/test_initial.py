"""Where margins start, against simulation and the cases that can be done by hand."""

import math

import numpy as np
import pytest

import pyrite


def test_equation_4() -> None:
    assert pyrite.expected_margin(100) == pytest.approx(-math.log(99) - 0.5 + (math.e - 1) / 198, rel=1e-14)
    assert pyrite.expected_margin(10) == pytest.approx(-2.602, abs=5e-4)


def test_exact_with_two_classes_is_0_for_any_spread() -> None:
    """s_y - s_other has mean 0."""
    for sigma in (0.3, 1.0, 3.0):
        assert pyrite.expected_margin(2, sigma=sigma, exact=True) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("classes", "sigma"), [(3, 1.0), (10, 1.0), (100, 1.0), (10, 3.0), (1000, 0.5)])
def test_exact_against_simulation(classes: int, sigma: float) -> None:
    drawn = pyrite.initial_margins(classes, sigma, samples=40_000, seed=1)
    error = drawn.std() / math.sqrt(len(drawn))
    assert abs(drawn.mean() - pyrite.expected_margin(classes, sigma, exact=True)) < 4 * error


def test_exact_with_many_classes_and_a_small_spread() -> None:
    """There Eq. 4 is right to its third order, sigma^4/K^2."""
    for classes, sigma in ((10**6, 0.01), (10**6, 0.3), (1000, 0.01)):
        exact, close = (pyrite.expected_margin(classes, sigma, exact=way) for way in (True, False))
        assert exact == pytest.approx(close, abs=1e-11)


def test_exact_with_a_large_spread() -> None:
    """The sum is then its largest term: the mean largest of 9 normal variables is 1.4850131622 (order statistics)."""
    assert pyrite.expected_margin(10, sigma=50, exact=True) == pytest.approx(-50 * 1.4850131622, rel=1e-3)
    assert pyrite.expected_margin(2, sigma=50, exact=True) == pytest.approx(0, abs=1e-9)
    drawn = pyrite.initial_margins(5, sigma=20, samples=40_000, seed=2)
    mean = pyrite.expected_margin(5, sigma=20, exact=True)
    assert abs(drawn.mean() - mean) < 4 * drawn.std() / math.sqrt(len(drawn))


@pytest.mark.parametrize(("classes", "sigma"), [(10, 3.0), (10, 30.0), (10, 1e200), (2, 1.0), (2, 0.1)])
def test_the_approximation_is_refused_where_it_is_impossible(classes: int, sigma: float) -> None:
    with pytest.raises(ValueError, match="pass exact=True"):
        pyrite.expected_margin(classes, sigma)


def test_where_it_is_not_refused_it_is_possible() -> None:
    for classes in (3, 10, 1000):
        for sigma in (0.1, 0.5, 1.0):
            mean = pyrite.expected_margin(classes, sigma)
            assert -math.log(classes - 1) - sigma**2 / 2 <= mean <= -math.log(classes - 1)
            assert mean == pytest.approx(pyrite.expected_margin(classes, sigma, exact=True), abs=0.3)


@pytest.mark.parametrize("sigma", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_bad_spread(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma is"):
        pyrite.expected_margin(10, sigma)
    with pytest.raises(ValueError, match="sigma is 51, but must be at most 50"):
        pyrite.expected_margin(10, 51, exact=True)


def test_simulation_does_not_touch_global_state() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002 it is the global state that is looked at
    first, second = pyrite.initial_margins(10, samples=50), pyrite.initial_margins(10, samples=50)
    assert np.array_equal(first, second)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("classes", [1, 0, -3, 2.5, True, "10"])
def test_bad_classes(classes: int) -> None:
    with pytest.raises(ValueError, match="classes is"):
        pyrite.expected_margin(classes)


def test_transforms_put_the_start_at_minus_tau() -> None:
    """Table 9's tau: whatever the number of classes, a sample at the expected margin has the weight at -tau."""
    for classes in (10, 100, 1000):
        start = pyrite.expected_margin(classes)
        for transform in (pyrite.scale, pyrite.shift):
            curve = transform(pyrite.AGCE(), tau=3.0, classes=classes)
            assert float(curve.weight_at(start)) == pytest.approx(float(pyrite.AGCE().weight_at(-3.0)), rel=1e-5)
