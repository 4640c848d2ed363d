"""Nets: architectures that are described by a spec, and the ordinary ``nn.Module`` that each of them builds."""

from pyrite.models.architecture import Architecture, seeded
from pyrite.models.bn_inception import BNInception
from pyrite.models.efficientnet import EfficientnetLite0
from pyrite.models.ensemble import Ensemble, Mirrored, mean_scores, mirrored_scores
from pyrite.models.fast_cnn import FastCNN
from pyrite.models.folding import fold_batch_norms
from pyrite.models.imagenet_resnet import Resnet34, Resnet50
from pyrite.models.initial import reinitialised
from pyrite.models.linear import Linear
from pyrite.models.mlp import MLP
from pyrite.models.network import Network, embed
from pyrite.models.paper_cnn import CNN4, CNN8
from pyrite.models.registry import MODELS, Factory, architecture, build_model, default_architecture
from pyrite.models.residual import WRN, Resnet20, Resnet32, Resnet44, Resnet56, Resnet110
from pyrite.models.side_by_side import SideBySide, Stacked
from pyrite.models.whitening import Whitening

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
