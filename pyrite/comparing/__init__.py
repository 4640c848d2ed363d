"""Runs side by side, trained one after the other or in several processes."""

from pyrite.comparing.comparison import Comparison, Row, check_columns, compare, demo
from pyrite.comparing.grid import run_grid
from pyrite.comparing.table import Table, train_command

__all__ = ["Comparison", "Row", "Table", "check_columns", "compare", "demo", "run_grid", "train_command"]
