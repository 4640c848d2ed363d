"""Every loss by its name, the reader of their spec strings, losses of a user's own, and the settings of the papers."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack, final

import torch
from torch import Tensor, nn

from pyrite import curves
from pyrite.criterion import Loss, Options, Sum
from pyrite.errors import PyriteError
from pyrite.losses.regularised import MSE, BootHard, BootSoft, Confidence, Peer, Smooth
from pyrite.losses.wrapped import NCE, Backward, Forward, Normalised, UnitLoss, unit
from pyrite.soft_margin import wide_dtype
from pyrite.spec import Registry, named

LOSSES: Registry[Loss] = Registry(
    "loss",
    named(
        curves.CE, curves.Focal, curves.MAE, curves.RCE, curves.GCE, curves.TruncatedGCE, curves.SCE, curves.TCE,
        curves.AUL, curves.AGCE, curves.AEL, curves.IMAE, unit, curves.Shift, curves.Scale, NCE, Normalised, MSE,
        Smooth, Confidence, Peer, BootSoft, BootHard, Forward, Backward,
    ),
    Loss,
    "gce(q=0.7)",
    also={curves.Unit: "unit", UnitLoss: "unit", curves.CurveSum: "+", Sum: "+"},
)  # fmt: skip


def loss(spec: object, **options: Unpack[Options]) -> Loss:
    """Return the loss that ``spec`` describes; a loss is returned unchanged.

    A module or function with the interface of ``nn.CrossEntropyLoss(reduction="none")`` is wrapped in a loss.

    Args:
        spec: a spec string, such as ``"gce(q=0.7)"`` or a weighted sum; a loss; or a module or function.
        options: keyword arguments of ``Loss``: ``reduction``, ``ignore_index``, ``weight`` and ``check``.

    Returns:
        The loss.

    >>> loss("0.7*nce + 0.3*scale(mae, tau=2.6, classes=100)")
    0.7*NCE() + 0.3*Scale(MAE(), tau=2.6, classes=100)
    """
    if isinstance(spec, Loss):
        if options:
            raise PyriteError(f"{spec!r} is already a loss: pass {', '.join(options)} to its constructor")
        return spec
    if not isinstance(spec, str):
        return OwnLoss(spec, **options)  # type: ignore[arg-type]  # which refuses what cannot be called
    return LOSSES.read(spec).configure(**options)


_TABLE_8, _TABLE_9, _TABLE_12 = (
    "Ou & Zhang, Table 8",
    "Ou & Zhang, Table 9, symmetric noise 0.4",
    "Ou & Zhang, Table 12",
)
_INFERIOR = "Ou & Zhang, Table 8, chosen to underfit"
_ZHANG, _REED = "Zhang & Sabuncu, 2018", "Reed et al., 2015"

PAPER_SETTINGS: dict[str, dict[str, str]] = {
    "gce": {"gce(q=0.3)": _TABLE_8, "gce(q=0.4)": _TABLE_12, "gce(q=0.7)": _ZHANG},
    "truncated_gce": {"truncated_gce(q=0.7, k=0.5)": _ZHANG},
    "sce": {"sce(q=0.7)": _TABLE_8, "sce(q=0.95)": _TABLE_12},
    "aul": {"aul(a=1.1, q=5)": _TABLE_8, "aul(a=3, q=0.7)": _INFERIOR, "aul(a=2, q=2)": _TABLE_12},
    "agce": {"agce(a=0.1, q=0.1)": _TABLE_8, "agce(a=1.6, q=2)": _INFERIOR, "agce(a=3, q=4)": _TABLE_12},
    "imae": {"imae(T=8)": "Wang et al., with noise", "imae(T=0.5)": "Wang et al., without noise"},
    "shift": {"shift(mae, tau=3, classes=100)": _TABLE_9},
    "scale": {"scale(mae, tau=2.6, classes=100)": _TABLE_9, "scale(agce(a=0.1, q=0.1), tau=4, classes=100)": _TABLE_9},
    # The paper's absolute error is 1 - p and ours is 2 (1 - p), so its factor q = 0.3 is 0.15 here.
    "nce": {"0.7*nce + 0.15*mae": _TABLE_8},
    "boot_soft": {"boot_soft(beta=0.95)": _REED},
    "boot_hard": {"boot_hard(beta=0.8)": _REED},
}
"""By the name of a loss, its spec strings as papers used it, with the paper and its table; a sum stands with its first
term. Ou & Zhang divide every loss by its largest weight: write ``unit(...)`` around theirs to train as they do.
"""


@final
class OwnLoss(Loss):
    """A loss that wraps a module or function with the interface of ``nn.CrossEntropyLoss(reduction="none")``.

    The loss of a sample must depend only on this sample. Otherwise, write a ``Loss`` with ``couples = True``.

    Args:
        function: maps scores (N, C) and labels (N,) to one loss per sample (N,). If it has a ``reduction``, a copy with
            ``"none"`` is used. Its ``ignore_index``, if any, becomes that of the wrapper.
        options: keyword arguments of ``Loss``.

    >>> OwnLoss(nn.CrossEntropyLoss())(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], **options: Unpack[Options]) -> None:
        if not callable(function) or isinstance(function, type):
            raise PyriteError(f"loss is {function!r}, but must be a text such as 'gce(q=0.7)', a loss, or a function")
        ignored: Any = getattr(function, "ignore_index", None)
        super().__init__(**({"ignore_index": ignored} if isinstance(ignored, int) else {}) | options)
        if getattr(function, "weight", None) is not None and isinstance(function, nn.modules.loss._WeightedLoss):
            raise PyriteError(
                f"loss is a {_name(function)} with class weights: pass those to pyrite, which needs them for the mean, "
                f"as in pyrite.loss({_name(function)}(), weight=...)"
            )
        if hasattr(function, "reduction"):
            function = copy.copy(function)
            function.reduction = "none"
        self._function = function  # with another name than the argument, so that write_spec writes no address

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        values = self._function(scores, labels)
        if not isinstance(values, Tensor) or values.shape != labels.shape or not values.is_floating_point():
            shown = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"type {type(values).__name__}"
            raise PyriteError(
                f"loss is {self}, which gives a value of {shown} for {len(labels)} samples, but must give one number "
                'per sample, as nn.CrossEntropyLoss(reduction="none") does'
            )
        return values.to(wide_dtype(scores))

    def try_out(self, classes: int) -> None:
        """Raise an error if the loss does not return one value per sample, before training starts.

        The check uses a copy, so the buffers of the loss do not change.
        """
        with torch.enable_grad():
            scores = torch.zeros(2, classes, requires_grad=True)
            values = copy.deepcopy(self).at_label(scores, torch.arange(2) % classes)
        if not values.requires_grad:
            raise PyriteError(f"loss is {self}, whose values have no gradient: it must not detach the scores")

    def __str__(self) -> str:
        return _name(self._function)

    def __repr__(self) -> str:
        return f"OwnLoss({_name(self._function)})"


def _name(function: object) -> str:
    if isinstance(function, partial):
        return _name(function.func)
    return str(getattr(function, "__name__", type(function).__name__))
