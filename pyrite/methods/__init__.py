"""Methods: one algorithm per file. A description, ``erm(ce)``, is started on a context and makes steps of batches."""

from pyrite.losses import LOSSES
from pyrite.methods.bilevel import Bilevel
from pyrite.methods.context import Context, Cycle
from pyrite.methods.corrected import GLC, BackwardCorrection, ForwardCorrection, Masking, SModel
from pyrite.methods.curriculum import Curriculum
from pyrite.methods.early_stopping import PES
from pyrite.methods.learner import Learner
from pyrite.methods.members import Auto, CrossFit, Select
from pyrite.methods.meta_gradient import MetaGradient, meta_gradient
from pyrite.methods.meta_weight import L2RW, MetaWeight, WeightNet
from pyrite.methods.method import ERM, MetaSet, Method
from pyrite.methods.mixed_pair import DivideMix, ElrPlus
from pyrite.methods.over_parameterised import SOP
from pyrite.methods.past_predictions import ELR, Joint
from pyrite.methods.scheduled import D2L, Bootstrap, ScheduledConfidence, ScheduledPeer
from pyrite.methods.self_corrected import SelfCorrected
from pyrite.methods.small_loss import CoTeaching, Mentornet, SelfPaced, estimate_noise_rate
from pyrite.methods.staged import FineTune, Staged, Stages
from pyrite.methods.trainer import Step, Trainer, joined
from pyrite.spec import Registry, named

__all__ = [
    "D2L", "ELR", "ERM", "GLC", "L2RW", "METHODS", "PES", "SOP", "Auto", "BackwardCorrection", "Bilevel", "Bootstrap",
    "CoTeaching", "Context", "CrossFit", "Curriculum", "Cycle", "DivideMix", "ElrPlus", "FineTune", "ForwardCorrection",
    "Joint", "Learner", "Masking", "Mentornet", "MetaGradient", "MetaSet", "MetaWeight", "Method", "SModel",
    "ScheduledConfidence", "ScheduledPeer", "Select", "SelfCorrected", "SelfPaced", "Staged", "Stages", "Step",
    "Trainer", "WeightNet", "estimate_noise_rate", "joined", "meta_gradient", "method",
]  # fmt: skip

METHODS: Registry[Method] = Registry(
    "method",
    {
        **named(ERM, MetaWeight, L2RW, Staged),
        "forward": ForwardCorrection,
        "backward": BackwardCorrection,
        **named(SModel, Masking, GLC, FineTune, SelfPaced, Mentornet, CoTeaching, DivideMix, Bilevel, ELR, ElrPlus),
        **named(SOP, PES, Bootstrap),
        "peer": ScheduledPeer,
        "confidence": ScheduledConfidence,
        **named(Joint, D2L, CrossFit, Curriculum, SelfCorrected, Select, Auto),
    },
    Method,
    "erm(ce)",
    parts=LOSSES,
)


def method(spec: str | Method) -> Method:
    """Return the method that ``spec`` describes; a method is returned unchanged.

    Args:
        spec: a spec string, such as ``"elr(coefficient=7)"``, or a method.

    Returns:
        The method.

    >>> method("erm(gce(q=0.7))")
    ERM(GCE(q=0.7))
    """
    return METHODS.read(spec)
