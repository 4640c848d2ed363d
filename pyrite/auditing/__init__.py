"""Which labels are wrong, from scores or margins: arrays in, an ``Audit`` out. ``pyrite.run_audits`` also trains."""

from pyrite.auditing.audit import Audit, Confusion
from pyrite.auditing.from_scores import FEWEST, audit_margins, audit_scores, check_enough
from pyrite.auditing.issues import DataIssues, data_issues
from pyrite.auditing.review import Review
from pyrite.auditing.sample_scores import SCORES, AuditScore, Evidence
from pyrite.auditing.scores import Kind

__all__ = [
    "FEWEST",
    "SCORES",
    "Audit",
    "AuditScore",
    "Confusion",
    "DataIssues",
    "Evidence",
    "Kind",
    "Review",
    "audit_margins",
    "audit_scores",
    "check_enough",
    "data_issues",
]
