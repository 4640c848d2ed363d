"""Losses that are functions of the soft margin alone, and their properties."""

from pyrite.curves.curve import Curve, CurveSum, Peak, Tails, bare_curve
from pyrite.curves.family import AEL, AGCE, AUL, CE, GCE, IMAE, MAE, RCE, SCE, TCE, Focal, TruncatedGCE
from pyrite.curves.transforms import MEASURED, Scale, Shift, Unit, expected_margin, initial_margins, scale, shift
from pyrite.curves.weight_net_curve import WeightNetCurve

__all__ = [
    "AEL", "AGCE", "AUL", "CE", "GCE", "IMAE", "MAE", "MEASURED", "RCE", "SCE", "TCE", "Curve", "CurveSum", "Focal",
    "Peak", "Scale", "Shift", "Tails", "TruncatedGCE", "Unit", "WeightNetCurve", "bare_curve", "expected_margin",
    "initial_margins", "scale", "shift",
]  # fmt: skip
