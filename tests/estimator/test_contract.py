"""scikit-learn's own checks, with nothing skipped or expected to fail."""

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import pyrite


# Some checks pass columns whose labels are of shape (N, 1), or names that change, and expect a warning or an error.
@pytest.mark.filterwarnings("default::UserWarning", "default::FutureWarning", "default::RuntimeWarning")
@parametrize_with_checks([pyrite.RobustClassifier()])
def test_scikit_learns_own_checks(estimator: pyrite.RobustClassifier, check: Callable[[Any], None]) -> None:
    check(estimator)
