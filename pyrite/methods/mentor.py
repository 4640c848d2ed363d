"""The data-driven mentor: a small network trained on a run whose true labels are known."""

from pathlib import Path
from typing import Final, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from pyrite.errors import PyriteError
from pyrite.npz_files import read_npz

__all__ = ["Lesson", "Mentor", "read_lesson", "train_mentor"]

Lesson = tuple[Tensor, Tensor]
"""Features of samples, one row of three for each, and whether their labels are right."""

_STEPS: Final = 300  # of Adam, on all rows at once; the loss has converged by then
_HIDDEN: Final = 20  # as the authors' fully connected layer


@final
class Mentor(nn.Module):
    """From a sample's loss, its distance to the threshold, and the share of the run that is over, to a logit.

    The sigmoid of the logit is the probability that the label is right.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, _HIDDEN), nn.Linear(_HIDDEN, 1)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.last(torch.tanh(self.first(features)))
        return logits.squeeze(-1)


def features_of(losses: Tensor, threshold: Tensor | float, progress: Tensor | float) -> Tensor:
    """The inputs of a mentor: three numbers per loss, in float64."""
    losses = losses.double()
    parts = (losses, losses - threshold, torch.zeros_like(losses) + progress)
    return torch.stack(parts, -1)


def train_mentor(lesson: Lesson) -> Mentor:
    """A mentor trained to tell right labels from wrong ones. The same lesson gives the same mentor."""
    features, is_right = lesson
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mentor = Mentor().double()
    optimiser = torch.optim.Adam(mentor.parameters(), lr=0.05)
    with torch.enable_grad():
        for _ in range(_STEPS):
            optimiser.zero_grad()
            binary_cross_entropy_with_logits(mentor(features), is_right).backward()
            optimiser.step()
    return mentor.requires_grad_(False)


def read_lesson(folder: str) -> Lesson:
    """The lesson of a finished run of ``mentornet`` whose true labels are known."""
    try:
        labels, arrays = (read_npz(Path(folder) / f"{name}.npz") for name in ("labels", "method"))
        given, true = labels["given"], labels.get("true")
        index, losses, thresholds = (arrays[f"mentor_{name}"] for name in ("index", "losses", "thresholds"))
    except (ValueError, KeyError) as error:
        raise PyriteError(f"mentor is {folder!r}, but that is not the folder of a run of mentornet: {error}") from None
    if true is None:
        raise PyriteError(f"mentor is {folder!r}, but the true labels of that run are not known")
    fits = losses.ndim == 2 and losses.shape == thresholds.shape + index.shape and given.shape == true.shape
    if not fits or not losses.size or not ((index >= 0) & (index < given.size)).all():
        raise PyriteError(f"mentor is {folder!r}, but its labels.npz and method.npz are not of one run")
    epochs = len(losses)
    threshold, progress = (
        torch.from_numpy(np.asarray(column, np.float64)).unsqueeze(1)
        for column in (thresholds, np.arange(1, epochs + 1) / epochs)
    )
    rows = index.astype(np.int64)
    is_right = torch.from_numpy((given == true)[rows].astype(np.float64)).expand(epochs, -1)
    features = features_of(torch.from_numpy(losses), threshold, progress)
    seen = features.isfinite().all(-1)
    return features[seen], is_right[seen]
