"""Every loss by its name, the reader of their spec strings, and the settings of the papers."""

from typing import Unpack

from pyrite import curves
from pyrite.criterion import Loss, Options, Sum
from pyrite.errors import PyriteError
from pyrite.losses.corrected import Backward, Forward
from pyrite.losses.normalised import NCE, Normalised, UnitLoss, unit
from pyrite.losses.own import OwnLoss
from pyrite.losses.regularised import MSE, BootHard, BootSoft, Confidence, Peer, Smooth
from pyrite.spec import Registry

LOSSES: Registry[Loss] = Registry(
    "loss",
    {
        "ce": curves.CE,
        "focal": curves.Focal,
        "mae": curves.MAE,
        "rce": curves.RCE,
        "gce": curves.GCE,
        "truncated_gce": curves.TruncatedGCE,
        "sce": curves.SCE,
        "tce": curves.TCE,
        "aul": curves.AUL,
        "agce": curves.AGCE,
        "ael": curves.AEL,
        "imae": curves.IMAE,
        "unit": unit,
        "shift": curves.Shift,
        "scale": curves.Scale,
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
    also={curves.Unit: "unit", UnitLoss: "unit", curves.CurveSum: "+", Sum: "+"},
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
    "scale": {
        "scale(mae, tau=2.6, classes=100)": _TABLE_9,
        "scale(agce(a=0.1, q=0.1), tau=4, classes=100)": _TABLE_9,
    },
    # The paper's absolute error is 1 - p and ours is 2 (1 - p), so its factor q = 0.3 is 0.15 here.
    "nce": {"0.7*nce + 0.15*mae": _TABLE_8},
    "boot_soft": {"boot_soft(beta=0.95)": _REED},
    "boot_hard": {"boot_hard(beta=0.8)": _REED},
}
"""By the name of a loss, its spec strings as papers used it, with the paper and its table; a sum stands with its first
term. Ou & Zhang divide every loss by its largest weight: write ``unit(...)`` around theirs to train as they do.
"""
