"""Experiments: runs side by side, and what they show."""

from pyrite.experiments.comparison import Comparison, Row, compare

__all__ = ["Comparison", "Row", "compare"]
