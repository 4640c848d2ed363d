"""The search for settings, on held-out labels that are partly wrong themselves."""

from pyrite.tuning.result import Tuning
from pyrite.tuning.study import Trial
from pyrite.tuning.tune_runs import tune

__all__ = ["Trial", "Tuning", "tune"]
