"""Which labels are wrong: from what training showed of each sample, or from given scores."""

from pyrite.auditing.found import Audit, Confusion
from pyrite.auditing.troubles import Troubles, troubles

__all__ = ["Audit", "Confusion", "Troubles", "troubles"]
