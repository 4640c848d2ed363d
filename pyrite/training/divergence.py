"""Divergence without NaN: scores that grow without bound while the model forgets what it knew."""

from collections.abc import Sequence
from typing import Any

__all__ = ["divergence"]

# Of its best accuracy on the given labels a run in good order keeps nearly all: a fall by a quarter is no fluctuation.
_KEPT = 0.75


def divergence(history: Sequence[dict[str, Any]]) -> str | None:
    """A sentence if a run has fallen back, None if not.

    Looked at is the accuracy on the *given* labels of the training set, which every run has: a model that learns, be
    it right or wrong labels, does not lose them again.
    """
    seen = [line for line in history if line["train_accuracy"] is not None]
    if len(seen) < 2:
        return None
    best, last = max(seen, key=lambda line: line["train_accuracy"]), seen[-1]
    if last["train_accuracy"] > _KEPT * best["train_accuracy"]:
        return None
    return (
        f"the run diverged: it followed {best['train_accuracy']:.0%} of the given labels after epoch {best['epoch']} "
        f"and {last['train_accuracy']:.0%} at the end, while the typical size of a margin went from "
        f"{best['margin_size']:.3g} to {last['margin_size']:.3g}. Try a lower learning rate, gradient clipping, "
        "or a loss whose weight vanishes for learned samples: pyrite check says whether it does"
    )
