"""Nets: architectures that are described by a spec, and the ordinary ``nn.Module`` that each of them builds."""

from pyrite.models.architecture import Architecture, Network, embed, reinitialised, seeded
from pyrite.models.bn_inception import BNInception
from pyrite.models.cnn import CNN4, CNN8, FastCNN
from pyrite.models.efficientnet import EfficientnetLite0
from pyrite.models.ensemble import Ensemble, Mirrored, SideBySide, Stacked, mean_scores, mirrored_scores
from pyrite.models.layers import Whitening, fold_batch_norms
from pyrite.models.mlp import MLP, Linear
from pyrite.models.registry import MODELS, Factory, architecture, build_model, default_architecture
from pyrite.models.resnet import WRN, Resnet20, Resnet32, Resnet34, Resnet44, Resnet50, Resnet56, Resnet110

__all__ = [
    "CNN4",
    "CNN8",
    "MLP",
    "MODELS",
    "WRN",
    "Architecture",
    "BNInception",
    "EfficientnetLite0",
    "Ensemble",
    "Factory",
    "FastCNN",
    "Linear",
    "Mirrored",
    "Network",
    "Resnet20",
    "Resnet32",
    "Resnet34",
    "Resnet44",
    "Resnet50",
    "Resnet56",
    "Resnet110",
    "SideBySide",
    "Stacked",
    "Whitening",
    "architecture",
    "build_model",
    "default_architecture",
    "embed",
    "fold_batch_norms",
    "mean_scores",
    "mirrored_scores",
    "reinitialised",
    "seeded",
]
