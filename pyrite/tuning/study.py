"""The trials of a search: a study of optuna's in a journal file, on which several processes may work.

A trial belongs to the process that has its lock. Locks of a process that ends, however it ends, are released, so a
trial that is running but not locked was abandoned. Random numbers depend on the seed and the number of the trial, so
that a search that was killed continues with the same draws.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.pruners import MedianPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from pyrite.errors import PyriteError
from pyrite.files import acquire, held
from pyrite.methods import Method, method as read_method
from pyrite.training import RunFailed
from pyrite.tuning.result import Criterion, Trial
from pyrite.tuning.space import METHOD, Between, Choose, Range, Space

_NAME, _JOURNAL = "pyrite", "study.journal"
_MODEL_ATTEMPTS: Final = 20  # proposals of optuna's model before random ones are drawn, if all were tried before
_RANDOM_ATTEMPTS: Final = 200  # random proposals before the search ends, if all were tried before
_FINISHED_BEFORE_PRUNING: Final = 5

Make = Callable[[Method, float | None], tuple[str, float]]
"""From a method and the number chosen for its learning rate to its spec string and the learning rate."""


class Claim(NamedTuple):
    """A trial that this process alone works on, until it is released."""

    trial: Trial
    release: Callable[[], None]


class _JournalLock:
    """A lock that is released when its process ends; optuna's own is not. It also removes an incomplete last line."""

    def __init__(self, path: Path) -> None:
        self.path, self._release = path, lambda: None

    def acquire(self) -> bool:
        release = acquire(self.path.parent / "locks" / "journal", wait=True)
        assert release is not None
        self._release = release
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):  # a process was killed while it wrote
            with open(self.path, "rb+") as file:
                file.truncate(content.rfind(b"\n") + 1)
        return True

    def release(self) -> None:
        self._release()


