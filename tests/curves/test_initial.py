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


def test_simulation_does_not_touch_global_state() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002 it is the global state that is looked at
    first, second = pyrite.initial_margins(10, samples=50), pyrite.initial_margins(10, samples=50)
    assert np.array_equal(first, second)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("classes", [1, 0, -3, 2.5])
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
