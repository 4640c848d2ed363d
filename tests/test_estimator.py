from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

import pyrite


@parametrize_with_checks([pyrite.RobustClassifier()])
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)
