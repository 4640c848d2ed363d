"""Claims about noisy meta labels: the two theorems of the gold-samples paper."""

import numpy as np
import torch
from torch import Tensor

from pyrite.criterion import Loss
from pyrite.curves import CE, MAE
from pyrite.methods import WeightNet, meta_gradient
from pyrite.models import build_model, seeded
from pyrite.papers.claims import Computed

_CLASSES, _SHAPE = 4, (6,)


def noise_shortens_meta_gradient(rate: float = 0.6) -> Computed:
    """R1: under uniform noise a symmetric meta loss has the clean meta-gradient, times 1 - rate (Theorem 1).

    The meta-gradient is a sum over meta samples, so the mean over all noisy labels needs no draws: it is (1 - rate)
    times the clean one, plus rate / K times the sum over classes c of the one in which all labels are c.
    """
    statements: dict[str, bool] = {}
    numbers: dict[str, float] = {}
    for loss in (MAE(), CE()):
        clean, expected = _meta_gradients(loss, rate)
        length = float(expected.norm() / clean.norm())
        cosine = float(expected @ clean / (expected.norm() * clean.norm()))
        off = float((expected - (1 - rate) * clean).norm() / clean.norm())
        numbers |= {f"length under noise over length, {loss}": length, f"cosine, {loss}": cosine}
        numbers[f"distance from (1 - rate) times the clean one, {loss}"] = off
        # Cross entropy is the counter-example: the theorem needs the symmetry.
        words = "1 - rate times" if isinstance(loss, MAE) else "not a multiple of"
        statements[f"{loss}: {words} the clean one"] = off < 1e-9 if isinstance(loss, MAE) else off > 1e-3
    return Computed("R1", statements, numbers)


def _meta_gradients(loss: Loss, rate: float) -> tuple[Tensor, Tensor]:
    """The meta-gradient by clean labels, and its mean over uniform noise of the meta labels."""
    net = build_model("mlp(hidden=[16])", _SHAPE, _CLASSES, seed=0).double().train()
    with seeded(1):
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
