"""Claims of the papers that need no training: computed, with the numbers that decide them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import isclose
from typing import Final

import numpy as np
import torch
from torch import Tensor, exp, log
from torch.nn.functional import log_softmax, softmax

from pyrite.criterion import Loss
from pyrite.curves import AEL, AGCE, AUL, CE, IMAE, MAE, Curve, expected_margin
from pyrite.losses import NCE, loss as read_loss
from pyrite.methods import WeightNet, meta_gradient
from pyrite.models import MODELS, build_model, seeded
from pyrite.papers.claims import Computed
from pyrite.soft_margin import margin
from pyrite.training import measure_start

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

# Figures 2 and 6 of the paper show the margins by eye; a tenth of |E| moves the weight of MAE by about a fifth.
_WITHIN = 0.1
_OF_THE_PAPER = ("cnn4", "cnn8", "resnet34", "resnet50")

_CLASSES, _SHAPE = 4, (6,)  # of the net whose meta-gradient is computed


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


def initial_margins_of_nets(
    nets: Sequence[str] = tuple(MODELS),
    classes: Sequence[int] = (10, 100),
    seeds: Sequence[int] = (0, 1, 2),
    batch_size: int = 16,
) -> Computed:
    """C6: Eq. 4 gives the mean margin of nets before training (curriculum paper, Figures 2 and 6).

    The paper has it of its own nets, and of most others with a usual initialisation. As printed with scores of spread
    1, to a tenth; and corrected, with the spread that the net really has, for every net. Margin and spread are means
    over initial weights; inputs are normal random numbers of the shape of a CIFAR image.
    """
    printed, corrected, numbers = dict[str, bool](), list[bool](), dict[str, float]()
    for name in nets:
        for count in classes:
            starts = [measure_start(name, classes=count, seed=seed, batch_size=batch_size) for seed in seeds]
            mean, cell = float(np.mean([start.margins.mean() for start in starts])), f"{name}, {count} classes"
            # Eq. 4 depends on the square of the spread.
            spread = float(np.mean([start.spread**2 for start in starts])) ** 0.5
            assumed, real = expected_margin(count), expected_margin(count, spread, exact=True)
            printed[cell] = abs(mean - assumed) <= _WITHIN * abs(assumed)
            corrected.append(abs(mean - real) <= _WITHIN * abs(real))
            numbers |= {f"margin, {cell}": mean, f"spread, {cell}": spread}
    numbers |= {f"Eq. 4, {count} classes": expected_margin(count) for count in classes}
    numbers["fraction of nets within a tenth of Eq. 4"] = fraction = float(np.mean(list(printed.values())))
    own = {cell: fits for cell, fits in printed.items() if cell.partition(",")[0] in _OF_THE_PAPER}
    statements = {**own, "most nets of this library": fraction > 0.5}
    return Computed("C6", statements, numbers, {"with the spread that each net has, for all nets": all(corrected)})


def noise_shortens_meta_gradient(rate: float = 0.6, draws: int = 60) -> Computed:
    """R1: under uniform noise a symmetric meta loss has the clean meta-gradient, times 1 - rate (Theorem 1).

    The meta-gradient is a sum over meta samples, so the mean over all noisy labels needs no draws: it is (1 - rate)
    times the clean one, plus rate / K times the sum over classes c of the one in which all labels are c.
    """
    statements, numbers = dict[str, bool](), dict[str, float]()
    for loss in (MAE(), CE()):
        pairs = [_meta_gradients(loss, rate, seed) for seed in range(draws)]
        lengths = [float(expected.norm() / clean.norm()) for clean, expected in pairs]
        cosines = [float(expected @ clean / (expected.norm() * clean.norm())) for clean, expected in pairs]
        off = [float((expected - (1 - rate) * clean).norm() / clean.norm()) for clean, expected in pairs]
        numbers |= {f"length under noise over length, median, {loss}": float(np.median(lengths))}
        numbers |= {f"cosine, median, {loss}": float(np.median(cosines))}
        numbers |= {f"fraction of negative cosines, {loss}": float(np.mean(np.array(cosines) < 0))}
        numbers[f"distance from (1 - rate) times the clean one, largest, {loss}"] = max(off)
        # Cross entropy is the counter-example: the theorem needs the symmetry.
        words = "1 - rate times" if isinstance(loss, MAE) else "not a multiple of"
        statements[f"{loss}: {words} the clean one"] = max(off) < 1e-9 if isinstance(loss, MAE) else min(off) > 1e-3
    return Computed("R1", statements, numbers)


def _meta_gradients(loss: Loss, rate: float, seed: int) -> tuple[Tensor, Tensor]:
    """The meta-gradient by clean labels, and its mean over uniform noise of the meta labels."""
    net = build_model("mlp(hidden=[16])", _SHAPE, _CLASSES, seed=seed).double().train()
    with seeded(seed + 1):
        weight_net = WeightNet(10).double()
        inputs, meta_inputs = (torch.randn(count, *_SHAPE, dtype=torch.float64) for count in (24, 20))
        labels, meta_labels = (torch.randint(0, _CLASSES, (count,)) for count in (24, 20))

    def gradient(targets: Tensor) -> Tensor:
        found = meta_gradient(net, weight_net, (inputs, labels), (meta_inputs, targets), lr=0.1, meta_loss=loss)
        return torch.cat([part.flatten() for part in found.gradients])

    clean = gradient(meta_labels)
    every = sum((gradient(torch.full_like(meta_labels, label)) for label in range(_CLASSES)), torch.zeros_like(clean))
    return clean, (1 - rate) * clean + rate / _CLASSES * every


def noise_adds_variance(rate: float = 0.4, batch: int = 10, seed: int = 0) -> Computed:
    """R2: what noise adds to the variance of a meta-gradient, and the rate of convergence (Theorem 2).

    The toy problem has one parameter t, two classes and the symmetric loss 2 sigmoid(-y t), where y is 1 for a fraction
    q of the samples and -1 for the rest. Its constants are known: the gradient is at most rho = 1/2, it changes
    by at most L = 1/(3 sqrt 3) per unit of t, and its variance is at most q (1 - q). Uniform noise makes q
    (1 - rate) q + rate/2. With the theorem's step 1/(sigma sqrt T), the smallest squared gradient of T steps is on
    average at most (2 (F(0) - inf F) + L) sigma / sqrt T.
    """
    fraction, rho, smoothness = 0.9, 0.5, 1 / (3 * 3**0.5)
    used = [_added_variance(q, part) / (2 * part * rho**2) for q in (0.5, 0.7, 0.9, 1.0) for part in (0.01, 0.4, 0.99)]
    numbers = {"added variance over 2 rate rho^2, largest": max(used)}
    statements = {"the noise adds at most 2 rate rho^2 / m": max(used) <= 1}
    for name, noise in (("clean", 0.0), ("noisy", rate)):
        q = (1 - noise) * fraction + noise / 2
        sigma = ((fraction * (1 - fraction) + 2 * noise * rho**2) / batch) ** 0.5
        lengths = (64, 512, 4096)
        smallest = [_smallest_gradient(q, batch, steps, 1 / (sigma * steps**0.5), seed) for steps in lengths]
        for steps, found in zip(lengths, smallest, strict=True):
            bound = (2 * (2 * q - 1) + smoothness) * sigma / steps**0.5
            numbers |= {f"{name}, {steps} steps": found, f"{name}, {steps} steps, bound": bound}
            statements[f"{name}, {steps} steps: within the bound"] = found <= bound
        slope = float(np.log(smallest[-1] / smallest[0]) / np.log(lengths[-1] / lengths[0]))
        numbers[f"{name}, power of T"] = slope
        statements[f"{name}: falls at least like 1 / sqrt T"] = slope <= -0.5
    return Computed("R2", statements, numbers)


def _added_variance(fraction: float, rate: float) -> float:
    """What noise of this rate adds to the variance q (1 - q) of one sample's gradient at t = 0, where it adds most."""
    noisy = (1 - rate) * fraction + rate / 2
    return noisy * (1 - noisy) - fraction * (1 - fraction)


