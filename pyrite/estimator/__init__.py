"""scikit-learn's contract, fulfilled with what the other rooms have."""

from pyrite.estimator.classifier import RobustClassifier

__all__ = ["RobustClassifier"]
