"""Estimates of the noise matrix, T[i, j] = P(given j | true i), from the scores of a net trained on given labels.

All work in float64, on the scores of every sample, which are the same at every process.
"""

import torch
from torch import Tensor

from pyrite.errors import PyriteError
from pyrite.methods.staged import Estimate
from pyrite.soft_margin import row_margins


def from_anchors(scores: Tensor, percentile: float | Tensor = 100.0) -> Tensor:
    """The noisy posterior of one sample per class, which is taken as a certain example of it.

    Row i is the posterior of the sample with the largest probability of i or, as that may be an outlier, of the one at
    ``percentile`` of these probabilities, which may differ by class. Samples are compared by margins, as probabilities
    near 1 are rounded. Patrini et al., 2017, equations 12 and 13.

    >>> from_anchors(torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]]).log()).round(decimals=4)
    tensor([[0.8000, 0.2000],
            [0.3000, 0.7000]], dtype=torch.float64)
    """
    rows = scores[scores.isfinite().all(1)].double()
    if not len(rows):
        raise PyriteError("scores has no finite row to estimate a noise matrix from")
    order = row_margins(rows).sort(dim=0, stable=True).indices
    classes = torch.arange(scores.shape[1], device=rows.device)
    place = (torch.as_tensor(percentile, dtype=rows.dtype, device=rows.device) / 100 * (len(rows) - 1)).long()
    return rows[order[place.expand(len(classes)), classes]].softmax(1)


def wrong_by_matrix(scores: Tensor, labels: Tensor, matrix: Tensor) -> Tensor:
    """The probability that each label is wrong, if the scores are of P(given | x) and the noise is that of a matrix.

    The inverse of the matrix gives P(true | x); negative entries, where the net is surer than the noise allows, are set
    to 0. Then Bayes' rule adds the label itself.

    >>> scores = torch.tensor([[0.6, 0.4], [0.5, 0.5]]).log()
    >>> wrong_by_matrix(scores, torch.tensor([1, 0]), torch.tensor([[0.6, 0.4], [0.4, 0.6]])).round(decimals=3)
    tensor([1.0000, 0.4000], dtype=torch.float64)
    """
    noise, _ = invertible(matrix.to(scores.device, torch.float64))
    true: Tensor = torch.linalg.solve(noise, scores.double().softmax(1), left=False).clamp(min=0)
    joint: Tensor = true * noise[:, labels].mT
    return 1 - joint.gather(1, labels.unsqueeze(1)).squeeze(1) / joint.sum(1).clamp(min=torch.finfo(joint.dtype).tiny)


def from_confusion(scores: Tensor, labels: Tensor) -> Tensor:
    """How often each label is given to samples that the net predicts as a class, weighted by its probability.

    A class that is never predicted keeps its label. Goldberger & Ben-Reuven, 2017, section 3.
    """
    kept = scores.isfinite().all(1) & (labels >= 0)
    return _row_means(_sums_by_label(scores[kept], labels[kept]).mT.contiguous())


def from_gold(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean noisy posterior of the samples whose true label is known (Hendrycks et al., 2018, section 3)."""
    return _row_means(_sums_by_label(scores, labels))


def _sums_by_label(scores: Tensor, labels: Tensor) -> Tensor:
    probabilities = scores.double().softmax(1)
    return probabilities.new_zeros(2 * scores.shape[1:]).index_add(0, labels, probabilities)


def _row_means(sums: Tensor) -> Tensor:
    """Rows that add up to 1; that of the identity where there is nothing to divide."""
    row_sums = sums.sum(1, keepdim=True)
    identity = torch.eye(len(sums), dtype=sums.dtype, device=sums.device)
    return torch.where(row_sums > 0, sums / torch.where(row_sums > 0, row_sums, 1.0), identity)


def invertible(matrix: Tensor, largest_condition: float = 100.0) -> tuple[Tensor, float]:
    """The matrix with as much of the identity mixed in, in tenths, as its inverse needs; and that fraction.

    The remedy is Patrini et al.'s. With a condition number beyond 100 the inverse multiplies losses, and the errors of
    the estimate, by so much that training follows the errors.
    """
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    for tenths in range(10):
        mixed = torch.lerp(matrix, identity, tenths / 10)
        if float(torch.linalg.cond(mixed)) <= largest_condition:
            return mixed, tenths / 10
    return identity, 1.0


def as_estimate(matrix: Tensor, **numbers: float) -> Estimate:
    """What a stage passes on: the matrix, its noise rate if all classes are equally frequent, and further numbers."""
    numbers = {"estimated_noise_rate": 1 - float(matrix.diagonal().mean()), **numbers}
    return {"matrix": matrix, **{name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}}
