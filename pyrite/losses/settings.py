"""What the papers trained with, in the spelling of this library."""

from typing import NamedTuple

__all__ = ["PAPER_SETTINGS", "Setting"]


class Setting(NamedTuple):
    """A loss as a paper used it: ``spec`` is our spelling, ``where`` the paper and its table."""

    spec: str
    where: str


_TABLE_8 = "Ou & Zhang, Table 8"
_INFERIOR = "Ou & Zhang, Table 8, chosen to underfit"
_TABLE_12 = "Ou & Zhang, Table 12"

PAPER_SETTINGS: dict[str, tuple[Setting, ...]] = {
    "gce": (
        Setting("gce(q=0.3)", _TABLE_8),
        Setting("gce(q=0.4)", _TABLE_12),
        Setting("gce(q=0.7)", "Zhang & Sabuncu, 2018"),
    ),
    "truncated_gce": (Setting("truncated_gce(q=0.7, k=0.5)", "Zhang & Sabuncu, 2018"),),
    "sce": (Setting("sce(q=0.7)", _TABLE_8), Setting("sce(q=0.95)", _TABLE_12)),
    "aul": (
        Setting("aul(a=1.1, q=5)", _TABLE_8),
        Setting("aul(a=3, q=0.7)", _INFERIOR),
        Setting("aul(a=2, q=2)", _TABLE_12),
    ),
    "agce": (
        Setting("agce(a=0.1, q=0.1)", _TABLE_8),
        Setting("agce(a=1.6, q=2)", _INFERIOR),
        Setting("agce(a=3, q=4)", _TABLE_12),
    ),
    "imae": (
        Setting("imae(T=8)", "Wang et al., with noise"),
        Setting("imae(T=0.5)", "Wang et al., without noise"),
    ),
    "shift": (Setting("shift(mae, tau=3, classes=100)", "Ou & Zhang, Table 9, symmetric noise 0.4"),),
    "scale": (
        Setting("scale(mae, tau=2.6, classes=100)", "Ou & Zhang, Table 9, symmetric noise 0.4"),
        Setting("scale(agce(a=0.1, q=0.1), tau=4, classes=100)", "Ou & Zhang, Table 9, symmetric noise 0.4"),
    ),
    # The paper's absolute error is 1 - p and ours is 2 (1 - p), so its factor q = 0.3 is 0.15 here.
    "nce": (Setting("0.7*nce + 0.15*mae", _TABLE_8),),
    "boot_soft": (Setting("boot_soft(beta=0.95)", "Reed et al., 2015"),),
    "boot_hard": (Setting("boot_hard(beta=0.8)", "Reed et al., 2015"),),
}
"""By the name under which a loss is registered; a sum stands with its first term.

Ou & Zhang divide every loss by its largest weight: write ``unit(...)`` around theirs to train as they do.
"""
