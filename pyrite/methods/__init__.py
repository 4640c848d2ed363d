"""Methods: one algorithm a file. A description, ``erm(ce)``, is started on a model; then it makes steps of batches."""

from pyrite.methods.erm import ERM
from pyrite.methods.learner import Learner, Step
from pyrite.methods.learning import Learning, Method
from pyrite.methods.registry import METHODS, method

__all__ = ["ERM", "METHODS", "Learner", "Learning", "Method", "Step", "method"]
