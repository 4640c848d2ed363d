"""Claims of the papers that need no training: of nets, of meta-gradients, and the registry of all."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pyrite.criterion import Loss
from pyrite.curves import CE, MAE, expected_margin
from pyrite.methods import WeightNet, meta_gradient
from pyrite.models import MODELS, build_model, seeded
from pyrite.papers import exact_losses as losses
from pyrite.papers.claims import Computed
from pyrite.training import measure_start

# Figures 2 and 6 of the paper show the margins by eye; a tenth of |E| moves the weight of MAE by about a fifth.
_WITHIN = 0.1
_OF_THE_PAPER = ("cnn4", "cnn8", "resnet34", "resnet50")

_CLASSES, _SHAPE = 4, (6,)  # of the net whose meta-gradient is computed


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
    "I2": losses.variances,
    "I9": losses.variance_grows,
    "I15": losses.neither_symmetric_nor_bounded,
    "C1": losses.weight_times_direction,
    "C2": losses.nce_is_regularised_ce,
    "C6": initial_margins_of_nets,
    "C15": losses.asymmetry_conditions,
    "C17": losses.shifted_falls_sooner,
    "C18": losses.losses_with_regularisers,
    "R1": noise_shortens_meta_gradient,
    "R2": noise_adds_variance,
    "guarantee": losses.guarantee_of_the_cures,
    "contrast": losses.contrast_of_any_curve,
}
"""What decides each of these claims, by its identifier: I of IMAE, C of the curriculum paper, R of the gold samples;
and two answers to what the papers leave open."""
