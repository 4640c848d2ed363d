"""Losses that depend on more than the margin of the label, and the registry of all."""

from pyrite.losses.registry import LOSSES, PAPER_SETTINGS, OwnLoss, loss
from pyrite.losses.regularised import MSE, BootHard, BootSoft, Confidence, Peer, Smooth
from pyrite.losses.underfitting import Underfitting, grows_without_bound, tails, underfitting
from pyrite.losses.wrapped import (
    NCE,
    Backward,
    Decomposition,
    Forward,
    LinearLoss,
    Normalised,
    UnitLoss,
    normalised,
    unit,
)

__all__ = [
    "LOSSES", "MSE", "NCE", "PAPER_SETTINGS", "Backward", "BootHard", "BootSoft", "Confidence", "Decomposition",
    "Forward", "LinearLoss", "Normalised", "OwnLoss", "Peer", "Smooth", "Underfitting", "UnitLoss",
    "grows_without_bound", "loss", "normalised", "tails", "underfitting", "unit",
]  # fmt: skip
