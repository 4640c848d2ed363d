"""Training: one loop, a run directory, exact resume, many processes."""

from pyrite.training.assembly import check_device, make_learner
from pyrite.training.divergence import FAR, divergence
from pyrite.training.loop import Diverged, Observer, RunFailed, fit
from pyrite.training.optimisers import OPTIMISERS, optimiser
from pyrite.training.recipe import Recipe, augmentation
from pyrite.training.recorder import Recorder
from pyrite.training.run import COLUMNS, Run, net_scores
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
    "augmentation",
    "check_device",
    "divergence",
    "fit",
    "make_learner",
    "net_scores",
    "new_folder",
    "optimiser",
    "resolve",
    "says_rate",
    "train",
    "train_once",
]