@final
class Study:
    """The folder of a search, which is made, or continued if it is a search with the same settings.

    The first trials are each method in the middle of its ranges, at its default learning rate, so that a short search
    has tried all of them; then optuna's tree-structured Parzen estimator chooses.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], space: Space, criterion: Criterion, seed: int, epochs: int
    ) -> None:
        self.path, self.locks, self.space, self.seed, self.epochs = path, path / "locks", space, seed, epochs
        self.direction = StudyDirection.MAXIMIZE if criterion.rises else StudyDirection.MINIMIZE
        if path.exists() and not path.is_dir():
            raise PyriteError(f"{path} is not a folder: choose another folder")
        # A search that is just beginning has only locks. Another process may begin it while this one looks.
        others = [file.name for file in path.iterdir() if file.name != "locks"] if path.exists() else []
        if others and not (path / _JOURNAL).exists():
            raise PyriteError(f"{path} is not empty and contains no search: choose another folder")
        with _failures(path), held(self.locks / "study"):
            with _quiet(), _reading(path):
                self.storage = _storage(path)
                self.study = optuna.create_study(
                    study_name=_NAME, storage=self.storage, direction=self.direction, load_if_exists=True
                )
                plain = json.loads(json.dumps(settings))
                written = self.study.user_attrs.get("settings")
                if written is not None:
                    written = dict(written)
                if written in (None, plain):
                    for trial in self.trials():
                        _check(trial, self.space)
            if written is None:
                self.study.set_user_attr("settings", plain)
            elif written != plain:
                differ = [name for name in {**plain, **written} if plain.get(name) != written.get(name)]
                raise PyriteError(f"{path} holds a search with other {', '.join(differ)}: choose another folder")

    def trials(self) -> tuple[Trial, ...]:
        """All trials that were begun, by their numbers."""
        with _failures(self.path):
            return tuple(map(_trial, self._stored()))

    def claim(self, limit: int, make: Make) -> Claim | None:
        """A trial to work on: one that a process abandoned, or a new one; None if there is nothing left to do."""
        while True:
            with _failures(self.path), held(self.locks / "study"):
                running = [trial for trial in self.trials() if trial.state == "running"]
                for trial in running:
                    if (release := acquire(self.locks / trial.name)) is not None:
                        # Its process may have finished and released it since the journal was read.
                        if self.trials()[trial.number - 1].state == "running":
                            return Claim(trial, release)
                        release()
                new = self._propose(make) if len(self._stored()) < limit else None
                if new is not None:
                    self.study.add_trial(new)
                    trial = self.trials()[-1]
                    release = acquire(self.locks / trial.name)
                    assert release is not None, f"{trial.name} is new, so no process has its lock"
                    return Claim(trial, release)
            if not running:
                return None
            # Other processes work on the last trials: if one of them ends, its trial has to be continued.
            with _failures(self.path), held(self.locks / running[0].name):
                pass

    def is_hopeless(self, values: Sequence[float]) -> bool:
        """Whether a trial with these values so far is behind the median of the finished ones."""
        if len(values) >= self.epochs:
            return False
        # Never before half of its epochs: robust losses start slowly, and cross entropy gets worse late.
        pruner = MedianPruner(_FINISHED_BEFORE_PRUNING, n_warmup_steps=max(1, (self.epochs + 1) // 2))
        begun = create_trial(state=TrialState.RUNNING, intermediate_values=dict(enumerate(values, 1)))
        return pruner.prune(self.study, begun)

    def finish(self, trial: Trial, state: str, values: Sequence[float] = (), **facts: float | str | None) -> None:
        """Write the outcome of a trial and other facts. Only the process that the trial belongs to may do so."""
        with _failures(self.path):
            identity = self._stored()[trial.number - 1]._trial_id
            for epoch, value in enumerate(values, 1):
                self.storage.set_trial_intermediate_value(identity, epoch, value)
            for name, fact in facts.items():
                self.storage.set_trial_user_attr(identity, name, fact)
            end = values[-1] if state == "complete" else None
            self.study.tell(trial.number - 1, end, state=TrialState[_STATES[state]])

    def _stored(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _propose(self, make: Make) -> FrozenTrial | None:
        """The next trial, different from all before; None if all have been tried."""
        taken = {(trial.method, trial.lr) for trial in self.trials()}
        for choose in self._proposals():
            params: dict[str, Any] = {}
            picked = self.space.pick(lambda name, allowed: params.setdefault(name, choose(name, allowed)))  # noqa: B023
            method, lr = make(*picked)
            if (method, lr) not in taken:
                ranges = {name: _distribution(self.space.ranges[name]) for name in params}
                known = {"method": method, "lr": lr}
                return create_trial(state=TrialState.RUNNING, params=params, distributions=ranges, user_attrs=known)
        return None

    def _proposals(self) -> Iterator[Choose]:
        stored = self._stored()
        number = len(stored)
        if number < len(self.space.methods):
            yield lambda name, allowed: self.space.methods[number] if name == METHOD else allowed.middle
        first, second = np.random.SeedSequence([self.seed, number]).generate_state(2).tolist()
        with _quiet():
            model_based = TPESampler(seed=first, constant_liar=True)  # counts running trials of other processes
        for sampler, attempts in ((model_based, _MODEL_ATTEMPTS), (RandomSampler(seed=second), _RANDOM_ATTEMPTS)):
            study = _in_memory(stored, self.direction, sampler)
            for _ in range(attempts):
                trial = study.ask()
                yield partial(_suggested, trial)
                study.tell(trial, state=TrialState.FAIL)


def read_study(path: Path) -> optuna.Study:
    """A copy of the study of a search, in memory."""
    with _failures(path), _quiet(), _reading(path):
        stored = optuna.load_study(study_name=_NAME, storage=_storage(path))
        return _in_memory(stored.get_trials(), stored.direction, None)


def _storage(path: Path) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(path / _JOURNAL), lock_obj=_JournalLock(path / _JOURNAL)))  # type: ignore[arg-type]


def _in_memory(trials: Sequence[FrozenTrial], direction: StudyDirection, sampler: BaseSampler | None) -> optuna.Study:
    with _quiet():
        study = optuna.create_study(direction=direction, sampler=sampler)
    study.add_trials(trials)
    return study


_STATES: Final = {"running": "RUNNING", "complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}


def _trial(stored: FrozenTrial) -> Trial:
    state = next(name for name, theirs in _STATES.items() if theirs == stored.state.name)
    values = tuple(stored.intermediate_values[epoch] for epoch in sorted(stored.intermediate_values))
    return Trial(stored.number + 1, params=stored.params, state=state, values=values, **stored.user_attrs)  # type: ignore[arg-type]


def _check(trial: Trial, space: Space) -> None:
    """Raise ValueError for a trial that this search has not written."""
    read_method(trial.method)
    known = METHOD in trial.params and trial.params.keys() <= space.ranges.keys()
    numbers = [trial.lr, trial.test_accuracy or 0.0, *trial.values]
    typed = all(isinstance(number, int | float) for number in numbers) and np.array(numbers, float).ndim == 1
    ended = bool(trial.values) or trial.state != "complete"
    if not (known and typed and ended and isinstance(trial.reason, str)):
        raise PyriteError(f"{trial.name} is not a trial of this search")


def _suggested(trial: optuna.Trial, name: str, allowed: Range) -> Any:
    if isinstance(allowed, Between):
        return allowed.rounded(trial.suggest_float(name, allowed.low, allowed.high, log=allowed.log))
    return trial.suggest_categorical(name, allowed.ends)


def _distribution(allowed: Range) -> BaseDistribution:
    if isinstance(allowed, Between):
        return FloatDistribution(allowed.low, allowed.high, log=allowed.log)
    return CategoricalDistribution(allowed.ends)


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Turn errors of writing, such as a full disk, into ``RunFailed``."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"cannot write to {path}: {error.strerror or error}; its files are complete") from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong with a journal that was edited into one sentence; optuna raises any exception."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PyriteError(f"cannot read {path / _JOURNAL} ({reason}): start a new search in another folder") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress optuna's messages: that a study was made, and that an option is experimental."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
