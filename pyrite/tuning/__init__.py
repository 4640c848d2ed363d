"""The search for settings, on held-out labels that are partly wrong themselves."""

from pyrite.tuning.result import Trial, Tuning
from pyrite.tuning.tune_runs import tune

__all__ = ["Trial", "Tuning", "tune"]
