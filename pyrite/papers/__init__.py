"""Every table, figure and claim of the papers: recipes, their cells, exact computations, and what follows."""

from pyrite.papers.claims import CLAIMS
from pyrite.papers.recipe import RECIPES, SCALES, PaperRecipe
from pyrite.papers.reproduction import Reproduction, read_reproduction, reproduce

__all__ = ["CLAIMS", "RECIPES", "SCALES", "PaperRecipe", "Reproduction", "read_reproduction", "reproduce"]
