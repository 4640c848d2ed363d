"""Claims about losses that need no training: computed, with the numbers that decide them."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import isclose

import numpy as np
import torch
from torch import Tensor, exp, log
from torch.nn.functional import log_softmax, softmax

from pyrite.curves import AEL, AGCE, AUL, CE, IMAE, MAE, Curve, expected_margin
from pyrite.losses import NCE, loss as read_loss
from pyrite.papers.claims import Computed
from pyrite.soft_margin import margin

_Function = Callable[[Tensor], Tensor]

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
    """I2: the variances of the weights of MAE, CE and IMAE (IMAE, Figure 1), printed with two decimals."""
    found = {str(loss): loss.weight_variance() for loss in (MAE(), CE(), IMAE(T=8))}
    printed = {"mae": 0.09, "ce": 0.33, "imae(T=8)": 4.55}
    agree = {f"{name}: {value}": abs(found[name] - value) <= 0.0051 for name, value in printed.items()}
    return Computed("I2", agree, {f"variance, {name}": value for name, value in found.items()})


def variance_grows() -> Computed:
    """I9: the variance of IMAE's weights grows with T (IMAE, Table 7).

    The text that we have of the paper has the table's caption alone, and T = 8 elsewhere; the numbers are ours.
    """
    found = {T: IMAE(T=T).weight_variance() for T in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)}
    statements = {"it grows with T": all(low < high for low, high in pairwise(found.values()))}
    statements["T = 8: 4.55"] = abs(found[8.0] - 4.55) <= 0.0051
    return Computed("I9", statements, {f"variance, T = {T:g}": value for T, value in found.items()})


def neither_symmetric_nor_bounded() -> Computed:
    """I15: the losses of all labels do not add up to a constant, and the value has no bound (IMAE, Table 2).

    The value is the potential of the paper's gradient, as the printed integral diverges.
    """
    loss = IMAE(T=8)
    sums = loss.per_label(_samples(classes=10)[0]).sum(1)
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
        scores, labels = _samples(classes)
        direction = _gradient(partial(margin, labels=labels), scores)
        norm = direction.abs().sum(1)
        numbers[f"L1 norm of the margin's gradient, {classes} classes"] = float(norm[(norm - 2).abs().argmax()])
        p = _of_probability(lambda p: p, labels, scores)
        for name, (phi, w) in _TABLE_6.items():
            gradient = _gradient(partial(_of_probability, phi, labels), scores)
            ours = _curve(name).weight_at(margin(scores, labels)).unsqueeze(1)
            for words, weight in (("printed weight", w(p)), ("our weight", ours)):
                cell = f"{name}: largest difference, {words}"
                numbers[cell] = max(numbers.get(cell, 0.0), float((gradient + weight * direction).abs().max()))
    holds = {name: abs(value - (2 if "norm" in name else 0)) < 1e-12 for name, value in numbers.items()}
    return Computed("C1", holds, numbers)


def nce_is_regularised_ce() -> Computed:
    """C2: NCE is a weighted CE with a regulariser (Eq. 2), with a bound of its weight (Eq. 3, false as printed)."""
    wrong, printed, corrected, broken = 0.0, 0.0, 0.0, 0.0
    for classes in (3, 10, 100):
        scores, labels = _samples(classes)
        parts = NCE().decomposition(scores, labels)
        gradient, of_ce = (_gradient(partial(loss.at_label, labels=labels), scores) for loss in (NCE(), CE()))
        regulariser = _gradient(lambda s: log_softmax(s, 1).mean(1), scores)
        rebuilt = parts.gamma.unsqueeze(1) * (of_ce + parts.epsilon.unsqueeze(1) * regulariser)
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
    printed, numbers, corrections, close = {}, {}, {}, partial(isclose, rel_tol=1e-3)
    for a, q in ((0.1, 0.1), (1.0, 0.5), (1.0, 2.0)):
        numbers[f"agce(a={a}, q={q})"] = bound = AGCE(a=a, q=q).asymmetry_bound()
        printed[f"AGCE, a={a}, q={q}"] = close(bound, (a / (a + 1)) ** (1 - q) if q <= 1 else 1.0)
    for q in (0.5, 2.5):
        numbers[f"ael(q={q})"] = bound = AEL(q=q).asymmetry_bound()
        printed[f"AEL, q={q}"] = close(bound, np.exp(-1 / q))
    for a, q in ((1.5, 0.5), (2.0, 2.0), (1.1, 5.0)):
        numbers[f"aul(a={a}, q={q})"] = bound = AUL(a=a, q=q).asymmetry_bound()
        restricted = ((a - 1) / a) ** (q - 1)
        # As printed, q <= 1 is restricted; the formula is then above 1, which is no restriction.
        printed[f"AUL, a={a}, q={q}"] = close(bound, min(1.0, restricted) if q <= 1 else 1.0)
        corrections[f"AUL, a={a}, q={q}, with q > 1 restricted"] = close(bound, restricted if q > 1 else 1.0)
    return Computed("C15", printed, {f"bound, {name}": value for name, value in numbers.items()}, corrections)


def shifted_falls_sooner(classes: int = 100, tau: float = 2.717) -> Computed:
    """C17: shifted and scaled MAE have one weight at the margin where training starts; to the right the shifted one is
    the smaller one from some margin below 0 on (curriculum paper, Figure 7, whose τ is |E| of CIFAR-10)."""
    start = torch.tensor(expected_margin(classes), dtype=torch.float64)
    right = torch.linspace(0.0, 20.0, 401, dtype=torch.float64)
    specs = [f"unit({kind}(mae, tau={tau}, classes={classes}))" for kind in ("shift", "scale")]
    shifted, scaled = (_curve(spec) for spec in specs)
    at_start = [float(curve.weight_at(start)) for curve in (_curve("unit(mae)"), shifted, scaled)]
    ratio = shifted.weight_at(right) / scaled.weight_at(right)
    names = ("plain", "shifted", "scaled")
    numbers = {f"weight at the start, {name}": weight for name, weight in zip(names, at_start, strict=True)}
    numbers |= {f"shifted over scaled at a margin of {at}": float(ratio[20 * at]) for at in (0, 5, 10)}
    return Computed(
        "C17",
        {
            "one weight at the start": isclose(at_start[1], at_start[2], rel_tol=1e-6),
            "which is above that of MAE": at_start[1] > at_start[0],
            "the shifted one falls off sooner": bool((ratio < 1).all() and (ratio.diff() < 0).all()),
        },
        numbers,
    )


def losses_with_regularisers() -> Computed:
    """C18: four losses are a primary loss and a regulariser, and what each does to the entropy (curriculum, Table 7).

    Gradients of the library's losses beside those of the printed sums. Peer loss is taken in expectation over labels
    that are equally frequent. A step down the regulariser raises or lowers the entropy of the softmax, on average over
    scores of every spread.
    """
    scores, labels = _samples(classes=10)
    nce, alpha, numbers, statements = NCE().decomposition(scores, labels), 0.1, dict[str, float](), dict[str, bool]()
    mean_log: _Function = lambda s: log_softmax(s, 1).mean(1)  # noqa: E731
    squares: _Function = lambda s: softmax(s, 1).square().sum(1)  # noqa: E731

    def peer(s: Tensor) -> Tensor:
        every = torch.stack([CE().at_label(s, torch.full_like(labels, label)) for label in range(10)])
        return CE().at_label(s, labels) - every.mean(0)

    ce, mae = (_gradient(partial(loss.at_label, labels=labels), scores) for loss in (CE(), MAE()))
    towards = {name: _gradient(function, scores) for name, function in (("mean log p", mean_log), ("sum p^2", squares))}
    printed = {
        "MSE": (_gradient(partial(read_loss("mse").at_label, labels=labels), scores), mae + towards["sum p^2"]),
        "PL(CR)": (_gradient(peer, scores), ce + towards["mean log p"]),
        "CE+GLS": (
            _gradient(partial(read_loss(f"smooth(ce, rate={alpha})").at_label, labels=labels), scores) / (1 - alpha),
            ce - alpha / (1 - alpha) * towards["mean log p"],
        ),
        "NCE": (
            _gradient(partial(NCE().at_label, labels=labels), scores),
            nce.gamma.unsqueeze(1) * ce + (nce.gamma * nce.epsilon).unsqueeze(1) * towards["mean log p"],
        ),
    }
    for name, (ours, sums) in printed.items():
        numbers[f"{name}: largest difference of gradients"] = off = float((ours - sums).abs().max())
        statements[f"{name} is the printed sum"] = off < 1e-12
    of_entropy = _gradient(lambda s: -(softmax(s, 1) * log_softmax(s, 1)).sum(1), scores)
    rise = {name: float(-(part * of_entropy).sum(1).mean()) for name, part in towards.items()}
    numbers |= {f"entropy by a step down {name}": value for name, value in rise.items()}
    statements["MSE's regulariser raises the entropy"] = rise["sum p^2"] > 0
    statements["that of PL and NCE lowers it, that of label smoothing, with the other sign, raises it"] = (
        rise["mean log p"] < 0
    )
    return Computed("C18", statements, numbers)


def _curve(spec: str) -> Curve:
    curve = read_loss(spec)
    assert isinstance(curve, Curve)
    return curve


def guarantee_of_the_cures() -> Computed:
    """Whether shifted and scaled MAE are still asymmetric, which the curriculum paper leaves open (C.1.1).

    Shifted by b = |E| - tau, MAE falls with p at the rate e^b / (1 + p (e^b - 1))^2: at 1 slower than at 0 by e^(-2 b),
    which is the bound. Scaled by less than 1, it falls without bound at 0, so that no noise ratio is allowed. Beside
    it, the noise ratios of the paper's tables: r / (1 - r) / (K - 1) of symmetric noise, r / (1 - r) of flips.
    """
    statements, numbers, start = dict[str, bool](), dict[str, float](), -expected_margin(100)
    taus = {"clean": (2.0, 0.0), "symmetric 0.4": (3.0, 0.4 / 0.6 / 99), "symmetric 0.8": (4.0, 0.8 / 0.2 / 99)}
    for noise, (tau, ratio) in (taus | {"asymmetric 0.4": (3.0, 0.4 / 0.6)}).items():
        shifted, scaled = (
            _curve(f"{kind}(mae, tau={tau}, classes=100)").asymmetry_bound() for kind in ("shift", "scale")
        )
        numbers |= {f"{noise}, tau {tau}: noise ratio": ratio, f"{noise}, tau {tau}: bound of shifted MAE": shifted}
        statements[f"tau {tau}: shifted MAE up to exp(-2 (|E| - tau))"] = isclose(
            shifted, np.exp(2 * (tau - start)), rel_tol=0.01
        )
        statements[f"tau {tau}: scaled MAE for no noise"] = scaled == 0.0
        if ratio:
            kept = "not " if noise.startswith("asymmetric") else ""
            statements[f"{noise}: shifted MAE at the paper's tau is {kept}asymmetric"] = (shifted >= ratio) == (
                not kept
            )
    return Computed("guarantee", statements, numbers)


def contrast_of_any_curve() -> Computed:
    """IMAE's exponential of a weight for other losses than MAE, which the paper's conclusion leaves open.

    IMAE is exp(T u / 4) / 2 of MAE's weight u at unit maximum. Of any u the ratio of the largest to the smallest weight
    becomes exp(T / 4), and the variance grows with T; which samples have the largest weight stays as it was.
    """
    p = torch.linspace(0.0, 1.0, 20_001, dtype=torch.float64)[1:-1]
    statements, numbers = dict[str, bool](), dict[str, float]()
    for spec in ("mae", "ce", "gce(q=0.7)", "sce(q=0.7)"):
        unit = _curve(f"unit({spec})").weight_at(torch.logit(p))
        norms = {T: torch.exp(T * unit / 4) for T in (0.5, 2.0, 8.0, 16.0)}
        found = {T: float(norm.var()) for T, norm in norms.items()}
        numbers |= {f"variance, {spec}, T = {T:g}": value for T, value in found.items()}
        numbers[f"weight of p = 0.01 over that of p = 0.5, {spec}, T = 8"] = float(norms[8.0][199] / norms[8.0][9999])
        statements[f"{spec}: the variance grows with T"] = all(low < high for low, high in pairwise(found.values()))
    imae = 2 * IMAE(T=8).weight_at(torch.logit(p))
    mae = torch.exp(2 * _curve("unit(mae)").weight_at(torch.logit(p)))
    statements["that of MAE is IMAE"] = bool((imae - mae).abs().max() < 1e-12)
    return Computed("contrast", statements, numbers)


def _of_probability(function: _Function, labels: Tensor, scores: Tensor) -> Tensor:
    return function(softmax(scores, 1).gather(1, labels.unsqueeze(1)))


def _samples(classes: int) -> tuple[Tensor, Tensor]:
    """Scores of every spread from 0.1 to 10, of untrained samples, learned ones and hopeless ones, and labels."""
    generator = torch.Generator().manual_seed(classes)
    spread = torch.logspace(-1, 1, 400, dtype=torch.float64).unsqueeze(1)
    return spread * torch.randn(400, classes, dtype=torch.float64, generator=generator), torch.arange(400) % classes


@torch.enable_grad()
def _gradient(function: _Function, scores: Tensor) -> Tensor:
    leaf = scores.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]
