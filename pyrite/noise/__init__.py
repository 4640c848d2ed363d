"""Noise models, their transition matrices, and labels corrupted by them."""

from pyrite.noise.class_noise import Asymmetric, Clean, Flip, Flip2, Flips, Pairs, Symmetric, Uniform
from pyrite.noise.corruption import corrupt
from pyrite.noise.given_matrix import Matrix
from pyrite.noise.human import Human
from pyrite.noise.instance import Instance
from pyrite.noise.maps import CIFAR100_SUPERCLASSES, MAPS
from pyrite.noise.model import ClassNoise, Noise
from pyrite.noise.noisy_labels import NoisyLabels
from pyrite.noise.registry import NOISES, noise_model

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
