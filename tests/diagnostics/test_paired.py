"""One standard error of a paired difference, against simulation and by hand."""

import numpy as np
import pytest

from pyrite.diagnostics import clearly_better


def test_equal_predictors_differ_by_a_standard_error_as_often_as_chance_says() -> None:
    """Of two predictors that are as good, one is ahead by more than a standard error in about 16 % of samples."""
    rng = np.random.default_rng(0)
    pairs = rng.random((2000, 2, 400)) < 0.7
    ahead = np.mean([clearly_better(first, second) for first, second in pairs])
    assert 0.13 < ahead < 0.18  # P(Z > 1) is .159; ties of whole numbers take some of it


@pytest.mark.parametrize(
    ("gap", "differing", "expected"), [(5, 25, False), (6, 26, True), (0, 0, False), (1, 1, False)]
)
def test_by_hand(gap: int, differing: int, expected: bool) -> None:
    ahead = (differing + gap) // 2
    hits = np.arange(40) < ahead
    others = (np.arange(40) >= ahead) & (np.arange(40) < differing)
    assert clearly_better(hits, others) is expected


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="lengths differ"):
        clearly_better([True], [True, False])
