"""Experiments: comparisons of runs, the search for settings, and the tables and figures of papers."""

from pyrite.experiments.claims import CLAIMS
from pyrite.experiments.comparison import Comparison, Row, check_columns, compare
from pyrite.experiments.demo import demo
from pyrite.experiments.paper_recipe import RECIPES, SCALES, PaperRecipe
from pyrite.experiments.reproduction import Reproduction, read_reproduction, reproduce
from pyrite.experiments.study import Trial
from pyrite.experiments.table import Table
from pyrite.experiments.tuning import tune
from pyrite.experiments.tuning_result import Tuning
from pyrite.experiments.without_suspects import suspects_are_unknown, train_without_suspects

__all__ = [
    "CLAIMS",
    "RECIPES",
    "SCALES",
    "Comparison",
    "PaperRecipe",
    "Reproduction",
    "Row",
    "Table",
    "Trial",
    "Tuning",
    "check_columns",
    "compare",
    "demo",
    "read_reproduction",
    "reproduce",
    "suspects_are_unknown",
    "train_without_suspects",
    "tune",
]
