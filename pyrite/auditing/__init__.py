"""Which labels are wrong, from scores or margins: arrays in, an ``Audit`` out. ``pyrite.run_audits`` also trains."""

from pyrite.auditing.annotators import AnnotatorFit, fit_annotators
from pyrite.auditing.audit import Annotator, Audit, Confusion
from pyrite.auditing.from_annotators import audit_annotated, with_annotators
from pyrite.auditing.from_scores import FEWEST, audit_margins, audit_scores, check_enough
from pyrite.auditing.issues import DataIssues, data_issues
from pyrite.auditing.review import Review
from pyrite.auditing.sample_scores import SCORES, AuditScore, Evidence
from pyrite.auditing.scores import Kind

__all__ = [
    "FEWEST",
    "SCORES",
    "Annotator",
    "AnnotatorFit",
    "Audit",
    "AuditScore",
    "Confusion",
    "DataIssues",
    "Evidence",
    "Kind",
    "Review",
    "audit_annotated",
    "audit_margins",
    "audit_scores",
    "check_enough",
    "data_issues",
    "fit_annotators",
    "with_annotators",
]
