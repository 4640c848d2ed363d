"""Cells of ``benchmarks/audit_cells.py`` in one small file: all that the fit of the noise rate needs of each.

A cell has a matrix of scores, and two thousand of them take 100 MB. The fit needs the features, which labels are wrong
in the order of the ranking, and quantiles of the log-odds: half a kB per cell. So a new fit needs no new cells, unless
the features or the ranking have changed, and sets can be added later.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, f1_score

from benchmarks.audit_cells import IMAGES, OVERLAPPING, group_of, seed_of
from pyrite.auditing.noise_fit import LabelGroups, fit_noise
from pyrite.auditing.noise_rate import FEATURES, features
from pyrite.auditing.probabilities import log_odds
from pyrite.auditing.scores import gap_of, to_log_p

__all__ = ["SUMMARIES", "Cell", "add_summaries", "known_sets", "read_summaries"]

SUMMARIES = Path(__file__).with_name("audit_summaries.npz")
POINTS = (1 - np.cos(np.linspace(0, np.pi, 65))) / 2  # at which quantiles are kept: dense at both ends
THEIRS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")  # scores of cleanlab
NUMBERS = ("ap", "their ap", "their f1", "their found")


class Cell(NamedTuple):
    """The labels of a cell in the order of their log-odds, highest first."""

    odds: Any  # the log-odds of a wrong label
    wrong: Any


def summarise(path: Path) -> dict[str, Any]:
    """The arrays that the file has of a cell."""
    with np.load(path) as file:
        p, given, true = file["P"].astype(np.float64), file["given"].astype(np.int64), file["true"]
    log_p, wrong = to_log_p(p, "probabilities", gap_of(p, "probabilities")), given != true
    groups = LabelGroups(log_p, given)
    odds = log_odds(fit_noise(groups).log_joint(log_p, given), given)
    return {
        "name": path.stem,
        "can_tell": groups.can_tell,
        "features": features(groups).astype(np.float32),
        "samples": len(wrong),
        "wrong": np.packbits(wrong[np.argsort(-odds, kind="stable")]),
        "odds": np.quantile(odds, 1 - POINTS).astype(np.float32),
        "numbers": np.array([_ap(wrong, odds), *_by_cleanlab(p, given, wrong)], np.float32),
    }


def _ap(wrong: Any, score: Any) -> float:
    return float(average_precision_score(wrong, score)) if wrong.any() else np.nan


def _by_cleanlab(p: Any, given: Any, wrong: Any) -> tuple[float, float, float]:
    """The best average precision of its scores, the F1 of its list, and its noise rate."""
    from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    try:
        prior, noise, *_ = estimate_py_and_noise_matrices_from_probabilities(given, p)
        found = 1 - float(np.diag(noise) @ prior)
    except (ValueError, IndexError):  # a class without a confident sample
        found = np.nan
    if not wrong.any():
        return np.nan, np.nan, found
    best = max(_ap(wrong, -get_label_quality_scores(given, p, method=method)) for method in THEIRS)
    return best, float(f1_score(wrong, find_label_issues(given, p, n_jobs=1))), found


def known_sets() -> set[str]:
    """The data sets whose cells the file has."""
    return {str(name).partition("__")[0] for name in _arrays()["name"]} if SUMMARIES.exists() else set()


def add_summaries(folder: Path, name: str) -> None:
    """Add the cells of a data set to the file."""
    rows = [summarise(path) for path in sorted(folder.glob(f"{name}__*.npz"))]
    if not rows:
        return
    added = {key: np.array([row[key] for row in rows]) for key in rows[0] if key != "wrong"}
    added["wrong"] = np.concatenate([row["wrong"] for row in rows])
    before = _arrays() if SUMMARIES.exists() else {}
    np.savez_compressed(
        SUMMARIES, **{key: np.concatenate([before[key], new]) if before else new for key, new in added.items()}
    )


def _arrays() -> dict[str, Any]:
    with np.load(SUMMARIES) as file:
        return {key: file[key] for key in file.files}


def read_summaries() -> pd.DataFrame:
    """One row per cell: what it is, its true rate, the features, and what cleanlab finds."""
    if not SUMMARIES.exists():
        raise SystemExit("there are no summaries of cells: python -m benchmarks.audit_rate cells FOLDER writes them")
    table = _arrays()
    ends = np.cumsum((table["samples"] + 7) // 8)
    rows = []
    for place, bits in enumerate(np.split(table["wrong"], ends[:-1])):
        samples = int(table["samples"][place])
        at = np.linspace(0, 1, samples)
        wrong = np.unpackbits(bits, count=samples).astype(bool)
        name, model, noise = str(table["name"][place]).split("__")
        kind = "overlap" if name.startswith(OVERLAPPING) else "images" if name.startswith(IMAGES) else "tables"
        half = "chosen on" if seed_of("half", group_of(name)) % 2 == 0 else "kept aside"
        what = {"cell": Cell(np.interp(at, POINTS, table["odds"][place]), wrong), "set": name, "group": group_of(name)}
        what |= {"kind": kind, "half": half, "model": model, "noise": noise}
        what |= {"rate": float(wrong.mean()), "samples": samples}
        what |= dict(zip(NUMBERS, table["numbers"][place].astype(np.float64).tolist(), strict=True))
        rows.append(what | {"can_tell": bool(table["can_tell"][place])})
    return pd.DataFrame(rows).join(pd.DataFrame(table["features"].astype(np.float64), columns=list(FEATURES)))
