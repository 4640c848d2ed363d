"""Which trial comes next, and which is not worth its end: optuna's samplers and pruners, on trials read from files.

An optuna study is made anew from the trials whenever one is needed, so that there is nothing to keep beside them;
random numbers come from the seed and the number of the trial, so that a search that was killed draws what it would
have drawn.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from pyrite.experiments.criteria import Criterion
from pyrite.experiments.space import METHOD, Between, Choose, Range, Space
from pyrite.experiments.study import Trial
from pyrite.methods import Method

if TYPE_CHECKING:
    import optuna

__all__ = ["Search", "need_optuna"]

_MODEL_ATTEMPTS: Final = 20
"""How often optuna's model is asked for a trial that has not been tried before random ones are drawn."""
_RANDOM_ATTEMPTS: Final = 200
"""How many random trials are drawn before it is concluded that all have been tried."""
_FINISHED_BEFORE_PRUNING: Final = 5


def need_optuna() -> None:
    """Say how to install it if it is missing."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ValueError(f'optuna is not installed ({error}): pip install "pyrite[tune]"') from None


@final
class Search:
    """A sampler and a pruner.

    The first trials are each method in the middle of its ranges, at the learning rate it would take by itself, so that
    a short search has seen all of them; then optuna's tree-structured Parzen estimator chooses.

    Args:
        space: what there is to choose from.
        criterion: what to go by.
        seed: everything random comes from it.
        epochs: of a whole trial.
    """

    def __init__(self, space: Space, criterion: Criterion, seed: int, epochs: int) -> None:
        self.space, self.criterion, self.seed, self.epochs = space, criterion, seed, epochs

    def ask(
        self, trials: Sequence[Trial], make: Callable[[Method, float | None, Mapping[str, Any]], Trial]
    ) -> Trial | None:
        """The next trial, unlike all before; None if there is no other."""
        taken = {(trial.method, trial.lr) for trial in trials}
        for params in self._proposals(trials):
            method, rate = self.space.pick(lambda name, held, params=params: params[name])  # type: ignore[misc]
            made = make(method, rate, params)
            if (made.method, made.lr) not in taken:
                return made
        return None

    def hopeless(self, trials: Sequence[Trial], values: Sequence[float]) -> bool:
        """Whether a trial with these values is behind the median of the finished ones.

        Not before half of its epochs: robust losses start slowly, and cross entropy falls late.
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
        """The trials as a study of optuna's, in memory, for its pictures and tables."""
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
            yield self._picked(lambda name, held: self.space.methods[number] if name == METHOD else held.middle)
        first, second = np.random.SeedSequence([self.seed, number]).generate_state(2).tolist()
        with _quiet():
            model_based = TPESampler(seed=first, constant_liar=True)  # trials of other workers count, too
        for sampler, attempts in ((model_based, _MODEL_ATTEMPTS), (RandomSampler(seed=second), _RANDOM_ATTEMPTS)):
            study = self.to_optuna(trials, sampler)
            for _ in range(attempts):
                asked = study.ask()
                yield self._picked(lambda name, held, asked=asked: _suggested(asked, name, held))  # type: ignore[misc]
                study.tell(asked, state=TrialState.FAIL)

    def _picked(self, choose: Choose) -> dict[str, Any]:
        """What was chosen, by name."""
        params: dict[str, Any] = {}

        def noted(name: str, held: Range) -> Any:
            params[name] = choose(name, held)
            return params[name]

        self.space.pick(noted)
        return params


def _suggested(asked: "optuna.Trial", name: str, held: Range) -> Any:
    if isinstance(held, Between):
        return held.rounded(asked.suggest_float(name, held.low, held.high, log=held.log))
    return asked.suggest_categorical(name, held.names)


def _distribution(held: Range) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(held, Between):
        return FloatDistribution(held.low, held.high, log=held.log)
    return CategoricalDistribution(held.names)


def _by_epoch(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values, 1))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without optuna's own news: that a study was made, and that an option which helps here is experimental in 4."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
