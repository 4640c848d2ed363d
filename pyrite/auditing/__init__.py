"""Which labels are wrong, from scores or margins: arrays in, an ``Audit`` out. ``pyrite.run_audits`` also trains."""

from pyrite.auditing.annotators import AnnotatorFit, fit_annotators
from pyrite.auditing.audit import Annotator, Audit, Confusion
from pyrite.auditing.column_models import ColumnModels, Leak, find_leaks
from pyrite.auditing.from_annotators import audit_annotated, with_annotators
from pyrite.auditing.from_scores import FEWEST, audit_margins, audit_scores, check_enough
from pyrite.auditing.issues import DataIssues, data_issues
from pyrite.auditing.review import Review
from pyrite.auditing.sample_scores import SCORES, AuditScore, Evidence
from pyrite.auditing.scores import Kind, check_labels, named_scores, numbered, preferences
from pyrite.auditing.shards import open_shards
from pyrite.auditing.slices import Slice
from pyrite.auditing.where import columns_of, with_metadata, with_slices

__all__ = [
    "FEWEST",
    "SCORES",
    "Annotator",
    "AnnotatorFit",
    "Audit",
    "AuditScore",
    "ColumnModels",
    "Confusion",
    "DataIssues",
    "Evidence",
    "Kind",
    "Leak",
    "Review",
    "Slice",
    "audit_annotated",
    "audit_margins",
    "audit_scores",
    "check_enough",
    "check_labels",
    "columns_of",
    "data_issues",
    "find_leaks",
    "fit_annotators",
    "named_scores",
    "numbered",
    "open_shards",
    "preferences",
    "with_annotators",
    "with_metadata",
    "with_slices",
]
