"""Features are centred and scaled in float64, whatever their size, and only then narrowed to float32."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from pyrite.data import Batches, Dataset, Statistics
from pyrite.data.statistics import check_spread, mean_and_std, to_float64

RNG = np.random.default_rng(0)
INTEGERS = RNG.integers(-50, 50, (60, 3)).astype(np.float64)


def exactly(column: np.ndarray) -> tuple[Fraction, Fraction]:
    """Mean and variance in rational numbers."""
    values = [Fraction(float(value)) for value in column]
    mean = sum(values, Fraction(0)) / len(values)
    return mean, sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)


def root(value: Fraction) -> float:
    """The square root of a rational number, where neither it nor its square needs to be a float."""
    scale = 0 if not value else (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(value / Fraction(4) ** scale), scale)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30),
    st.sampled_from([1.0, 1e-300, 1e-42, 1e39, 1e150, 1e300]),
    st.sampled_from([0.0, 1.0, 1e9, -1e12]),
)
@settings(max_examples=200, deadline=None)
def test_mean_and_deviation_against_rational_numbers(values: list[float], scale: float, shift: float) -> None:
    column = (np.array(values) / 1e6 + shift / 1e6) * scale
    mean, std = (float(number[0]) for number in mean_and_std(column[:, None]))
    exact_mean, variance = exactly(column)
    size = float(np.abs(column).max())
    assert abs(Fraction(mean) - exact_mean) <= Fraction(size) * Fraction(1, 2**50) + Fraction(5e-324)
    assert std == pytest.approx(root(variance), rel=1e-9, abs=max(size * 2**-50, 5e-324))


@pytest.mark.parametrize("power", [-1000, -900, -140, 0, 130, 900, 1010])
def test_a_power_of_two_changes_nothing(power: int) -> None:
    scaled = np.ldexp(INTEGERS, power)
    expected = Statistics.of(INTEGERS).standardise(INTEGERS)
    np.testing.assert_array_equal(Statistics.of(scaled).standardise(scaled), expected)


@given(st.floats(-290, 290).map(lambda power: 10**power), st.integers(-(2**40), 2**40))
@settings(max_examples=100, deadline=None)
def test_scaling_and_shifting_change_no_more_than_rounding(scale: float, shift: int) -> None:
    moved = (INTEGERS + shift) * scale
    expected = Statistics.of(INTEGERS).standardise(INTEGERS)
    # float64 has 53 bits: of a number shifted by 2**40, 13 are left after the point.
    tolerance = 1e-6 + 2.0**-50 * abs(shift)
    np.testing.assert_allclose(Statistics.of(moved).standardise(moved), expected, atol=tolerance)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_batches_of_times_in_seconds(device: str) -> None:
    seconds = 1.7e9 + RNG.integers(-40, 40, (200, 1)).astype(np.float64)
    statistics = Statistics.of(seconds)
    batches = Batches(seconds, np.zeros(200, int), seed=0, shuffle=False, normalise=statistics, device=device)
    inputs = torch.cat([batch.inputs for batch in batches])
    assert inputs.dtype == torch.float32
    assert inputs.shape == (200, 1)
    if device == "cpu":
        assert len(inputs.unique()) == len(np.unique(seconds))
        assert abs(float(inputs.mean())) < 1e-6
        assert float(inputs.std(correction=0)) == pytest.approx(1, abs=1e-6)


def test_values_far_from_the_training_data_stay_finite() -> None:
    statistics = Statistics.of(INTEGERS)
    far = np.array([[1.7e308, -1.7e308, 0.0]])
    np.testing.assert_array_equal(statistics.standardise(far)[0, :2], np.array([1e9, -1e9], np.float32))
    huge = np.array([[-1.7e308], [1.7e308], [0.0], [1e308]])
    assert np.isfinite(Statistics.of(huge).standardise(huge)).all()


def test_without_statistics_features_must_fit_float32() -> None:
    batches = Batches(np.array([[1.0], [1e39]]), [0, 1], seed=0)
    with pytest.raises(ValueError, match="do not fit into float32: pass normalise"):
        list(batches)
    (batch,) = Batches(np.array([[1.0], [1e38]]), [0, 1], seed=0, shuffle=False)
    assert batch.inputs.tolist() == [[1.0], [float(np.float32(1e38))]]


@pytest.mark.parametrize("far", [1e9, 1e39, 1e300, -1e300, 1.7e308])
def test_outliers_that_leave_the_rest_as_one_number_are_refused(far: float) -> None:
    column = RNG.normal(size=(100, 2))
    column[17, 1] = far
    message = f"features, row 17, column 1: {far:g} is so far from the other values"
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        Statistics.of(column)
    rows = np.delete(np.arange(100), 17)
    assert np.isfinite(Statistics.of(column, rows).std).all()


@pytest.mark.parametrize(
    "column",
    [
        np.zeros(100),
        np.append(np.zeros(99), 1e300),  # constant but for one
        np.append(np.full(99, 0.3), 1.0) + RNG.choice([0, 2**-54], 100),  # constant but for rounding
        RNG.normal(size=100) * 1e300,
        RNG.normal(size=100) * 1e-300,
        np.exp(RNG.normal(size=10_000) * 3),  # a heavy tail
        1.7e9 + RNG.normal(size=100) * 40,
        np.array([1.0, 1e300]),
    ],
)
def test_columns_that_training_can_use_pass(column: np.ndarray) -> None:
    check_spread(column[:, None], lambda row, number: "never")


def test_whole_numbers_beyond_53_bits() -> None:
    def where(row: int, column: int) -> str:
        return f"cell {row}, {column}"

    nanoseconds = np.array([[1_700_000_000_000_000_000 + 10**9 * second] for second in range(100)])
    assert len(np.unique(to_float64(nanoseconds, where))) == 100
    ids = np.array([[2**60 + number] for number in range(100)])
    for values in (ids, ids.astype(np.uint64) + np.uint64(2**63)):
        with pytest.raises(ValueError, match=r"^cell 0, 0: the numbers of the column, from -?\d+ to -?\d+, differ"):
            to_float64(values, where)
    assert to_float64(np.full((3, 1), 2**60 + 1), where).tolist() == [[2.0**60]] * 3  # nothing to tell apart
    with pytest.raises(ValueError, match="cell 1, 0: inf is not a finite number"):
        to_float64(np.array([[1], [np.longdouble("1e4000")]]), where)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_refused(bad: float) -> None:
    features = INTEGERS.copy()
    features[7, 2] = bad
    with pytest.raises(ValueError, match=f"features, row 7, column 2: {bad} is not a finite number"):
        Statistics.of(features, np.arange(5, 60))
    with pytest.raises(ValueError, match=f"features, row 7, column 2: {bad} is not a finite number"):
        Batches(features, np.arange(60) % 2, seed=0)


def test_masked_arrays_are_refused() -> None:
    hidden = np.ma.masked_array(INTEGERS, INTEGERS > 40)
    labels = np.arange(60) % 2
    with pytest.raises(ValueError, match="the inputs of made are a masked array with masked values"):
        Dataset("made", hidden, labels, ("a", "b"))
    with pytest.raises(ValueError, match="the labels of made are a masked array with masked values"):
        Dataset("made", INTEGERS, np.ma.masked_array(labels, labels == 1), ("a", "b"))
    assert len(Dataset("made", np.ma.masked_array(INTEGERS), labels, ("a", "b"))) == 60
