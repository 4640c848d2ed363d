"""``train``: from the user's arguments to a finished run."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol, TypedDict, Unpack, runtime_checkable

import numpy as np
import torch

from pyrite.data import Data, Dataset, is_frame, is_object, with_labels
from pyrite.data.column_reading import reading_sentence
from pyrite.errors import PyriteError
from pyrite.features import read_state
from pyrite.losses import loss as read_loss
from pyrite.methods import ERM
from pyrite.processes import all_gather, all_reduce, is_lost, join, local_device, pick_device, rank, world_size
from pyrite.settings import SETTINGS, Settings
from pyrite.training.build import Training
from pyrite.training.config import Job, Missing, given_settings, load_data, python_name
from pyrite.training.defaults import announce_embedding, resolve, resolve_defaults
from pyrite.training.loop import Observer, RunFailed, fit
from pyrite.training.own_objects import check_objects
from pyrite.training.pace import Clock
from pyrite.training.prepare import add_noise, read_corrections
from pyrite.training.progress import Progress
from pyrite.training.record import Record
from pyrite.training.run import DataChanged, Run
from pyrite.training.run_folder import RunFolder, locked, new_folder


@runtime_checkable
class RunObserver(Observer, Protocol):
    """An observer that also gets the run's folder and its measurements."""

    def watch(self, folder: Path, record: Record) -> AbstractContextManager[object]:
        """Entered before the first step and left after the last one, whatever happens.

        When ``after_epoch`` is called, the line of that epoch is in ``record.history``.
        """
        ...


class Stopped(KeyboardInterrupt):
    """Ctrl-C while a run is trained; the message is how to continue."""

    def __init__(self, folder: Path, done: bool) -> None:
        words = "finished" if done else "stopped and saved; continue with: pyrite train --resume"
        super().__init__(f"{words} {folder}")
        self.folder, self.done = folder, done


class Watching(TypedDict, total=False):
    """Arguments that watch or stop a run, and do not change its result."""

    progress: bool | None
    observers: Sequence[Observer]
    stop: Callable[[], bool] | None


def train(
    data: Data | None = None,
    labels: object | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] | None = None,
    **settings: Unpack[Settings],
) -> Run:
    """Train a model on partly wrong labels and write a run directory.

    On Ctrl-C, the run is saved before ``KeyboardInterrupt`` is raised.

    Args:
        data: a name, a folder, a file, a pandas or polars frame, arrays, tensors or a list of texts with their labels,
            a ``Dataset`` or ``DataLoader`` of PyTorch, a ``Dataset`` or ``DatasetDict`` of Hugging Face, or a
            ``pyrite.Dataset``. docs/data.md describes each.
        labels: the labels of the samples, if ``data`` has none: ``train(X, y)`` is ``train((X, y))``.
        out: the run directory; by default a new one in ``runs``, named after the current time.
        resume: the directory of a run to continue. The result is byte-for-byte identical to that of an uninterrupted
            run on the same ``device``. Data, net, loss or method must be passed again if they were objects; the
            directory contains everything else.
        progress: show the progress; by default if standard error is a terminal.
        observers: called after every step and every epoch, after the built-in observers. A ``RunObserver`` also
            receives the run directory and the measurements.
        stop: called after every step; if it returns True, the run is saved and returned unfinished.
        settings: those of ``pyrite.settings``, as text or as objects: ``method``, ``noise``, ``epochs``, ... ``model``
            can be your own net, which is trained in place, or a function that returns one for the shape of an input and
            the number of classes. ``loss`` is short for the method ``erm(loss)`` and can be any object with the
            interface of ``nn.CrossEntropyLoss(reduction="none")``; ``lr`` sets the learning rate of the default
            optimiser; ``config`` is a TOML file of settings, which keywords override.

    Returns:
        The finished run, with its model and measurements.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train("digits", loss="gce(q=0.7)", model="mlp", epochs=2, samples=300, out=folder)
    >>> [line["epoch"] for line in run.history]
    [1, 2]
    """
    watching: Watching = {"progress": progress, "observers": observers, "stop": stop}
    beside = is_object(data) and not is_frame(data)  # of a frame, a list may name columns
    if labels is None and beside and not isinstance(settings.get("label", ""), str):
        labels = settings.pop("label")
    data = data if labels is None else with_labels(data, labels)
    if resume is None:
        return train_job(resolve(data, fine_tune=True, shown=is_shown(progress), **settings), out, **watching)
    given = [value for name, value in settings.items() if name != "device"]
    if out is not None or any(isinstance(value, str | os.PathLike | int | float) for value in given):
        raise PyriteError(
            "resume continues a run with the settings in its recipe.toml: omit all other options except device"
        )
    return train_job(_resumed(Path(resume), data, settings), resume, resume=True, **watching)


def is_shown(progress: bool | None) -> bool:
    """Whether this process shows the progress: by default if standard error is a terminal."""
    return rank() == 0 and (sys.stderr.isatty() if progress is None else progress)


