"""Methods: one algorithm per file. A description, ``erm(ce)``, is started on a context and makes steps of batches."""

from pyrite.methods.auto import Auto
from pyrite.methods.bilevel import Bilevel
from pyrite.methods.co_teaching import CoTeaching
from pyrite.methods.context import Context
from pyrite.methods.corrected import BackwardCorrection, ForwardCorrection
from pyrite.methods.cross_fit import CrossFit
from pyrite.methods.curriculum import Curriculum
from pyrite.methods.d2l import D2L
from pyrite.methods.elr import ELR
from pyrite.methods.erm import ERM
from pyrite.methods.fine_tune import FineTune
from pyrite.methods.glc import GLC
from pyrite.methods.joint import Joint
from pyrite.methods.l2rw import L2RW
from pyrite.methods.learner import Learner
from pyrite.methods.mentornet import Mentornet
from pyrite.methods.meta_gradient import MetaGradient, meta_gradient
from pyrite.methods.meta_weight import MetaWeight, WeightNet
from pyrite.methods.method import MetaSet, Method
from pyrite.methods.noise_layer import Masking, SModel
from pyrite.methods.noise_rate import estimate_noise_rate
from pyrite.methods.registry import METHODS, method
from pyrite.methods.scheduled import Bootstrap, ScheduledConfidence, ScheduledPeer
from pyrite.methods.select import Select
from pyrite.methods.self_corrected import SelfCorrected
from pyrite.methods.self_paced import SelfPaced
from pyrite.methods.staged import Staged, Stages
from pyrite.methods.step import Step
from pyrite.methods.trainer import Trainer

__all__ = [
    "D2L",
    "ELR",
    "ERM",
    "GLC",
    "L2RW",
    "METHODS",
    "Auto",
    "BackwardCorrection",
    "Bilevel",
    "Bootstrap",
    "CoTeaching",
    "Context",
    "CrossFit",
    "Curriculum",
    "FineTune",
    "ForwardCorrection",
    "Joint",
    "Learner",
    "Masking",
    "Mentornet",
    "MetaGradient",
    "MetaSet",
    "MetaWeight",
    "Method",
    "SModel",
    "ScheduledConfidence",
    "ScheduledPeer",
    "Select",
    "SelfCorrected",
    "SelfPaced",
    "Staged",
    "Stages",
    "Step",
    "Trainer",
    "WeightNet",
    "estimate_noise_rate",
    "meta_gradient",
    "method",
]
