"""Noise models, their transition matrices, and labels corrupted by them."""

from pyrite.arrays import check_below
from pyrite.checks import whole_number
from pyrite.noise.class_noise import (
    CIFAR100_SUPERCLASSES,
    MAPS,
    Asymmetric,
    Clean,
    Flip,
    Flip2,
    Flips,
    Pairs,
    Symmetric,
    Uniform,
)  # fmt: skip
from pyrite.noise.files import Human, Matrix, NoisyLabels
from pyrite.noise.instance import Instance
from pyrite.noise.model import ClassNoise, Noise, check_classes, to_labels
from pyrite.spec import Registry, named

__all__ = [
    "CIFAR100_SUPERCLASSES", "MAPS", "NOISES", "Asymmetric", "ClassNoise", "Clean", "Flip", "Flip2", "Flips", "Human",
    "Instance", "Matrix", "Noise", "NoisyLabels", "Pairs", "Symmetric", "Uniform", "corrupt", "noise_model",
]  # fmt: skip

NOISES: Registry[Noise] = Registry(
    "noise",
    named(Clean, Symmetric, Uniform, Flip, Flip2, Flips, Asymmetric, Pairs, Matrix, Human, Instance),
    Noise,
    "symmetric(0.4)",
)


def noise_model(spec: str | Noise) -> Noise:
    """Return the noise model that ``spec`` describes; a noise model is returned unchanged.

    Args:
        spec: a spec string, such as ``"flip2(0.4)"``, or a noise model.

    Returns:
        The noise model.

    >>> noise_model("symmetric(0.4, exact=True)")
    Symmetric(rate=0.4, exact=True)
    """
    return NOISES.read(spec)


def corrupt(
    labels: object, noise: str | Noise, classes: int | None = None, seed: int = 0, inputs: object = None
) -> NoisyLabels:
    """Corrupt labels with a noise model.

    Args:
        labels: the true labels: a list, a NumPy array or a PyTorch tensor of integers.
        noise: a noise model or its spec string, such as ``"flip2(0.4)"``.
        classes: the number of classes. None for the number of classes of the noise model or, if any number is possible,
            the largest label + 1.
        seed: the seed of all random draws. The same seed gives the same labels on any machine.
        inputs: the features or images, one row per sample; only ``instance`` noise needs them.

    Returns:
        The given labels, the true labels, and which labels are wrong.

    >>> noisy = corrupt([0, 1, 2] * 100, "symmetric(0.4, exact=True)", seed=7)
    >>> noisy.rate, noisy.given[:12].tolist()
    (0.4, [0, 1, 2, 0, 2, 2, 0, 0, 2, 1, 0, 1])
    """
    model, seed, true = noise_model(noise), whole_number("seed", seed, least=0), to_labels(labels)
    if classes is None:
        classes = model.classes or max(2, int(true.max()) + 1)
    classes = check_classes(classes)
    check_below(true, classes, "labels")
    given, matrix = model.draw(true, classes, seed, inputs)
    return NoisyLabels(given, true, matrix, str(model), seed)
