"""Training: one loop, a run directory, exact resume, many processes."""

from pyrite.training.assembly import check_device, make_learner
from pyrite.training.divergence import FAR, divergence
from pyrite.training.launch import RunObserver, Watching, train, train_once, train_plan, train_plan_once
from pyrite.training.loop import Diverged, Observer, RunFailed, fit
from pyrite.training.metrics import COLUMNS, METRICS
from pyrite.training.optimisers import OPTIMISERS, optimiser
from pyrite.training.out_folder import new_folder
from pyrite.training.pace import Pace, measure_pace
from pyrite.training.plan import Plan, resolve, says_rate
from pyrite.training.recipe import Options, OptionsButRate, Recipe, augmentation, reading
from pyrite.training.record import Record
from pyrite.training.run import Run, net_scores
from pyrite.training.schedules import SCHEDULES
from pyrite.training.start import Start, check_on_net, measure_start

__all__ = [
    "COLUMNS",
    "FAR",
    "METRICS",
    "OPTIMISERS",
    "SCHEDULES",
    "Diverged",
    "Observer",
    "Options",
    "OptionsButRate",
    "Pace",
    "Plan",
    "Recipe",
    "Record",
    "Run",
    "RunFailed",
    "RunObserver",
    "Start",
    "Watching",
    "augmentation",
    "check_device",
    "check_on_net",
    "divergence",
    "fit",
    "make_learner",
    "measure_pace",
    "measure_start",
    "net_scores",
    "new_folder",
    "optimiser",
    "reading",
    "resolve",
    "says_rate",
    "train",
    "train_once",
    "train_plan",
    "train_plan_once",
]
