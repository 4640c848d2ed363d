"""Choosing loss, parameters and learning rate on held-out labels that are partly wrong themselves."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Unpack, final

import numpy as np
from torch import nn

from pyrite.checks import number, whole_number
from pyrite.data import Data, Dataset, Records, is_object, load
from pyrite.errors import PyriteError
from pyrite.files import write
from pyrite.locks import one_at_a_time
from pyrite.methods import Method, Step, method as read_method
from pyrite.settings import READING, Settings
from pyrite.training import Diverged, Record, RunFailed, given_settings, reading, resolve, states_rate, train_once
from pyrite.tuning.criteria import CRITERIA, TRAP
from pyrite.tuning.progress import TuningProgress
from pyrite.tuning.result import Tuning, best_of
from pyrite.tuning.search import Search, need_optuna
from pyrite.tuning.space import Between, Range, Space, default_methods, read_range, short
from pyrite.tuning.study import Claim, Study, Trial

__all__ = ["tune"]

FACTOR: Final = Between(0.25, 4, log=True)
"""The range of the learning rate, as a factor of the default for a net and a method."""
HELD_OUT: Final = 0.2


def tune(
    data: Data,
    methods: Sequence[str] | None = None,
    *,
    out: str | Path,
    trials: int = 20,
    by: str = "accuracy",
    prune: bool = True,
    progress: bool | None = None,
    **options: Unpack[Settings],
) -> Tuning:
    """Choose loss or method, its parameters and the learning rate without a single clean label.

    Each trial is trained without a part of the samples, and evaluated at its end on the given labels of that part. If
    the noise in them is symmetric, accuracy and MAE on them are on average increasing linear functions of the
    clean ones, so the order of models is kept; docs/tuning.md shows when it is not.

    Called again with the same ``out`` the search continues, to ``trials`` altogether. Several processes may do so at a
    time and share the work; a trial whose process ended is resumed by another.

    Args:
        data: as for ``train``.
        methods: losses or methods to choose from, with ranges in place of numbers: ``gce(q=between(0.1, 0.9))``,
            ``imae(T=between(0.5, 16, log=True))``, ``scale(one_of(mae, gce(q=0.9)), tau=2, classes=10)``.
        out: the folder that gets a run for each trial, ``table.md`` and ``tuning.json``.
        trials: the number of trials altogether.
        by: the criterion: ``accuracy``, ``mae``, or ``ce``, which misleads on noisy labels.
        prune: end trials early that are behind the median of the finished ones, after half of their epochs.
        progress: show the progress; by default if standard error is a terminal.
        options: those of ``train``; ``validation`` is 0.2 by default. ``lr`` may also be a range such as
            ``between(0.01, 1, log=True)``; by default it is from a quarter of the default rate for the net and the
            method to four times that, unless ``optimiser`` sets a rate.
    """
    work = _Work(data, methods, Path(out), trials, by, options.pop("lr", None), prune, options)
    if not work.criterion.symmetric:
        warnings.warn(TRAP, stacklevel=2)
    study = work.study
    study.open(work.settings)
    with TuningProgress(progress, trials, work.config.epochs, work.criterion) as shown, _stopped(study.path):
        while claim := study.claim(work.ask):
            try:
                shown.begin(claim.trial, study.trials())
                ended = work.train(claim, shown)
                shown.end(ended, study.trials())
            finally:
                claim.release()
    return work.result()


@final
class _Work:
    """The checked arguments of a search, and the training of its trials."""

    def __init__(
        self,
        data: Data,
        methods: Sequence[str] | None,
        out: Path,
        trials: int,
        by: str,
        lr: float | str | None,
        prune: bool,
        options: Settings,
    ) -> None:
        need_optuna()
        _check(trials, by, options)
        self.data, self.study, self.limit, self.by, self.prune = data, Study(out), trials, by, prune
        self.criterion = CRITERIA[by]
        # A configuration file may change before the choice is trained with, so that its values are taken now. Methods
        # come from the search.
        rest = {name: value for name, value in given_settings(options).items() if name not in ("data", "method")}
        # The choice is trained on all samples, and its last model is saved: trials are compared by theirs.
        self.options: dict[str, Any] = {"validation": HELD_OUT, "keep": "last"} | rest
        if is_object(data):  # a frame or a list is read once
            self.data = data = load(data, **reading(self.options))
            self.options = {name: value for name, value in self.options.items() if name not in READING}
        self.rate, rates = _rate(lr, self.options.get("optimiser"))
        # A rate that is neither searched nor given is that of the optimiser.
        job = resolve(data, lr=self.rate, **self.options)
        self.config, self.source = job.config, job.data
        if self.options.pop("minutes", None) is not None:  # measured once, so that all trials have the same length
            self.options = {"model": str(self.config.model)} | self.options | {"epochs": self.config.epochs}
        if not self.config.validation:
            raise PyriteError("validation is 0, but there must be held-out samples to choose by")
        for rate in rates.ends if rates is not None and lr is not None else ():
            resolve(self.source, **self.options, lr=rate)
        self.space = Space(methods or default_methods(len(self.source.classes)), rates, by_factor=lr is None)
        self.search = Search(self.space, self.criterion, self.config.seed, self.config.epochs)
        # What determines the search. The number of trials is not included, so that it can be raised later.
        self.settings = {"methods": self.space.methods, "lr": repr(rates) if rates else self.rate, "by": by}
        self.settings |= {"prune": prune, **self.config.replace(method="auto").to_dict()}
        if isinstance(data, Dataset):  # its name does not identify its content
            self.settings["content"] = _digest(data)

    def ask(self, trials: tuple[Trial, ...]) -> Trial | None:
        """The next trial; None if there are enough."""
        number = len(trials) + 1

        def make(method: Method, rate: float | None, params: Mapping[str, Any]) -> Trial:
            return Trial(number, str(method), self._rate_of(method, rate), params)

        return self.search.ask(trials, make) if number <= self.limit else None

    def _rate_of(self, method: Method, number: float | None) -> float:
        """A learning rate: given, chosen, or a factor times the default for this method."""
        if number is not None and self.space.rate_name == "lr":
            return number
        if self.rate is not None:
            return self.rate
        default = float(resolve(self.source, **self.options, method=method).config.optimiser.lr)
        return default if number is None else float(f"{default * number:.3g}")

    def _chosen(self, trial: Trial) -> dict[str, Any]:
        """The options of ``train`` for a trial; without a rate that the optimiser already sets."""
        chosen: dict[str, Any] = {"method": trial.method}
        return chosen if self.rate is None and self.space.rate is None else chosen | {"lr": trial.lr}

    def train(self, claim: Claim, shown: TuningProgress) -> Trial:
        """Train a trial to its end, or until it is pruned, and write its outcome."""
        trial, watch = claim.trial, _Watch(self, shown)
        try:
            run = train_once(
                resolve(self.data, **self.options, **self._chosen(trial)),
                self.study.path / trial.name,
                observers=[watch],
                stop=lambda: watch.hopeless,
                progress=False,
            )
        except Diverged as error:
            return self.study.finish(trial, state="failed", reason=str(error))
        values = [line[self.criterion.column] for line in run.history]
        if None in values:
            return self.study.finish(trial, state="failed", reason="scores of held-out samples are not finite")
        state = "complete" if run.finished else "pruned"
        test = run.history[-1]["test_accuracy"]
        return self.study.finish(trial, state=state, values=tuple(values), test_accuracy=test)

    def result(self) -> Tuning:
        """Write and return the result."""
        trials = self.study.trials()
        chosen = self._chosen(best_of(trials, self.criterion))
        method = read_method(chosen["method"])
        if short(method) != str(method):
            chosen = {"loss": short(method)} | {name: value for name, value in chosen.items() if name != "method"}
        # The choice is then trained on all samples.
        rest = {name: value for name, value in self.options.items() if name not in ("samples", "keep")}
        data = None if isinstance(self.data, Dataset) else str(self.data)
        tuning = Tuning(self.study.path, self.by, trials, self.search, data, chosen | rest | {"validation": 0.0})
        try:
            with one_at_a_time(tuning.path):
                write(tuning.path / "table.md", tuning.to_markdown().encode())
                tuning.to_json(tuning.path / "tuning.json")
        except OSError as error:
            raise RunFailed(f"cannot write to {tuning.path}: {error.strerror or error}; runs are complete") from None
        return tuning


@final
class _Watch:
    """Checks after every epoch whether a trial should be pruned."""

    def __init__(self, work: _Work, shown: TuningProgress) -> None:
        self.work, self.shown, self.hopeless = work, shown, False
        self._record: Record | None = None

    @contextmanager
    def watch(self, folder: Path, record: Record) -> Iterator[None]:
        """A context around a run."""
        self._record = record
        yield

    def after_step(self, step: Step) -> None:
        pass

    def after_epoch(self, epoch: int) -> None:
        assert self._record is not None
        self.shown.epoch(epoch)
        values = [line[self.work.criterion.column] for line in self._record.history]
        if self.work.prune and None not in values:
            self.hopeless = self.work.search.hopeless(self.work.study.trials(), values)


def _check(trials: object, by: str, options: Mapping[str, Any]) -> None:
    whole_number("trials", trials, least=1)
    if by not in CRITERIA:
        # ``ce`` is not suggested, because it misleads on noisy labels.
        raise PyriteError(f"by is {by!r}, but must be one of {', '.join(name for name in CRITERIA if name != 'ce')}")
    for name in ("method", "loss", "resume", "observers", "stop"):
        if options.get(name) is not None:
            raise PyriteError(f"tune has no {name}: it trains many runs, with methods to choose from")
    if isinstance(options.get("model"), nn.Module):
        raise PyriteError("model is a net, which every trial would continue to train: pass a spec or a factory")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise PyriteError(
            "a trial is trained by one process: instead of torchrun, start the same command several times"
        )


def _rate(lr: float | str | None, optimiser_spec: object) -> tuple[float | None, Range | None]:
    """A fixed learning rate, or the range of one that is searched; neither if the optimiser sets it."""
    if isinstance(lr, str):
        try:
            return float(lr), None
        except ValueError:
            return None, read_range(lr, "lr")
    if lr is not None:
        return float(number("lr", lr, "a number or a range such as 'between(0.01, 1, log=True)'")), None
    return None, None if states_rate(optimiser_spec) else FACTOR


@contextmanager
def _stopped(path: Path) -> Iterator[None]:
    """Tell how to continue a search that was stopped, which differs from a single run."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped and saved; the same command continues {path}") from None


def _digest(data: Dataset) -> str:
    """A digest of the labels and inputs of a data set; only of the labels if images are read lazily."""
    digest = blake2b(data.labels.tobytes(), digest_size=16)
    if isinstance(data.inputs, np.ndarray):
        digest.update(data.inputs.tobytes())
    elif isinstance(data.inputs, Records):
        for name, kind, values in data.inputs.columns:
            digest.update(repr((name, kind, values.tolist())).encode(errors="surrogatepass"))
    return digest.hexdigest()
