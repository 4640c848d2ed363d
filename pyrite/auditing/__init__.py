"""Which labels are wrong: from what training showed of each sample, or from given scores."""

from pyrite.auditing.found import Audit, Confusion

__all__ = ["Audit", "Confusion"]
