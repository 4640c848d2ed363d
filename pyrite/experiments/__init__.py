"""Experiments: runs side by side, and what they show."""

from pyrite.experiments.choice import Tuning
from pyrite.experiments.comparison import Comparison, Row, compare
from pyrite.experiments.demo import demo
from pyrite.experiments.study import Trial
from pyrite.experiments.tuning import tune

__all__ = ["Comparison", "Row", "Trial", "Tuning", "compare", "demo", "tune"]
