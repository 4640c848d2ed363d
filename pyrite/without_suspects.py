"""Train, audit, and train again without the labels that look wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Unpack

from pyrite.auditing import Audit
from pyrite.data import Data
from pyrite.errors import PyriteError
from pyrite.processes import rank
from pyrite.run_audits import audit
from pyrite.settings import Settings
from pyrite.training import (
    LEAST_TRAINED,
    Config,
    Observer,
    Run,
    given_settings,
    new_folder,
    read_once,
    resolve,
    train_once,
)


def train_without_suspects(
    data: Data | None = None,
    *,
    out: str | Path | None = None,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    audited: Callable[[Audit], None] = lambda result: None,
    **options: Unpack[Settings],
) -> Run:
    """Audit in ``OUT/audit``, then train in ``OUT`` without the suspects.

    Call the function again with the same arguments to continue an interrupted run.

    Args:
        data: as for ``train``.
        out: the directory of the second run; by default a new one.
        progress: as for ``train``.
        observers: called in both runs.
        audited: called with the audit, before the second run.
        options: those of ``train``. Labels with a probability of ``drop_suspects`` or more of being wrong are dropped.
            ``minutes`` is the time limit of both runs together. The audit holds out a fifth of the samples by default
            (``validation``).

    Returns:
        The second run.

    >>> import tempfile
    >>> settings = {"noise": "flip2(0.2)", "model": "mlp", "epochs": 3, "samples": 300}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train_without_suspects("digits", drop_suspects=0.9, out=folder, **settings)
    >>> len(run.history)
    3
    """
    names = ("drop_suspects", "device", "validation")
    # Without held-out samples there would only be a ranking, and no suspects to drop.
    values = {"validation": 0.2} | {name: value for name, value in given_settings(options).items() if name in names}
    # The settings of the second run are checked now, not after the first one.
    config = Config({"data": "", "corrections": "those of the audit", **values})
    if not config.drop_suspects:
        raise PyriteError("drop_suspects is missing: set the lowest probability at which labels are dropped, as in 0.9")
    if given := given_settings(options).get("corrections"):
        raise PyriteError(
            f"corrections is {given}, but suspects are those of a new audit: omit corrections, or pass them to train"
        )
    begun = perf_counter()
    data, options = read_once(data, options)
    if minutes := given_settings(options).get("minutes"):
        options = {**options, "minutes": minutes / 2}
    first_options: Settings = {**options, "validation": config.validation, "drop_suspects": 0.0}
    folder = None if out is None else Path(out)
    if folder is None or not (folder / "audit" / "recipe.toml").exists():
        folder = new_folder(folder, config.device)
    ranking = folder / "audit" / "suspects.csv"
    watching: dict[str, Any] = {"progress": progress, "observers": observers}
    try:
        first = train_once(resolve(data, **first_options), folder / "audit", **watching)
        if rank() == 0:
            result = audit(first)
            result.to_csv(ranking)
            audited(result)
        if minutes:  # what the first run and its audit have left
            options["minutes"] = max(LEAST_TRAINED * minutes, minutes - (perf_counter() - begun) / 60)
        options["corrections"] = ranking
        return train_once(resolve(data, **options), folder, **watching)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped and saved; continue with the same command and --out {folder}") from None
