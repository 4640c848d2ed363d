"""Losses that are functions of the soft margin alone, and what can be said of them."""

from pyrite.curves.curve import Curve, CurveSum, Peak, Tails
from pyrite.curves.family import AEL, AGCE, AUL, CE, GCE, IMAE, MAE, RCE, SCE, TCE, Focal, TruncatedGCE
from pyrite.curves.initial import expected_margin, initial_margins
from pyrite.curves.learned import Learned
from pyrite.curves.transforms import Scale, Shift, Unit, scale, shift

__all__ = [
    "AEL",
    "AGCE",
    "AUL",
    "CE",
    "GCE",
    "IMAE",
    "MAE",
    "RCE",
    "SCE",
    "TCE",
    "Curve",
    "CurveSum",
    "Focal",
    "Learned",
    "Peak",
    "Scale",
    "Shift",
    "Tails",
    "TruncatedGCE",
    "Unit",
    "expected_margin",
    "initial_margins",
    "scale",
    "shift",
]
