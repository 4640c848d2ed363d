"""Training: one configuration, one loop, a run directory, exact resume, many processes."""

from pyrite.training.build import make_learner
from pyrite.training.config import Config, Job, given_settings, load_data, python_name, read_once
from pyrite.training.defaults import Start, check_on_net, measure_start, resolve
from pyrite.training.launch import RunObserver, Stopped, Watching, is_shown, train, train_job, train_once
from pyrite.training.loop import Diverged, Observer, RunFailed, fit
from pyrite.training.metrics import COLUMNS, METRICS
from pyrite.training.optimisers import OPTIMISERS, SCHEDULES, states_rate
from pyrite.training.own_objects import own_objects
from pyrite.training.pace import LEAST_TRAINED, Pace, measure_pace
from pyrite.training.prediction import net_scores
from pyrite.training.prepare import add_noise
from pyrite.training.progress import FAR, divergence
from pyrite.training.record import Record
from pyrite.training.run import DataChanged, Run
from pyrite.training.run_folder import InUse, new_folder

__all__ = [
    "COLUMNS", "FAR", "LEAST_TRAINED", "METRICS", "OPTIMISERS", "SCHEDULES", "Config", "DataChanged", "Diverged",
    "InUse", "Job", "Observer", "Pace", "Record", "Run", "RunFailed", "RunObserver", "Start", "Stopped", "Watching",
    "add_noise", "check_on_net", "divergence", "fit", "given_settings", "is_shown", "load_data", "make_learner",
    "measure_pace", "measure_start", "net_scores", "new_folder", "own_objects", "python_name", "read_once", "resolve",
    "states_rate", "train", "train_job", "train_once",
]  # fmt: skip
