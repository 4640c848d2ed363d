"""``corrupt``, which applies a noise model to labels."""

import numpy as np

from pyrite.draws import check_seed
from pyrite.errors import PyriteError
from pyrite.noise.arrays import to_labels
from pyrite.noise.model import Noise, check_classes
from pyrite.noise.noisy_labels import NoisyLabels
from pyrite.noise.registry import noise_model

__all__ = ["corrupt"]


def corrupt(
    labels: object, noise: str | Noise, classes: int | None = None, seed: int = 0, inputs: object = None
) -> NoisyLabels:
    """Corrupt labels by a noise model; the result also says which labels are wrong.

    Args:
        labels: the true labels: a list, a numpy array or a torch tensor of whole numbers.
        noise: a noise model or its spec, such as ``"flip2(0.4)"``.
        classes: the number of classes. None for the number that the model is made for, or else the largest label + 1.
        seed: of all random draws. The same seed gives the same labels on any machine.
        inputs: the features or images, one row per sample; only ``instance`` noise needs them.

    >>> noisy = corrupt([0, 1, 2] * 100, "symmetric(0.4, exact=True)", seed=7)
    >>> noisy.rate, noisy.given[:12].tolist()
    (0.4, [0, 1, 2, 0, 2, 2, 0, 0, 2, 1, 0, 1])
    """
    model, seed, true = noise_model(noise), check_seed(seed), to_labels(labels)
    if classes is None:
        classes = model.classes or max(2, int(true.max()) + 1)
    classes = check_classes(classes)
    outside = np.flatnonzero(true >= classes)
    if len(outside):
        first = int(outside[0])
        raise PyriteError(
            f"labels is {true[first]} at index {first}, but there are {classes} classes, 0 to {classes - 1}"
        )
    given, matrix = model.draw(true, classes, seed, inputs)
    return NoisyLabels(given, true, matrix, str(model), seed)