def _smallest_gradient(fraction: float, batch: int, steps: int, step: float, seed: int, repeats: int = 400) -> float:
    """The smallest squared gradient over all steps of gradient descent from t = 0, in the mean over repeats."""
    generator = np.random.default_rng(seed)
    t = np.zeros(repeats)
    smallest = np.inf
    for _ in range(steps):
        slope = 2 / (2 + np.exp(t) + np.exp(-t))  # 2 sigmoid'(t)
        smallest = min(smallest, float(np.mean(((2 * fraction - 1) * slope) ** 2)))
        mean_label = 2 * generator.binomial(batch, fraction, repeats) / batch - 1
        t += step * mean_label * slope
    return smallest


EXACT: Final[Mapping[str, Callable[[], Computed]]] = {
    "I2": variances,
    "I9": variance_grows,
    "I15": neither_symmetric_nor_bounded,
    "C1": weight_times_direction,
    "C2": nce_is_regularised_ce,
    "C6": initial_margins_of_nets,
    "C15": asymmetry_conditions,
    "C17": shifted_falls_sooner,
    "C18": losses_with_regularisers,
    "R1": noise_shortens_meta_gradient,
    "R2": noise_adds_variance,
    "guarantee": guarantee_of_the_cures,
    "contrast": contrast_of_any_curve,
}
"""What decides each of these claims, by its identifier: I of IMAE, C of the curriculum paper, R of the gold samples;
and two answers to what the papers leave open."""
