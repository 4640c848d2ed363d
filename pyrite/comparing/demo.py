"""The first thing to run: what wrong labels do to a model, and what a loss does about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyrite.comparing.comparison import Comparison, compare

__all__ = ["LOSSES_SHOWN", "SETTINGS", "demo"]

LOSSES_SHOWN: Final = ("ce", "mae", "gce(q=0.7)", "imae(T=8)", "unit(scale(mae, tau=2, classes=10))")

# A net that can memorise every label, and as many epochs as cross entropy needs for that. All other settings are the
# defaults; nothing was chosen for a single loss.
SETTINGS: Final[dict[str, Any]] = {"noise": "symmetric(0.4)", "model": "mlp", "epochs": 40}


def demo(
    out: str | Path = "demo",
    *,
    epochs: int | None = None,
    seed: int = 0,
    begin: Callable[[str, int], None] = lambda name, seed: None,
    progress: bool | None = None,
) -> Comparison:
    """Train on scikit-learn's digits, 40 % of whose training labels are made wrong, with five losses side by side.

    About a minute on two cores. Runs that are in ``out`` already are not trained again.

    Args:
        out: the folder for the runs and the table.
        epochs: 40 by default.
        seed: everything random comes from it.
        begin: called before each run, with the name of the loss and the seed.
        progress: as for ``train``.
    """
    settings = SETTINGS if epochs is None else SETTINGS | {"epochs": epochs}
    return compare("digits", LOSSES_SHOWN, out=out, seed=seed, begin=begin, progress=progress, **settings)
