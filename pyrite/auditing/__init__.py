"""Which labels are wrong, from scores or margins: arrays in, an ``Audit`` out. ``pyrite.run_audits`` also trains."""

from pyrite.auditing.audit import FEWEST, audit_margins, audit_scores, check_enough
from pyrite.auditing.result import Audit, Confusion
from pyrite.auditing.review import Review
from pyrite.auditing.scores import Kind
from pyrite.auditing.stacking import Calibration, shares_of
from pyrite.auditing.troubles import Troubles, troubles

__all__ = [
    "FEWEST",
    "Audit",
    "Calibration",
    "Confusion",
    "Kind",
    "Review",
    "Troubles",
    "audit_margins",
    "audit_scores",
    "check_enough",
    "shares_of",
    "troubles",
]
