"""Audits and data whose every number is known."""

from typing import Any

import numpy as np

from pyrite.auditing import Audit
from pyrite.data import Dataset

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
NAMES = ("cat", "dog", 'a "quoted", name', "two\nlines")


def make_audit(classes: tuple[str, ...] = NAMES, samples: int = 60, suspects: int = 20, **changes: Any) -> Audit:
    """Sample i has the i-th highest score; the first are suspects. Given i % 4, and the next class is suggested."""
    count = len(classes)
    labels = np.arange(samples) % count
    score = np.linspace(6, -6, samples) + (0.5 - suspects / samples) * -12
    score = np.where(np.arange(samples) < suspects, 2 + (samples - np.arange(samples)) / samples, score - 20)
    width = min(5, count)
    choices = (labels[:, None] + 1 + np.arange(width)) % count
    likelihoods = np.tile(np.array([0.6, 0.2, 0.1, 0.06, 0.04])[:width], (samples, 1))
    matrix = 0.75 * np.eye(count) + 0.25 * np.roll(np.eye(count), 1, axis=0)
    made: dict[str, Any] = {
        "labels": labels,
        "classes": classes,
        "index": np.arange(samples) + 100,
        "score": score,
        "choices": choices,
        "likelihoods": likelihoods,
        "threshold": 0.5,
        "noise_rate": 0.25,
        "noise_rate_error": 0.021,
        "matrix": matrix,
        "matrix_error": np.full_like(matrix, 0.01),
        "evidence": {"margin": -score},
    }
    return Audit(**(made | changes))


def make_images(count: int = 200, side: int = 8) -> Dataset:
    """Sample i is of one grey: i."""
    inputs = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None, None], (count, 3, side, side)).copy()
    return Dataset("greys", inputs, np.arange(count) % 4, NAMES)


def cannot_tell() -> Audit:
    nothing = {"threshold": np.nan, "noise_rate": np.nan, "noise_rate_error": np.nan}
    unknown = np.full((4, 4), np.nan)
    return make_audit(can_tell=False, matrix=unknown, matrix_error=unknown, **nothing)
