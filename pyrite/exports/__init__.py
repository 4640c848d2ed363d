"""What a run leaves for others: its model for other programs, and a page about it."""

from pyrite.exports.card import model_card
from pyrite.exports.model import Exported, Whole, export, whole

__all__ = ["Exported", "Whole", "export", "model_card", "whole"]
