"""Training: one loop, a run directory, exact resume, many processes."""

from pyrite.training.divergence import FAR, divergence
from pyrite.training.loop import Diverged, Observer, RunFailed, fit
from pyrite.training.optimisers import OPTIMISERS, optimiser
from pyrite.training.recipe import Recipe
from pyrite.training.recorder import Recorder
from pyrite.training.run import COLUMNS, Run
from pyrite.training.schedules import SCHEDULES
from pyrite.training.start import RunObserver, new_folder, resolve, says_rate, train, train_once

__all__ = [
    "COLUMNS",
    "FAR",
    "OPTIMISERS",
    "SCHEDULES",
    "Diverged",
    "Observer",
    "Recipe",
    "Recorder",
    "Run",
    "RunFailed",
    "RunObserver",
    "divergence",
    "fit",
    "new_folder",
    "optimiser",
    "resolve",
    "says_rate",
    "train",
    "train_once",
]
