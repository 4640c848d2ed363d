"""Which labels are wrong: from what training showed of each sample, or from given scores."""

from pyrite.auditing.audit import audit
from pyrite.auditing.found import Audit, Confusion
from pyrite.auditing.scores import Kind
from pyrite.auditing.troubles import Troubles, troubles

__all__ = ["Audit", "Confusion", "Kind", "Troubles", "audit", "troubles"]
