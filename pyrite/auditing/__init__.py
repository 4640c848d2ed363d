"""Which labels are wrong: from what training showed of each sample, or from given scores."""

from pyrite.auditing.audit import FEWEST, audit, default_method
from pyrite.auditing.found import Audit, Confusion
from pyrite.auditing.scores import Kind
from pyrite.auditing.troubles import Troubles, troubles

__all__ = ["FEWEST", "Audit", "Confusion", "Kind", "Troubles", "audit", "default_method", "troubles"]
