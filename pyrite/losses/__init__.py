"""Losses that must see more than the margin of the label, and the registry of all."""

from pyrite.losses.bootstrapped import BootHard, BootSoft
from pyrite.losses.corrected import Backward, Forward
from pyrite.losses.ends import grows_without_bound, tails
from pyrite.losses.normalised import NCE, Decomposition, Normalised, normalised
from pyrite.losses.own import OwnLoss
from pyrite.losses.registry import LOSSES, loss
from pyrite.losses.regularised import MSE, Confidence, Peer, Smooth
from pyrite.losses.settings import PAPER_SETTINGS, Setting
from pyrite.losses.underfitting import Underfitting, underfitting
from pyrite.losses.units import UnitLoss, unit

__all__ = [
    "LOSSES",
    "MSE",
    "NCE",
    "PAPER_SETTINGS",
    "Backward",
    "BootHard",
    "BootSoft",
    "Confidence",
    "Decomposition",
    "Forward",
    "Normalised",
    "OwnLoss",
    "Peer",
    "Setting",
    "Smooth",
    "Underfitting",
    "UnitLoss",
    "grows_without_bound",
    "loss",
    "normalised",
    "tails",
    "underfitting",
    "unit",
]
