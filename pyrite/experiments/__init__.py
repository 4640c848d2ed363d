"""Experiments: comparisons of runs, and the search for settings."""

from pyrite.experiments.comparison import Comparison, Row, check_columns, compare
from pyrite.experiments.demo import demo
from pyrite.experiments.study import Trial
from pyrite.experiments.table import Table
from pyrite.experiments.tuning import tune
from pyrite.experiments.tuning_result import Tuning
from pyrite.experiments.without_suspects import suspects_are_unknown, train_without_suspects

__all__ = [
    "Comparison",
    "Row",
    "Table",
    "Trial",
    "Tuning",
    "check_columns",
    "compare",
    "demo",
    "suspects_are_unknown",
    "train_without_suspects",
    "tune",
]
