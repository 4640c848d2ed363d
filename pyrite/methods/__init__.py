"""Methods: one algorithm a file. A description, ``erm(ce)``, is started on a model; then it makes steps of batches."""

from pyrite.methods.erm import ERM
from pyrite.methods.l2rw import L2RW
from pyrite.methods.learner import Learner, Step
from pyrite.methods.learning import Learning, Meta, Method
from pyrite.methods.meta_gradient import MetaGradient, meta_gradient
from pyrite.methods.meta_weight import MetaWeight
from pyrite.methods.registry import METHODS, method
from pyrite.methods.weight_net import WeightNet

__all__ = [
    "ERM",
    "L2RW",
    "METHODS",
    "Learner",
    "Learning",
    "Meta",
    "MetaGradient",
    "MetaWeight",
    "Method",
    "Step",
    "WeightNet",
    "meta_gradient",
    "method",
]
