"""Claims about losses alone: variances of weights, decompositions, symmetry."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, exp, log
from torch.nn.functional import log_softmax, softmax

from pyrite.criterion import Loss
from pyrite.curves import AEL, AGCE, AUL, CE, IMAE, MAE, Curve
from pyrite.losses import NCE, loss as read_loss
from pyrite.papers.claims import Computed
from pyrite.soft_margin import margin

_Function = Callable[[Tensor], Tensor]

# Table 7 of the IMAE paper: the variance of the weights for each T.
_TABLE_7 = {0.5: 0.0016, 1: 0.0074, 2: 0.0400, 4: 0.2985, 8: 4.546, 16: 354.1}

# Tables 1 and 6 of the curriculum paper, with their errata: each loss as a function of p, and its weight.
_TABLE_6: dict[str, tuple[_Function, _Function]] = {
    "ce": (lambda p: -log(p), lambda p: 1 - p),
    "focal(q=2)": (lambda p: -((1 - p) ** 2) * log(p), lambda p: (1 - p) ** 2 * (1 - p - 2 * p * log(p))),
    "0.5*mae": (lambda p: 1 - p, lambda p: p * (1 - p)),
    "aul(a=2, q=2)": (lambda p: ((2 - p) ** 2 - 1) / 2, lambda p: p * (1 - p) * (2 - p)),
    "agce(a=1, q=0.5)": (lambda p: 2 * (2**0.5 - (1 + p) ** 0.5), lambda p: p * (1 + p) ** -0.5 * (1 - p)),
    "ael(q=2.5)": (lambda p: exp(-p / 2.5), lambda p: p * (1 - p) * exp(-p / 2.5) / 2.5),
    "gce(q=0.7)": (lambda p: (1 - p**0.7) / 0.7, lambda p: p**0.7 * (1 - p)),
    "sce(q=0.7)": (lambda p: -0.3 * log(p) + 0.7 * (1 - p), lambda p: (0.3 + 0.7 * p) * (1 - p)),
    "tce(q=2)": (lambda p: 1 - p + (1 - p) ** 2 / 2, lambda p: p * (1 - p + (1 - p) ** 2)),
}


def variances() -> Computed:
    """I2: the variances of the weights of MAE, CE and IMAE (IMAE, Figure 1)."""
    printed = {"mae": 0.0889, "ce": 0.3333, "imae(T=8)": 4.546}
    return _variances("I2", {str(loss): loss.weight_variance() for loss in (MAE(), CE(), IMAE(T=8))}, printed)


def variance_grows() -> Computed:
    """I9: the variance of IMAE's weights grows with T (IMAE, Table 7)."""
    found = {f"T={T}": IMAE(T=T).weight_variance() for T in _TABLE_7}
    finding = _variances("I9", found, {f"T={T}": value for T, value in _TABLE_7.items()})
    grows = all(low < high for low, high in pairwise(found.values()))
    return Computed("I9", {"the variance grows with T": grows, **finding.statements}, finding.numbers)


def _variances(claim: str, found: dict[str, float], printed: dict[str, float]) -> Computed:
    """Variances beside the printed ones, which are rounded: to half of their last digit they must agree."""
    last = {name: 10.0 ** -len(str(value).partition(".")[2]) for name, value in printed.items()}
    agree = {f"{name}: {value}": abs(found[name] - value) <= 0.51 * last[name] for name, value in printed.items()}
    return Computed(claim, agree, {f"variance, {name}": value for name, value in found.items()})


def neither_symmetric_nor_bounded() -> Computed:
    """I15: the losses of all labels do not add up to a constant, and the value has no bound (IMAE, Table 2).

    The value is the potential of the paper's gradient, as the printed integral diverges.
    """
    loss, scores = IMAE(T=8), _scores(classes=10)
    sums = loss.per_label(scores).sum(1)
    ends = [float(loss.value_at(torch.tensor(end, dtype=torch.float64))) for end in (-1e4, 1e4)]
    # At both ends the slope is -1/2, so at a margin of 10,000 the value has grown to 5,000.
    return Computed(
        "I15",
        {
            "not symmetric": float(sums.max() - sums.min()) > 0.01 * float(sums.abs().mean()),
            "not bounded": ends[0] > 4900 and ends[1] < -4900,
        },
        {"smallest sum over labels": float(sums.min()), "largest sum over labels": float(sums.max())}
        | {"value at margin -10000": ends[0], "value at margin 10000": ends[1]},
    )


