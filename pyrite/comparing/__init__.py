"""Runs side by side, trained one after the other or in several processes."""

from pyrite.comparing.comparison import Comparison, Row, check_columns, compare, loss_or_method
from pyrite.comparing.grid import check_many, mean_and_deviation, run_grid, train_command, write_results
from pyrite.text_tables import Table

__all__ = [
    "Comparison", "Row", "Table", "check_columns", "check_many", "compare", "loss_or_method", "mean_and_deviation",
    "run_grid", "train_command", "write_results",
]  # fmt: skip
