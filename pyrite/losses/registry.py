"""Every loss by its name, the reader of their spec strings, and the settings of the papers."""

from typing import NamedTuple, Unpack

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
from pyrite.losses.corrected import Backward, Forward
from pyrite.losses.normalised import NCE, Normalised, UnitLoss, unit
from pyrite.losses.own import OwnLoss
from pyrite.losses.regularised import MSE, BootHard, BootSoft, Confidence, Peer, Smooth
from pyrite.spec import Registry

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


class Setting(NamedTuple):
    """A loss as a paper used it: ``where`` is the paper and its table."""

    spec: str
    where: str


_TABLE_8 = "Ou & Zhang, Table 8"
_INFERIOR = "Ou & Zhang, Table 8, chosen to underfit"
_TABLE_12 = "Ou & Zhang, Table 12"

PAPER_SETTINGS: dict[str, tuple[Setting, ...]] = {
    "gce": (
        Setting("gce(q=0.3)", _TABLE_8),
        Setting("gce(q=0.4)", _TABLE_12),
        Setting("gce(q=0.7)", "Zhang & Sabuncu, 2018"),
    ),
    "truncated_gce": (Setting("truncated_gce(q=0.7, k=0.5)", "Zhang & Sabuncu, 2018"),),
    "sce": (Setting("sce(q=0.7)", _TABLE_8), Setting("sce(q=0.95)", _TABLE_12)),
    "aul": (
        Setting("aul(a=1.1, q=5)", _TABLE_8),
        Setting("aul(a=3, q=0.7)", _INFERIOR),
        Setting("aul(a=2, q=2)", _TABLE_12),
    ),
    "agce": (
        Setting("agce(a=0.1, q=0.1)", _TABLE_8),
        Setting("agce(a=1.6, q=2)", _INFERIOR),
        Setting("agce(a=3, q=4)", _TABLE_12),
    ),
    "imae": (
        Setting("imae(T=8)", "Wang et al., with noise"),
        Setting("imae(T=0.5)", "Wang et al., without noise"),
    ),
    "shift": (Setting("shift(mae, tau=3, classes=100)", "Ou & Zhang, Table 9, symmetric noise 0.4"),),
    "scale": (
        Setting("scale(mae, tau=2.6, classes=100)", "Ou & Zhang, Table 9, symmetric noise 0.4"),
        Setting("scale(agce(a=0.1, q=0.1), tau=4, classes=100)", "Ou & Zhang, Table 9, symmetric noise 0.4"),
    ),
    # The paper's absolute error is 1 - p and ours is 2 (1 - p), so its factor q = 0.3 is 0.15 here.
    "nce": (Setting("0.7*nce + 0.15*mae", _TABLE_8),),
    "boot_soft": (Setting("boot_soft(beta=0.95)", "Reed et al., 2015"),),
    "boot_hard": (Setting("boot_hard(beta=0.8)", "Reed et al., 2015"),),
}
"""By the name under which a loss is registered; a sum stands with its first term.

Ou & Zhang divide every loss by its largest weight: write ``unit(...)`` around theirs to train as they do.
"""
