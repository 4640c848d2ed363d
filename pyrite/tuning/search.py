"""The choice of the next trial, and of trials to end early: optuna's samplers and pruners, on trials read from files.

An optuna study is rebuilt from the trials whenever one is needed, so that the trials are the only state. Random numbers
depend on the seed and the number of the trial, so that a search that was killed continues with the same draws.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from pyrite.errors import PyriteError
from pyrite.methods import Method
from pyrite.tuning.criteria import Criterion
from pyrite.tuning.space import METHOD, Between, Choose, Range, Space
from pyrite.tuning.study import Trial

if TYPE_CHECKING:
    import optuna

__all__ = ["Search", "need_optuna"]

_MODEL_ATTEMPTS: Final = 20
"""Proposals of optuna's model before random ones are drawn, if all were tried before."""
_RANDOM_ATTEMPTS: Final = 200
"""Random proposals before the search ends, if all were tried before."""
_FINISHED_BEFORE_PRUNING: Final = 5


def need_optuna() -> None:
    """Raise ``ValueError`` if optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise PyriteError(f'optuna is not installed ({error}): pip install "pyrite[tune]"') from None


@final
class Search:
    """A sampler and a pruner.

    The first trials are each method in the middle of its ranges, at its default learning rate, so that a short search
    has tried all of them; then optuna's tree-structured Parzen estimator chooses.

    Args:
        space: the methods and ranges to choose from.
        criterion: what trials are compared by.
        seed: everything random comes from it.
        epochs: the length of a trial.
    """

    def __init__(self, space: Space, criterion: Criterion, seed: int, epochs: int) -> None:
        self.space, self.criterion, self.seed, self.epochs = space, criterion, seed, epochs

    def ask(
        self, trials: Sequence[Trial], make: Callable[[Method, float | None, Mapping[str, Any]], Trial]
    ) -> Trial | None:
        """The next trial, different from all before; None if all have been tried."""
        taken = {(trial.method, trial.lr) for trial in trials}
        for params in self._proposals(trials):
            method, rate = self.space.pick(lambda name, allowed, params=params: params[name])  # type: ignore[misc]
            trial = make(method, rate, params)
            if (trial.method, trial.lr) not in taken:
                return trial
        return None

    def hopeless(self, trials: Sequence[Trial], values: Sequence[float]) -> bool:
        """Whether a trial with these values is behind the median of the finished ones.

        Never before half of its epochs: robust losses start slowly, and cross entropy gets worse late.
        """
        from optuna.pruners import MedianPruner
        from optuna.trial import TrialState, create_trial

        if len(values) >= self.epochs:
            return False
        pruner = MedianPruner(n_startup_trials=_FINISHED_BEFORE_PRUNING, n_warmup_steps=max(1, (self.epochs + 1) // 2))
        now = create_trial(state=TrialState.RUNNING, intermediate_values=_by_epoch(values))
        return pruner.prune(self.to_optuna(trials), now)

    def to_optuna(
        self, trials: Sequence[Trial], sampler: "optuna.samplers.BaseSampler | None" = None
    ) -> "optuna.Study":
        """The trials as an optuna study in memory, for its plots and tables."""
        import optuna

        with _quiet():
            study = optuna.create_study(direction="maximize" if self.criterion.rises else "minimize", sampler=sampler)
        states = {"running": "RUNNING", "complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
        for trial in trials:
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState[states[trial.state]],
                    value=trial.value,
                    params=dict(trial.params),
                    distributions={name: _distribution(self.space.ranges[name]) for name in trial.params},
                    intermediate_values=_by_epoch(trial.values),
                )
            )
        return study

    def _proposals(self, trials: Sequence[Trial]) -> Iterator[Mapping[str, Any]]:
        from optuna.samplers import RandomSampler, TPESampler
        from optuna.trial import TrialState

        number = len(trials)
        if number < len(self.space.methods):
            yield self._picked(lambda name, allowed: self.space.methods[number] if name == METHOD else allowed.middle)
        first, second = np.random.SeedSequence([self.seed, number]).generate_state(2).tolist()
        with _quiet():
            model_based = TPESampler(seed=first, constant_liar=True)  # counts running trials of other processes
        for sampler, attempts in ((model_based, _MODEL_ATTEMPTS), (RandomSampler(seed=second), _RANDOM_ATTEMPTS)):
            study = self.to_optuna(trials, sampler)
            for _ in range(attempts):
                trial = study.ask()
                yield self._picked(lambda name, allowed, new=trial: _suggested(new, name, allowed))  # type: ignore[misc]
                study.tell(trial, state=TrialState.FAIL)

    def _picked(self, choose: Choose) -> dict[str, Any]:
        """What was chosen, by name."""
        params: dict[str, Any] = {}

        def choose_and_record(name: str, allowed: Range) -> Any:
            params[name] = choose(name, allowed)
            return params[name]

        self.space.pick(choose_and_record)
        return params


def _suggested(trial: "optuna.Trial", name: str, allowed: Range) -> Any:
    if isinstance(allowed, Between):
        return allowed.rounded(trial.suggest_float(name, allowed.low, allowed.high, log=allowed.log))
    return trial.suggest_categorical(name, allowed.names)


def _distribution(allowed: Range) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(allowed, Between):
        return FloatDistribution(allowed.low, allowed.high, log=allowed.log)
    return CategoricalDistribution(allowed.names)


def _by_epoch(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values, 1))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress optuna's messages: that a study was made, and that an option is experimental."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
