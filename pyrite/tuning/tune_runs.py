"""Choosing loss, parameters and learning rate on held-out labels that are partly wrong themselves."""

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack, final

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from pyrite.checks import number, whole_number
from pyrite.comparing import check_many, write_results
from pyrite.data import Data, Dataset, checksums, digest, read_content
from pyrite.errors import PyriteError
from pyrite.methods import Method, Step, method as read_method
from pyrite.settings import Settings
from pyrite.training import (
    Diverged,
    Job,
    Record,
    Watching,
    add_noise,
    given_settings,
    own_objects,
    read_once,
    resolve,
    states_rate,
    train_once,
)
from pyrite.tuning.result import CRITERIA, MISLEADING, Trial, Tuning, best_of
from pyrite.tuning.space import Between, Range, Space, default_methods, read_range, short

if TYPE_CHECKING:
    from pyrite.tuning.study import Study

FACTOR: Final = Between(0.25, 4, log=True)  # of the learning rate, times the default for a net and a method
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
    """Select the loss or method, its parameters and the learning rate without clean labels.

    Each trial holds out a part of the samples and is evaluated on their given labels after training. Under symmetric
    noise, the expected accuracy and MAE on these labels are increasing linear functions of the accuracy and MAE on
    clean labels, so the ranking of models is preserved; docs/tuning.md describes when it is not.

    Call the function again with the same ``out`` to continue the search, up to ``trials`` trials in total. Several
    processes can share the work; if a process ends, another one resumes its trial.

    Args:
        data: as for ``train``.
        methods: losses or methods to choose from, with ranges in place of numbers: ``gce(q=between(0.1, 0.9))``,
            ``imae(T=between(0.5, 16, log=True))``, ``scale(one_of(mae, gce(q=0.9)), tau=2, classes=10)``.
        out: the folder for the run directories of the trials, ``table.md`` and ``tuning.json``.
        trials: the total number of trials.
        by: the criterion: ``accuracy``, ``mae``, or ``ce``, which is misleading on noisy labels.
        prune: whether to stop trials that are worse than the median of the finished trials, at the earliest after half
            of their epochs.
        progress: show the progress; by default if standard error is a terminal.
        options: those of ``train``; ``validation`` is 0.2 by default. ``lr`` can be a range such as
            ``between(0.01, 1, log=True)``. By default, the range extends from a quarter to four times the default rate
            for the net and the method, unless ``optimiser`` sets a rate.

    Returns:
        All trials, and the best of them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = tune("digits", ["gce(q=between(0.1, 0.9))"], trials=2, epochs=1, samples=200, out=folder)
    >>> len(result.trials)
    2
    """
    _check(trials, by, options)
    if not CRITERIA[by].symmetric:
        warnings.warn(MISLEADING, stacklevel=2)
    search = _Search(data, methods, Path(out), by, prune, options)
    study = search.open()
    console = Console(stderr=True, quiet=not (sys.stderr.isatty() if progress is None else progress))
    try:
        with console.status("") as status:
            while claim := study.claim(trials, search.make):
                begun = f"trial {claim.trial.number}/{trials}  {claim.trial}"
                try:
                    outcome = search.train(claim.trial, study, _Watch(search, study, status, begun))
                    console.print(f"{begun}: {outcome}", highlight=False, markup=False, soft_wrap=True)
                finally:
                    claim.release()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped and saved; the same command continues {study.path}") from None
    return search.result(study.trials())


