"""Every method by its name, and the function that reads their spelling."""

from collections.abc import Callable

from pyrite.criterion import Loss
from pyrite.errors import PyriteError
from pyrite.losses import LOSSES
from pyrite.methods.auto import Auto
from pyrite.methods.bilevel import Bilevel
from pyrite.methods.bootstrap import Bootstrap
from pyrite.methods.co_teaching import CoTeaching
from pyrite.methods.confidence import ScheduledConfidence
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
from pyrite.methods.masking import Masking
from pyrite.methods.mentornet import Mentornet
from pyrite.methods.meta_weight import MetaWeight
from pyrite.methods.method import Method
from pyrite.methods.peer import ScheduledPeer
from pyrite.methods.s_model import SModel
from pyrite.methods.select import Select
from pyrite.methods.self_corrected import SelfCorrected
from pyrite.methods.self_paced import SelfPaced
from pyrite.methods.staged import Staged
from pyrite.spec import build, register_class

__all__ = ["METHODS", "method"]

METHODS: dict[str, Callable[..., Method]] = {
    "erm": ERM,
    "meta_weight": MetaWeight,
    "l2rw": L2RW,
    "staged": Staged,
    "forward": ForwardCorrection,
    "backward": BackwardCorrection,
    "s_model": SModel,
    "masking": Masking,
    "glc": GLC,
    "fine_tune": FineTune,
    "self_paced": SelfPaced,
    "mentornet": Mentornet,
    "co_teaching": CoTeaching,
    "bilevel": Bilevel,
    "elr": ELR,
    "bootstrap": Bootstrap,
    "peer": ScheduledPeer,
    "confidence": ScheduledConfidence,
    "joint": Joint,
    "d2l": D2L,
    "cross_fit": CrossFit,
    "curriculum": Curriculum,
    "self_corrected": SelfCorrected,
    "select": Select,
    "auto": Auto,
}

# Classes whose names would be those of losses.
for _name in ("forward", "backward", "peer", "confidence"):
    register_class(_name, METHODS[_name])  # type: ignore[arg-type]  # these four are classes


def method(spec: str | Method) -> Method:
    """The method that ``spec`` spells; a method comes back as it is.

    >>> method("erm(gce(q=0.7))")
    ERM(GCE(q=0.7))
    """
    if isinstance(spec, Method):
        return spec
    if not isinstance(spec, str):
        raise PyriteError(f"method is {spec!r}, but must be a text such as 'erm(ce)', or a method")
    # A name may be a method and a loss: by itself it is the method, as an argument the loss.
    built = build(spec, LOSSES | METHODS, "method", nested=METHODS | LOSSES)
    if isinstance(built, Loss):
        raise PyriteError(f"{spec!r} is a loss, not a method: write erm({spec}), or pass it as loss")
    if not isinstance(built, Method):
        raise PyriteError(f"{spec!r} is not a method")
    return built
