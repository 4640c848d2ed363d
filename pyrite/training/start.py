"""The door: from what a user says to a run that is finished."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import count as count_from
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from pyrite.data import DATASETS, Dataset, load, read_content
from pyrite.losses import loss as read_loss
from pyrite.methods import ERM
from pyrite.models import Architecture, Factory
from pyrite.processes import all_gather, all_reduce, join, rank, world_size
from pyrite.spec import build
from pyrite.training.assembly import assemble
from pyrite.training.folder import Folder
from pyrite.training.loop import Observer, fit
from pyrite.training.optimisers import OPTIMISERS, optimiser
from pyrite.training.progress import Progress
from pyrite.training.recipe import GIVEN, Recipe
from pyrite.training.recorder import Recorder
from pyrite.training.run import Run

__all__ = ["RunObserver", "new_folder", "resolve", "says_rate", "train", "train_once"]


@runtime_checkable
class RunObserver(Observer, Protocol):
    """An observer that wants more than steps: the run's folder, and what was measured."""

    def watch(self, folder: Path, recorder: Recorder) -> AbstractContextManager[object]:
        """Entered before the first step and left after the last one, whatever happens.

        When ``after_epoch`` is called, the line of that epoch is in ``recorder.history``.
        """
        ...


def train(
    data: str | Path | Dataset | None = None,
    *,
    model: str | Architecture | nn.Module | Factory | None = None,
    loss: object | None = None,
    lr: float | None = None,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    config: str | Path | None = None,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
    loaded: Dataset | None = None,
    **values: Any,
) -> Run:
    """Train a model on labels that are partly wrong, and leave a run directory.

    Ctrl-C saves the run before it raises ``KeyboardInterrupt``.

    Args:
        data: a name, a folder, a file, or a data set that is read already.
        model: a spec; a net of your own, which is trained in place; or what makes one, called with the shape of an
            input and the number of classes.
        loss: short for the method ``erm(loss)``.
        lr: short for the optimiser that would be taken, at this learning rate.
        out: the folder of the run; by default a new one in ``runs``, named after the time.
        resume: the folder of a run to go on with, to the same bytes that it would have ended with uninterrupted. What
            was handed over as an object, data or net, must be handed over again; everything else is in the folder.
        config: a TOML file with values of a recipe; what is passed here comes before it.
        progress: show how far it is; by default if somebody sits at a terminal.
        observers: told of every step and every epoch, after those that measure and write. A ``RunObserver`` gets the
            run's folder and its measurements too.
        stop: asked after every step; if it says True the run is saved and comes back unfinished.
        loaded: what ``data`` names, if somebody has read it already.
        values: those of a ``Recipe``: ``method``, ``noise``, ``epochs``, ``batch_size``, ``seed``, ...
    """
    if resume is None:
        recipe, source = resolve(data, model=model, loss=loss, lr=lr, config=config, loaded=loaded, **values)
        join(recipe.device)
        fixed = _corrections(recipe)
        folder = new_folder(out, recipe.device)
    else:
        named = model if isinstance(model, str | Architecture) else None
        if any(value is not None for value in (named, loss, lr, out, config, *values.values())):
            raise ValueError("resume goes on with a run as its recipe.toml says: leave out all other options")
        folder = Path(resume)
        recipe = Run.load(folder).recipe
        join(recipe.device)
        source = _same_data(recipe, data, loaded)
        fixed = _corrections(recipe, folder / "corrections.csv")
    own = None if isinstance(model, str | Architecture) else model
    if recipe.model.startswith(GIVEN) and own is None:
        raise ValueError(f"the net of {folder} was {recipe.model}: pass it again as model")
    parts = assemble(recipe, source, own, fixed)
    keeper = Folder(folder, recipe, parts)
    keeper.begin() if resume is None else keeper.resume()
    return _go(keeper, Progress.wanted(progress, recipe, parts), observers, stop)


def _go(keeper: Folder, shown: Progress | None, observers: Sequence[Observer], stop: Callable[[], bool]) -> Run:
    """Train until it is done or stopped; either way the folder says all."""
    recipe, parts, folder = keeper.recipe, keeper.parts, keeper.path
    watching: list[Observer] = [parts.recorder, keeper, *([shown] if shown else []), *observers]
    with _interrupts() as interrupted:
        with ExitStack() as around:
            for observer in observers:
                if isinstance(observer, RunObserver):
                    around.enter_context(observer.watch(folder, parts.recorder))
            around.enter_context(shown or nullcontext())
            done = fit(parts.method, parts.batches, recipe.epochs, watching, _agreed(lambda: interrupted() or stop()))
        keeper.finish() if done else keeper.save()
        if interrupted():
            words = "finished" if done else "stopped and saved; go on with: pyrite train --resume"
            raise KeyboardInterrupt(f"{words} {folder}")
    return Run(folder, recipe, parts.recorder.history)


def train_once(data: str | Path | Dataset | None, *, out: str | Path, **options: Any) -> Run:
    """As ``train``, but what ``out`` holds is not trained again: a finished run is read, another one is gone on with.

    A run there that was made with other options is an error, not a result.
    """
    out = Path(out)
    watched = {name: options.pop(name) for name in ("progress", "observers", "stop") if name in options}
    if not all_gather((out / "recipe.toml").exists())[0]:
        return train(data, out=out, **options, **watched)
    wanted, source = resolve(data, **options)
    found = Run.load(out)
    held = found.recipe.resolved(source)
    if held != wanted:
        differ = [name for name in Recipe.model_fields if getattr(held, name) != getattr(wanted, name)]
        raise ValueError(f"{out} holds a run with other {', '.join(differ)}: choose another out")
    again = data if isinstance(data, Dataset) else None
    loaded = source if again is None else None
    return found if found.finished else train(again, resume=out, loaded=loaded, **watched)


