"""Experiments: runs side by side, and what they show."""

from pyrite.experiments.comparison import Comparison, Row, compare
from pyrite.experiments.demo import demo

__all__ = ["Comparison", "Row", "compare", "demo"]
