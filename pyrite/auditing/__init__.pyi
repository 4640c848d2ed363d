from .annotators import (
    audit_annotated as audit_annotated,
    fit_annotators as fit_annotators,
    with_annotators as with_annotators,
)
from .audit import Annotator as Annotator, Audit as Audit
from .columns import (
    ColumnModels as ColumnModels,
    columns_of as columns_of,
    find_leaks as find_leaks,
    with_metadata as with_metadata,
    with_slices as with_slices,
)
from .from_scores import (
    FEWEST as FEWEST,
    audit_margins as audit_margins,
    audit_scores as audit_scores,
    check_enough as check_enough,
)
from .issues import data_issues as data_issues
from .sample_scores import SCORES as SCORES, AuditScore as AuditScore, Evidence as Evidence
from .score_tables import open_shards as open_shards
from .scores import (
    Kind as Kind,
    check_labels as check_labels,
    named_scores as named_scores,
    numbered as numbered,
    preferences as preferences,
)
from .slices import Leak as Leak
