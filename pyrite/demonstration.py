"""The demo: wrong labels are made, found, and trained on, with data that scikit-learn contains."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

from pyrite.auditing import Audit
from pyrite.comparing import Comparison, compare
from pyrite.run_audits import audit

DEMO_METHODS: Final = {
    "ce": "cross entropy",
    "auto": "pyrite's default",
    "mae": "MAE",
    "gce(q=0.7)": "GCE",
    "imae(T=8)": "IMAE",
    "unit(scale(mae, tau=2, classes=10))": "scaled MAE",
}
"""What the demo compares, and the names it has in the report."""

# A net that can memorise every label, and as many epochs as cross entropy needs for that. All other settings are the
# defaults; nothing was chosen for a single loss.
DEMO_SETTINGS: Final[dict[str, Any]] = {"noise": "symmetric(0.4)", "model": "mlp"}
_EPOCHS: Final = 40


@final
@dataclass(frozen=True)
class Demo:
    """The audit of labels that were made wrong, and training on them by several methods."""

    audit: Audit
    comparison: Comparison


def demo(
    out: str | Path = "demo",
    *,
    epochs: int | None = None,
    seed: int = 0,
    begin: Callable[[str, int], None] = lambda name, seed: None,
    progress: bool | None = None,
) -> Demo:
    """Corrupt 40 % of the labels of scikit-learn's digits, find the wrong labels, and compare six methods.

    The demo takes about half a minute on two cores. Finished runs in ``out`` are not trained again.

    Args:
        out: the folder for the runs and the table.
        epochs: the number of epochs; by default 40 for the comparison and the default of an audit.
        seed: the seed of all random numbers.
        begin: called before each run with the name of the method and the seed.
        progress: as for ``train``.

    Returns:
        The audit and the comparison.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     print(demo(folder).audit.sentence)
    """
    length: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    begin("audit", seed)
    found = audit("digits", out=Path(out) / "audit", seed=seed, progress=progress, **DEMO_SETTINGS, **length)
    comparison = compare(
        "digits",
        list(DEMO_METHODS),
        out=out,
        seed=seed,
        begin=lambda spec, seed: begin(DEMO_METHODS[spec], seed),
        progress=progress,
        **{"epochs": _EPOCHS} | DEMO_SETTINGS | length,
    )
    named = (replace(row, name=DEMO_METHODS[row.name]) for row in comparison.rows)
    return Demo(found, replace(comparison, rows=tuple(named)))
