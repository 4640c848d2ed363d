"""A classifier with the interface of scikit-learn."""

from pyrite.estimator.classifier import RobustClassifier

__all__ = ["RobustClassifier"]
