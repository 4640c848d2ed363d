"""Noise models, their transition matrices, and labels corrupted by them."""

from pyrite.noise.class_noise import Asymmetric, Clean, Flip, Flip2, Flips, Pairs, Symmetric, Uniform
from pyrite.noise.from_files import Human, Matrix
from pyrite.noise.instance import Instance
from pyrite.noise.maps import CIFAR100_SUPERCLASSES, MAPS
from pyrite.noise.model import ClassNoise, Noise
from pyrite.noise.noisy_labels import NoisyLabels
from pyrite.noise.registry import NOISES, corrupt, noise_model

__all__ = [
    "CIFAR100_SUPERCLASSES",
    "MAPS",
    "NOISES",
    "Asymmetric",
    "ClassNoise",
    "Clean",
    "Flip",
    "Flip2",
    "Flips",
    "Human",
    "Instance",
    "Matrix",
    "Noise",
    "NoisyLabels",
    "Pairs",
    "Symmetric",
    "Uniform",
    "corrupt",
    "noise_model",
]