def train_job(
    job: Job, out: str | os.PathLike[str] | None = None, *, resume: bool = False, **watching: Unpack[Watching]
) -> Run:
    """As ``train``, for a job that is resolved already. With ``resume``, the run in the folder ``out`` is continued.

    No other process trains in the folder meanwhile. Whether the run is done or stopped, all is written.
    """
    join(job.config.device)
    if job.config.corrections and not resume:
        read_corrections(job.config)  # before a folder is made: the file may be missing
    folder = Path(out) if resume and out is not None else new_folder(out, job.config.device)
    stop, every = watching.get("stop"), job.config.checkpoint_every
    with locked(folder, new=not resume):
        visible = is_shown(watching.get("progress"))
        if visible and not resume and job.deadline is None:  # else it was printed before the pace was measured
            announce_embedding(job)
        if visible and not resume and job.data.reading:
            label = f"labels in {job.data.label!r}; " if job.data.label else ""
            reading = f"{reading_sentence(job.data.reading)}; 'pyrite check' prints them all"
            print(f"{label}columns: {reading}", file=sys.stderr)
        training = Training(job, folder if resume else None, watching.get("progress") is not False)
        record, run_folder = training.record, RunFolder(folder, training)
        run_folder.resume() if resume else run_folder.begin()

        def ended() -> bool:
            """Save if it is time; whether to stop, on all processes if on any."""
            if every and record.steps % every == 0:
                run_folder.save()
            own = bool(interrupts) or (stop is not None and stop())
            return bool(all_reduce(torch.tensor(float(own))))

        with _interrupts() as interrupts:
            simple = stop is None and not every and world_size() == 1
            with ExitStack() as contexts:
                observers: list[Observer] = [record, run_folder]
                if visible:
                    observers.append(bar := Progress(training))
                    contexts.callback(bar.stop)
                if not resume and job.deadline is not None:
                    observers.append(Clock(training, job.deadline))
                for observer in watching.get("observers", ()):
                    observers.append(observer)
                    if isinstance(observer, RunObserver):
                        contexts.enter_context(observer.watch(folder, record))
                try:
                    done = fit(
                        training.trainer, training.batches, job.config.epochs, observers,
                        interrupts.__len__ if simple else ended,
                    )  # fmt: skip
                except RuntimeError as error:
                    if not is_lost(error):
                        raise
                    raise RunFailed(
                        "another process of this training ended, and this one with it; the last saved state is "
                        f"intact: continue with the same command and --resume {folder}"
                    ) from None
            run_folder.finish() if done else run_folder.save()
            if interrupts:
                raise Stopped(folder, done)
    return Run(folder, job.config, record.history)


def train_once(job: Job, out: str | os.PathLike[str], **watching: Unpack[Watching]) -> Run:
    """As ``train_job``, but a finished run in ``out`` is read and not trained again, and an unfinished one continued.

    A run there that was made with other settings is an error, not a result.
    """
    out = Path(out)
    join(job.config.device)
    if not all_gather((out / "recipe.toml").exists())[0]:
        return train_job(job, out, **watching)
    run = Run.load(out)
    if differ := job.config.differences(run.config.recipe):
        raise PyriteError(f"{out} contains a run with other {', '.join(differ)}: choose another folder")
    run.check_data(job.data)
    if (out / "run.json").exists():  # the run was not killed before the first step
        check_objects(job.config, run.facts, out)
    copy = out / "corrections.csv"
    if job.config.corrections is not None and copy.exists() and copy.read_bytes() != read_corrections(job.config):
        raise DataChanged(f"{job.config.corrections} has changed since {out} was begun: choose another folder")
    if not run.finished:  # the rest is checked when it is resumed
        return train_job(job, out, resume=True, **watching)
    if job.config.noise is not None:  # maybe of a file
        noisy, _, _ = add_noise(job, job.config.noise)
        if not np.array_equal(noisy, run.labels["original" if "original" in run.labels else "given"]):
            raise DataChanged(f"{job.config.noise} gives other labels than when {out} was begun: choose another folder")
    if job.config.features is not None:  # maybe of weights that have changed
        job.config.features.restore(read_state(out / "features.npz"))
    return run


def _resumed(folder: Path, data: Data | None, settings: Settings) -> Job:
    """The job of a run's folder; settings may only pass again the objects that the folder does not contain.

    Without the device of the run here, and without another one in the settings, it is that of a new run.
    """
    saved, given = Run.load(folder).config, given_settings(settings)
    device = pick_device(given.pop("device", ""))
    if not device:
        try:
            local_device(device := saved.device)
        except PyriteError:
            device = pick_device("auto")
    if device != saved.device:
        note = f"{folder} was begun on the device {saved.device!r} and continues on {device!r}: last digits will differ"
        warnings.warn(note, UserWarning, stacklevel=4)
    config = saved.replace(device=device)
    join(config.device)
    for name, value in given.items():
        setting = "method" if name == "loss" else name
        if not isinstance(getattr(config, setting), Missing):
            raise PyriteError(f"{folder} has the {setting} {getattr(config, setting)}: omit {name}")
        config = config.replace(**{setting: ERM(read_loss(value)) if name == "loss" else value})
    config.require_objects(f" of {folder}")
    if isinstance(data, Dataset):
        source = data
    elif is_object(data):
        source = load_data(data, config.to_dict())
    elif data is None or not isinstance(config.data, str) or config.data in (str(data), os.path.abspath(str(data))):
        source = load_data(config.data, config.to_dict())
    else:
        raise PyriteError(f"data is {str(data)!r}, but the resumed run was trained on {config.data!r}: omit data")
    job = resolve_defaults(config, source)
    for name in SETTINGS:
        was, now = getattr(saved, name), getattr(job.config, name)
        if isinstance(was, Missing) and name != "data" and python_name(now) != was.name:
            raise PyriteError(f"the {name} of {folder} was given in Python: {was}, not {python_name(now)}")
    return job


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Yield a list that SIGINT and SIGTERM are added to as they arrive. A second one has its usual effect."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if world_size() == 1:  # torchrun sends its processes a second signal after the terminal's
            signal.signal(number, before[number] or signal.SIG_DFL)

    for number in before:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