@final
class _Search:
    """The checked arguments of a search, and the training of its trials."""

    def __init__(
        self, data: Data, methods: Sequence[str] | None, path: Path, by: str, prune: bool, options: Settings
    ) -> None:
        self.path, self.by, self.criterion, self.prune = path, by, CRITERIA[by], prune
        lr = options.pop("lr", None)
        # A configuration file may change before the choice is trained with, so that its values are taken now. Methods
        # come from the search.
        rest = {name: value for name, value in given_settings(options).items() if name not in ("data", "method")}
        # The choice is trained on all samples, and its last model is saved: trials are compared by theirs.
        self.options: dict[str, Any]
        self.data, self.options = read_once(data, {"validation": HELD_OUT, "keep": "last"} | rest)  # type: ignore[arg-type, assignment]
        self.fixed_lr, range_of_lr = _fixed_or_range(lr, self.options.get("optimiser"))
        # A learning rate that is neither searched nor given is that of the optimiser.
        job = resolve(self.data, lr=self.fixed_lr, **self.options)
        self.config, self.source = job.config, job.data
        if self.options.pop("minutes", None) is not None:  # measured once, so that all trials have the same length
            fitting = {"model": str(self.config.model), "features": self.config.features}
            self.options = fitting | self.options | {"epochs": self.config.epochs}
        if not self.config.validation:
            raise PyriteError("validation is 0, but the search needs held-out samples")
        for end in range_of_lr.ends if range_of_lr is not None and lr is not None else ():
            resolve(self.source, **self.options, lr=end)
        self.space = Space(methods or default_methods(len(self.source.classes)), range_of_lr, by_factor=lr is None)

    def open(self) -> "Study":
        """The study of the search, with all that determines it but the number of trials, which can be raised later."""
        from pyrite.tuning.study import Study

        rates = self.fixed_lr if self.space.rate is None else repr(self.space.rate)
        settings: dict[str, Any] = {"methods": self.space.methods, "lr": rates, "by": self.by, "prune": self.prune}
        settings |= self.config.replace(method="auto").to_dict()
        settings |= {f"{name} (code or values)": value for name, value in own_objects(self.config).items()}
        settings |= checksums(self.source)  # neither a name nor a path identifies what is read
        if self.config.corrections:
            settings["corrected labels"] = digest([read_content(self.config.corrections)])
        if self.config.noise is not None:  # maybe of a file
            noisy, _, _ = add_noise(Job(self.config.replace(seed=0), self.source), self.config.noise)
            settings["noise"] = [settings["noise"], digest([noisy])]
        return Study(self.path, settings, self.space, self.criterion, self.config.seed, self.config.epochs)

    def make(self, method: Method, number: float | None) -> tuple[str, float]:
        """The method and the learning rate of a choice: given, chosen, or a factor times the default for the method."""
        if number is not None and self.space.rate_name == "lr":
            return str(method), number
        if self.fixed_lr is not None:
            return str(method), self.fixed_lr
        default = float(resolve(self.source, **self.options, method=method).config.optimiser.lr)
        return str(method), default if number is None else float(f"{default * number:.3g}")

    def _chosen(self, trial: Trial) -> dict[str, Any]:
        """The options of ``train`` for a trial; without a learning rate that the optimiser already sets."""
        method = read_method(trial.method)
        chosen = {"method": trial.method} if short(method) == trial.method else {"loss": short(method)}
        return chosen if self.fixed_lr is None and self.space.rate is None else chosen | {"lr": trial.lr}

    def train(self, trial: Trial, study: "Study", watch: "_Watch") -> str:
        """Train a trial to its end, or until it is pruned, write its outcome, and return that in words."""
        job, rule = resolve(self.data, **self.options, **self._chosen(trial)), self.criterion
        watching: Watching = {"observers": [watch], "stop": lambda: watch.hopeless, "progress": False}
        try:
            run = train_once(job, self.path / trial.name, **watching)
            values = [line[rule.column] for line in run.history]
            if None in values:
                raise Diverged("scores of held-out samples are not finite")
        except Diverged as error:
            study.finish(trial, "failed", reason=str(error))
            outcome = f"failed: {error}"
        else:
            state = "complete" if run.finished else "pruned"
            study.finish(trial, state, values, test_accuracy=run.history[-1]["test_accuracy"])
            pruned = f"pruned after {len(values)} of {self.config.epochs} epochs"
            outcome = f"{rule.words} {rule.formatted(values[-1])}" if run.finished else pruned
        best = min(study.trials(), key=rule.rank).value
        return outcome + (f" (best {rule.formatted(best)})" if best is not None else "")

    def result(self, trials: tuple[Trial, ...]) -> Tuning:
        """Write and return the result. The choice is then trained on all samples."""
        rest = {name: value for name, value in self.options.items() if name not in ("samples", "keep")}
        options = self._chosen(best_of(trials, self.criterion)) | rest | {"validation": 0.0}
        data = None if isinstance(self.data, Dataset) else str(self.data)
        tuning = Tuning(self.path, self.by, trials, self.space, data, options)
        write_results(self.path, "table.md", tuning.to_markdown(), "tuning.json", tuning.to_dict())
        return tuning


@final
class _Watch:
    """Checks after every epoch whether a trial should be pruned."""

    def __init__(self, search: _Search, study: "Study", status: Status, begun: str) -> None:
        self.search, self.study, self.status, self.begun, self.hopeless = search, study, status, begun, False

    @contextmanager
    def watch(self, folder: Path, record: Record) -> Iterator[None]:
        self.record = record
        yield

    def after_step(self, step: Step) -> None:
        pass

    def after_epoch(self, epoch: int) -> None:
        self.status.update(escape(f"{self.begun}, epoch {epoch} of {self.search.config.epochs}"))
        values = [line[self.search.criterion.column] for line in self.record.history]
        self.hopeless = self.search.prune and None not in values and self.study.is_hopeless(values)


def _check(trials: object, by: str, options: Mapping[str, Any]) -> None:
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise PyriteError(f'optuna is not installed ({error}): pip install "pyrite-labels[tune]"') from None
    whole_number("trials", trials, least=1)
    if by not in CRITERIA:
        # ``ce`` is not suggested, because it misleads on noisy labels.
        raise PyriteError(f"by is {by!r}, but must be one of {', '.join(name for name in CRITERIA if name != 'ce')}")
    check_many("tune", options)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise PyriteError("one process trains a trial: start the same command several times instead of using torchrun")


def _fixed_or_range(lr: float | str | None, optimiser: object) -> tuple[float | None, Range | None]:
    """A fixed learning rate, or the range of one that is searched; neither if the optimiser sets it."""
    if lr is None:
        return None, None if states_rate(optimiser) else FACTOR
    if not isinstance(lr, str):
        return float(number("lr", lr, "a number or a range such as 'between(0.01, 1, log=True)'")), None
    try:
        return float(lr), None
    except ValueError:
        return None, read_range(lr, "lr")