def weight_times_direction() -> Computed:
    """C1: the gradient of each loss is a weight times that of the margin, whose L1 norm is 2 (section 4.1, Table 6).

    The gradient is autograd's, through the softmax; the weight is the printed one, and that of our curve.
    """
    numbers: dict[str, float] = {}
    for classes in (2, 10, 100):
        scores, labels = _scores(classes), _labels(classes)
        direction = _gradient(partial(margin, labels=labels), scores)
        norm = direction.abs().sum(1)
        numbers[f"L1 norm of the margin's gradient, {classes} classes"] = float(norm[(norm - 2).abs().argmax()])
        p = _of_probability(lambda p: p, labels, scores)
        for name, (phi, w) in _TABLE_6.items():
            gradient = _gradient(partial(_of_probability, phi, labels), scores)
            curve = read_loss(name)
            assert isinstance(curve, Curve)
            ours = curve.weight_at(margin(scores, labels)).unsqueeze(1)
            for words, weight in (("printed weight", w(p)), ("our weight", ours)):
                cell = f"{name}: largest difference, {words}"
                numbers[cell] = max(numbers.get(cell, 0.0), float((gradient + weight * direction).abs().max()))
    holds = {name: abs(value - (2 if "norm" in name else 0)) < 1e-12 for name, value in numbers.items()}
    return Computed("C1", holds, numbers)


def nce_is_regularised_ce() -> Computed:
    """C2: NCE is a weighted CE with a regulariser (Eq. 2), with a bound of its weight (Eq. 3, false as printed)."""
    wrong, printed, corrected, broken = 0.0, 0.0, 0.0, 0.0
    for classes in (3, 10, 100):
        scores, labels = _scores(classes), _labels(classes)
        parts = NCE().decomposition(scores, labels)
        gradient = _loss_gradient(NCE(), scores, labels)
        regulariser = _gradient(lambda s: log_softmax(s, 1).mean(1), scores)
        rebuilt = _loss_gradient(CE(), scores, labels) + parts.epsilon.unsqueeze(1) * regulariser
        rebuilt = parts.gamma.unsqueeze(1) * rebuilt
        weight = gradient.abs().sum(1) / 2
        wrong = max(wrong, float(((gradient - rebuilt).abs().amax(1) / weight).max()))
        printed = max(printed, float((weight / parts.printed_bound).max()))
        corrected = max(corrected, float((weight / parts.bound).max()))
        broken = max(broken, float((weight > parts.printed_bound * (1 + 1e-9)).double().mean()))
    return Computed(
        "C2",
        {"Eq. 2": wrong < 1e-9, "Eq. 3": printed <= 1 + 1e-9},
        {"gradient of NCE minus Eq. 2": wrong, "weight over Eq. 3, largest": printed}
        | {"fraction of samples above Eq. 3": broken, "weight over the corrected bound, largest": corrected},
        {"Eq. 3 with the mean over labels: gamma (w_CE + epsilon (1 - 1/K))": corrected <= 1 + 1e-9},
    )


def asymmetry_conditions() -> Computed:
    """C15: up to which noise ratio AUL, AGCE and AEL are asymmetric (A.3; AUL's two cases are misprinted)."""
    printed, numbers, corrections = {}, {}, {}
    for a, q in ((0.1, 0.1), (1.0, 0.5), (1.0, 2.0)):
        numbers[f"agce(a={a}, q={q})"] = bound = AGCE(a=a, q=q).asymmetry_bound()
        printed[f"AGCE, a={a}, q={q}"] = _close(bound, (a / (a + 1)) ** (1 - q) if q <= 1 else 1.0)
    for q in (0.5, 2.5):
        numbers[f"ael(q={q})"] = bound = AEL(q=q).asymmetry_bound()
        printed[f"AEL, q={q}"] = _close(bound, float(torch.exp(torch.tensor(-1 / q, dtype=torch.float64))))
    for a, q in ((1.5, 0.5), (2.0, 2.0), (1.1, 5.0)):
        numbers[f"aul(a={a}, q={q})"] = bound = AUL(a=a, q=q).asymmetry_bound()
        restricted = ((a - 1) / a) ** (q - 1)
        # As printed, q <= 1 is restricted; the formula is then above 1, which is no restriction.
        printed[f"AUL, a={a}, q={q}"] = _close(bound, min(1.0, restricted) if q <= 1 else 1.0)
        corrections[f"AUL, a={a}, q={q}, with q > 1 restricted"] = _close(bound, restricted if q > 1 else 1.0)
    return Computed("C15", printed, {f"bound, {name}": value for name, value in numbers.items()}, corrections)


def _of_probability(function: _Function, labels: Tensor, scores: Tensor) -> Tensor:
    return function(softmax(scores, 1).gather(1, labels.unsqueeze(1)))


def _close(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= 1e-3 * wanted


def _scores(classes: int) -> Tensor:
    """Scores of every spread from 0.1 to 10: untrained samples, learned ones and hopeless ones."""
    generator = torch.Generator().manual_seed(classes)
    spread = torch.logspace(-1, 1, 400, dtype=torch.float64).unsqueeze(1)
    return spread * torch.randn(400, classes, dtype=torch.float64, generator=generator)


def _labels(classes: int) -> Tensor:
    return torch.arange(400) % classes


def _loss_gradient(loss: Loss, scores: Tensor, labels: Tensor) -> Tensor:
    return _gradient(lambda s: loss.at_label(s, labels), scores)


@torch.enable_grad()
def _gradient(function: _Function, scores: Tensor) -> Tensor:
    leaf = scores.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]