def resolve(
    data: str | Path | Dataset | None = None,
    *,
    model: str | Architecture | nn.Module | Factory | None = None,
    loss: object | None = None,
    lr: float | None = None,
    config: str | Path | None = None,
    loaded: Dataset | None = None,
    **values: Any,
) -> tuple[Recipe, Dataset]:
    """The recipe that ``train`` would follow with these arguments, spelled out, and the data it names."""
    held = {} if config is None else Recipe.read(Path(config))
    held |= {name: str(value) if name in _SPECS else value for name, value in values.items() if value is not None}
    if loss is not None:
        if values.get("method") is not None:
            raise ValueError("method and loss are both given: write the loss into the method")
        held["method"] = str(ERM(read_loss(loss)))  # type: ignore[arg-type]
    if isinstance(data, Dataset):
        held["data"] = GIVEN + data.name
    elif data is not None:
        # A path from where one stands now would lead elsewhere when the run is resumed.
        here = str(data) not in DATASETS and os.path.exists(str(data))
        held["data"] = os.path.abspath(str(data)) if here else str(data)
    if held.get("corrections"):
        held["corrections"] = os.path.abspath(os.path.expanduser(str(held["corrections"])))
    if isinstance(model, str | Architecture):
        held["model"] = str(model)
    elif model is not None:
        held["model"] = GIVEN + (type(model).__name__ if isinstance(model, nn.Module) else _name(model))
    if "data" not in held:
        raise ValueError("data is missing: a name such as 'digits', a folder of images, or a file")
    recipe = Recipe.make(**held)
    source = data if isinstance(data, Dataset) else load(recipe.data) if loaded is None else loaded
    recipe = recipe.resolved(source)
    if lr is not None:
        if says_rate(values.get("optimiser")):
            raise ValueError(f"lr is given twice: alone, and in the optimiser {str(values['optimiser'])!r}")
        rest = vars(optimiser(recipe.optimiser)) | {"lr": lr}
        recipe = recipe.model_copy(update={"optimiser": str(type(optimiser(recipe.optimiser))(**rest))})
    return recipe, source


def says_rate(spec: object) -> bool:
    """Whether an optimiser that was passed says its learning rate, first or by name."""
    if not isinstance(spec, str):
        return spec is not None

    def first(lr: float | None = None, *more: object, **named: object) -> SimpleNamespace:
        return SimpleNamespace(given=lr is not None)

    return bool(build(spec, dict.fromkeys(OPTIMISERS, first), "optimiser").given)


def _name(factory: Factory) -> str:
    return str(getattr(factory, "__name__", type(factory).__name__))


_SPECS = ("method", "noise", "optimiser", "schedule", "augment")


def _same_data(recipe: Recipe, data: str | Path | Dataset | None, loaded: Dataset | None) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if recipe.data.startswith(GIVEN):
        raise ValueError(f"the data was {recipe.data}: pass it again, as in pyrite.train(data, resume=...)")
    if data is not None and recipe.data not in (str(data), os.path.abspath(str(data))):
        raise ValueError(f"data is {str(data)!r}, but the run that is resumed has {recipe.data!r}")
    return load(recipe.data) if loaded is None else loaded


def _corrections(recipe: Recipe, copy: Path | None = None) -> bytes:
    """The content of the file that corrects labels; of a run that goes on, its own copy, as the file may have changed.

    The first process reads, so that all have the same, and what it has written before is there for all.
    """
    if not recipe.corrections:
        return b""

    def found() -> tuple[bytes, str]:
        try:
            return read_content(copy if copy is not None and copy.exists() else recipe.corrections), ""
        except ValueError as error:
            return b"", str(error)

    content, problem = all_gather(found() if rank() == 0 else (b"", ""))[0]
    if problem:
        raise ValueError(f"cannot read the corrections: {problem}")
    return content


def new_folder(out: str | Path | None, device: str = "cpu") -> Path:
    """A folder for a run: ``out`` if it is empty or not there, or a new one. All processes take that of the first."""
    join(device)
    if out is None:
        named = all_gather(_claimed(Path(time.strftime("runs/%Y-%m-%d-%H%M%S"))) if rank() == 0 else "")[0]
        return Path(named)
    folder = Path(out)
    problem = all_gather(_occupied(folder))[0]
    if problem:
        raise ValueError(problem)
    return folder


def _claimed(folder: Path) -> str:
    """A folder of this name, or with a number after it, that nobody else has: runs may begin in the same second."""
    for number in count_from(1):
        wanted = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            wanted.mkdir(parents=True)
            return str(wanted)
        except FileExistsError:
            continue
        except OSError:  # said when the first file is written
            return str(wanted)
    raise AssertionError("there is always another number")


def _occupied(folder: Path) -> str:
    """Why a folder cannot be taken.

    A file that a killed process had only begun to write is nothing, and the audit that comes before a run may be there.
    """
    try:
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        held = [name for name in names if name != "audit" and not name.endswith(".part")]
    except OSError as error:
        return f"cannot read {folder}: {error.strerror}"
    if held or (folder.exists() and not folder.is_dir()):
        go_on = f", or go on with --resume {folder}" if "recipe.toml" in held else ""
        return f"{folder} is not empty: choose another out{go_on}"
    return ""


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, or a cluster asked to stop. A second time does what it would do without us."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if world_size() == 1:  # torchrun passes on to its processes what the terminal has sent them already
            signal.signal(number, before[number] or signal.SIG_DFL)

    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _agreed(stop: Callable[[], bool]) -> Callable[[], bool]:
    """All processes stop after the same step."""
    if world_size() == 1:
        return stop
    return lambda: bool(all_reduce(torch.tensor(float(stop()))))
