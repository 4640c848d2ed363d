"""Scores of every sample by a small net on embeddings that was not trained on its label."""

from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pyrite.data import first_members
from pyrite.draws import Stream, uniforms
from pyrite.errors import PyriteError
from pyrite.models import seeded

_FOLDS: Final = 5
_HIDDEN: Final = 256
_DROPPED: Final = 0.2, 0.5  # of the embeddings, and of the hidden units
_EPOCHS, _STEPS, _BATCH = 6, 300, 256  # of each head; small data has more epochs, so that there are as many steps
_RATE: Final = 2e-3


def cross_fitted(
    embeddings: Tensor, labels: Tensor, *, classes: int, seed: int, groups: npt.NDArray[np.int64]
) -> Tensor:
    """Scores (N, K) of all samples, each by a head that was trained without the fold of the sample.

    Rows of samples without a label (−1) or with an embedding that is not finite are NaN, and so are all if there is
    only one group.
    """
    labels = labels.where(embeddings.isfinite().all(1), -1)
    scores = torch.full((len(embeddings), classes), torch.nan, device=embeddings.device)
    folds = min(_FOLDS, len(np.unique(groups[labels.cpu().numpy() >= 0])))
    if folds < 2:
        return scores
    fold = assign_folds(labels, folds, seed, groups)
    std, mean = torch.std_mean(embeddings[fold >= 0].float(), 0)
    inputs = (embeddings.float() - mean) / (std + 1e-6)
    with seeded(seed):
        for number in range(folds):
            head = _fitted(inputs, labels, ((fold >= 0) & (fold != number)).nonzero().squeeze(1), classes)
            with torch.no_grad():
                scores[fold == number] = head(inputs[fold == number])
    return scores


def _fitted(inputs: Tensor, labels: Tensor, rows: Tensor, classes: int) -> nn.Module:
    """A head in evaluation mode, trained on these rows with cross entropy."""
    head = nn.Sequential(
        nn.Dropout(_DROPPED[0]), nn.Linear(inputs.shape[1], _HIDDEN), nn.ReLU(),
        nn.Dropout(_DROPPED[1]), nn.Linear(_HIDDEN, classes),
    ).to(inputs.device)  # fmt: skip
    per_epoch = max(1, len(rows) // _BATCH)
    epochs = max(_EPOCHS, -(-_STEPS // per_epoch))
    optimiser = torch.optim.AdamW(head.parameters(), _RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=epochs * per_epoch)
    for _ in range(epochs):
        for batch in rows[torch.randperm(len(rows)).to(rows.device)][: per_epoch * _BATCH].tensor_split(per_epoch):
            optimiser.zero_grad()
            cross_entropy(head(inputs[batch]), labels[batch]).backward()
            optimiser.step()
            schedule.step()
    return head.eval()


def assign_folds(labels: Tensor, folds: int, seed: int, groups: npt.NDArray[np.int64]) -> Tensor:
    """The fold of every sample, with every class spread evenly over the folds; −1 for samples that are not trained on.

    Groups are in one fold.

    >>> assign_folds(torch.tensor([0, 0, 1, -1, 1, 0]), 2, seed=0, groups=np.array([0, 1, 2, 3, 4, 0])).tolist()
    [1, 0, 1, -1, 0, 1]
    """
    given = labels.cpu().numpy()
    used = np.flatnonzero(given >= 0)
    member = used[first_members(groups[used])]
    if len(np.unique(member)) < folds:
        raise PyriteError(f"{len(np.unique(member))} groups cannot be divided into {folds} folds")
    # Classes are dealt one after the other, so that the sizes of the folds differ by at most one.
    dealt = np.lexsort((uniforms(seed, Stream.FOLDS, len(given)), given))
    dealt = dealt[np.isin(dealt, member)]
    fold = np.full(len(given), -1)
    fold[dealt] = np.arange(len(dealt)) % folds
    fold[used] = fold[member]
    return torch.from_numpy(fold).to(labels.device)
