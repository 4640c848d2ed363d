"""Training: one loop, a run directory, exact resume, many processes."""

from pyrite.training.loop import Observer, RunFailed, fit
from pyrite.training.optimisers import OPTIMISERS
from pyrite.training.recipe import Recipe
from pyrite.training.recorder import Recorder
from pyrite.training.run import Run
from pyrite.training.schedules import SCHEDULES
from pyrite.training.start import RunObserver, resolve, train

__all__ = [
    "OPTIMISERS",
    "SCHEDULES",
    "Observer",
    "Recipe",
    "Recorder",
    "Run",
    "RunFailed",
    "RunObserver",
    "fit",
    "resolve",
    "train",
]
