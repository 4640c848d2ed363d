"""Every loss by its name, and the reader of their spec strings."""

from typing import Unpack

from pyrite.criterion import Loss, Options, Sum
from pyrite.curves import (
    AEL,
    AGCE,
    AUL,
    CE,
    GCE,
    IMAE,
    MAE,
    RCE,
    SCE,
    TCE,
    Focal,
    Scale,
    Shift,
    TruncatedGCE,
    Unit,
)
from pyrite.curves.curve import CurveSum
from pyrite.errors import PyriteError
from pyrite.losses.bootstrapped import BootHard, BootSoft
from pyrite.losses.corrected import Backward, Forward
from pyrite.losses.normalised import NCE, Normalised
from pyrite.losses.own import OwnLoss
from pyrite.losses.regularised import MSE, Confidence, Peer, Smooth
from pyrite.losses.units import UnitLoss, unit
from pyrite.spec import Registry

__all__ = ["LOSSES", "loss"]

LOSSES: Registry[Loss] = Registry(
    "loss",
    {
        "ce": CE,
        "focal": Focal,
        "mae": MAE,
        "rce": RCE,
        "gce": GCE,
        "truncated_gce": TruncatedGCE,
        "sce": SCE,
        "tce": TCE,
        "aul": AUL,
        "agce": AGCE,
        "ael": AEL,
        "imae": IMAE,
        "unit": unit,
        "shift": Shift,
        "scale": Scale,
        "nce": NCE,
        "normalised": Normalised,
        "mse": MSE,
        "smooth": Smooth,
        "confidence": Confidence,
        "peer": Peer,
        "boot_soft": BootSoft,
        "boot_hard": BootHard,
        "forward": Forward,
        "backward": Backward,
    },
    Loss,
    "gce(q=0.7)",
    also={Unit: "unit", UnitLoss: "unit", CurveSum: "+", Sum: "+"},
)


def loss(spec: object, **options: Unpack[Options]) -> Loss:
    """The loss that ``spec`` describes; a loss comes back as it is.

    A module or function of your own that is called as ``nn.CrossEntropyLoss(reduction="none")`` is becomes a loss.

    ``options`` are those of every loss: ``reduction``, ``ignore_index``, ``weight``, ``check``.

    >>> loss("0.7*nce + 0.3*scale(mae, tau=2.6, classes=100)")
    0.7*NCE() + 0.3*Scale(MAE(), tau=2.6, classes=100)
    """
    if isinstance(spec, Loss):
        if options:
            raise PyriteError(f"{spec!r} is a loss already: give {', '.join(options)} when it is made")
        return spec
    if not isinstance(spec, str):
        return OwnLoss(spec, **options)  # type: ignore[arg-type]  # which refuses what cannot be called
    return LOSSES.read(spec).configure(**options)
