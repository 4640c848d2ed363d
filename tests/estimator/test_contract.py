"""scikit-learn's own checks, with nothing skipped or expected to fail."""

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import pyrite

# Some checks pass columns whose labels are of shape (N, 1), or names that change, and expect a warning or an error.
lenient = pytest.mark.filterwarnings("default::UserWarning", "default::FutureWarning", "default::RuntimeWarning")


@lenient
@parametrize_with_checks([pyrite.RobustClassifier(folds=2, members=1, model="mlp(hidden=[32], limit=3)")])
def test_scikit_learns_own_checks(estimator: pyrite.RobustClassifier, check: Callable[[Any], None]) -> None:
    """Fewer and smaller nets than by default, which train a quarter of the time; an audit is made all the same."""
    check(estimator)


@pytest.mark.slow
@lenient
@parametrize_with_checks([pyrite.RobustClassifier()])
def test_scikit_learns_own_checks_of_the_default(
    estimator: pyrite.RobustClassifier, check: Callable[[Any], None]
) -> None:
    check(estimator)
