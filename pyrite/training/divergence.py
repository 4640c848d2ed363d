"""Divergence without NaN: scores that grow without bound while the model forgets what it knew, or never learns."""

from collections.abc import Sequence
from typing import Any, Final

__all__ = ["FAR", "divergence"]

# A run that does not diverge keeps nearly all of its best accuracy on given labels: losing a quarter is no fluctuation.
_KEPT: Final = 0.75

FAR: Final = 50.0
"""Margins above this are far beyond certainty: the odds of the label are e^50."""

_TRY = (
    "Try a lower learning rate, gradient clipping (clip 1), or a loss whose weight vanishes for learned samples: "
    "pyrite check shows whether it does"
)


def divergence(history: Sequence[dict[str, Any]]) -> list[str]:
    """One sentence if a run has diverged or its scores have grown without bound; else an empty list.

    Divergence is judged by the accuracy on the *given* labels of the training set, which every run has: a model that
    learns labels, right or wrong, does not lose them again while its scores grow. Epochs of earlier stages are left
    out, because a stage may begin with the initial weights, and so are epochs in which no training sample had a weight.
    """
    seen = [line for line in history if line["train_accuracy"] is not None and line["margin_size"] is not None]
    seen = [line for line in seen if line.get("weight_max") != 0]
    if not seen:
        return []
    seen = [line for line in seen if line.get("stage") == seen[-1].get("stage")]
    best, last = max(seen, key=lambda line: line["train_accuracy"]), seen[-1]
    sentences = []
    if last["train_accuracy"] <= _KEPT * best["train_accuracy"] and last["margin_size"] > best["margin_size"]:
        sentences.append(
            f"the run diverged: it followed {best['train_accuracy']:.0%} of the given labels after epoch "
            f"{best['epoch']} and {last['train_accuracy']:.0%} at the end, while the typical size of a margin went "
            f"from {best['margin_size']:.3g} to {last['margin_size']:.3g}. {_TRY}"
        )
    elif last["margin_size"] > FAR:
        sentences.append(
            f"the scores have grown without bound: the typical size of a margin is {last['margin_size']:.3g}, and "
            f"training longer can lose what was learned. {_TRY}"
        )
    return sentences
