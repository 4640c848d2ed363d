"""``train``: from the user's arguments to a finished run."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

from pyrite.data import Data, Dataset, is_object, load, read_content
from pyrite.errors import PyriteError
from pyrite.features import read_state
from pyrite.methods import Method, method as read_method
from pyrite.processes import all_gather, join, rank
from pyrite.training.assembly import assemble
from pyrite.training.folder import Folder
from pyrite.training.interrupts import all_agree, interrupts
from pyrite.training.loop import Observer, fit
from pyrite.training.out_folder import locked, new_folder
from pyrite.training.plan import Plan, features_and_text, method_and_text, model_and_text, resolve
from pyrite.training.progress import Progress
from pyrite.training.recipe import BEFORE, GIVEN, Options, Recipe, reading
from pyrite.training.record import Record
from pyrite.training.run import Run
from pyrite.training.run_files import read_json

__all__ = ["RunObserver", "Watching", "train", "train_once", "train_plan", "train_plan_once"]


@runtime_checkable
class RunObserver(Observer, Protocol):
    """An observer that also gets the run's folder and its measurements."""

    def watch(self, folder: Path, record: Record) -> AbstractContextManager[object]:
        """Entered before the first step and left after the last one, whatever happens.

        When ``after_epoch`` is called, the line of that epoch is in ``record.history``.
        """
        ...


class Watching(TypedDict, total=False):
    """Arguments that watch or stop a run, and do not change its result."""

    progress: bool | None
    observers: Sequence[Observer]
    stop: Callable[[], bool]


def train(
    data: Data | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
    **options: Unpack[Options],
) -> Run:
    """Train a model on labels that are partly wrong, and leave a run directory.

    Ctrl-C saves the run before it raises ``KeyboardInterrupt``.

    Args:
        data: a name, a folder, a file, a pandas or polars frame, a list of texts with their ``label``s, or a data set
            that is read already.
        out: the folder of the run; by default a new one in ``runs``, named after the time.
        resume: the folder of a run to continue. It ends with the same bytes as an uninterrupted run. Data, net, loss or
            method that were passed as objects must be passed again; everything else is in the folder.
        progress: show the progress; by default if standard error is a terminal.
        observers: called after every step and every epoch, after those that measure and write. A ``RunObserver`` also
            gets the run's folder and its measurements.
        stop: called after every step; if it returns True the run is saved and returned unfinished.
        options: the settings of ``pyrite.settings``, as text or as objects: ``method``, ``noise``, ``epochs``, ...
            ``model`` may be a net of your own, which is trained in place, or what makes one, called with the shape of
            an input and the number of classes. ``loss`` is short for the method ``erm(loss)``, and may be anything
            that is called as ``nn.CrossEntropyLoss(reduction="none")`` is; ``lr`` is short for the optimiser that
            would be taken, at this learning rate; ``config`` is a TOML file of settings, which options override.
    """
    watching: Watching = {"progress": progress, "observers": observers, "stop": stop}
    if resume is not None:
        return _resume(Path(resume), data, out, options, watching)
    return train_plan(resolve(data, **options), out, **watching)


def train_plan(plan: Plan, out: str | os.PathLike[str] | None = None, **watching: Unpack[Watching]) -> Run:
    """As ``train``, for a plan that is resolved already."""
    join(plan.recipe.device)
    corrections = _corrections(plan.recipe)
    folder = new_folder(out, plan.recipe.device)
    return _run(plan, folder, corrections, watching, new=True)


def train_once(data: Data | None, *, out: str | os.PathLike[str], **options: Any) -> Run:
    """As ``train``, but a finished run in ``out`` is read and not trained again, and an unfinished one is continued.

    A run there that was made with other options is an error, not a result.
    """
    watching: Watching = {name: options.pop(name) for name in Watching.__annotations__ if name in options}  # type: ignore[assignment]
    return train_plan_once(resolve(data, **options), out, **watching)


def train_plan_once(plan: Plan, out: str | os.PathLike[str], **watching: Unpack[Watching]) -> Run:
    """As ``train_once``, for a plan that is resolved already."""
    out = Path(out)
    join(plan.recipe.device)
    if not all_gather((out / "recipe.toml").exists())[0]:
        return train_plan(plan, out, **watching)
    run = Run.load(out)
    # A recipe with short spellings is the same recipe.
    trained = run.recipe.resolved(plan.data, plan.method, plan.features)
    if trained != plan.recipe:
        differ = [name for name in Recipe.model_fields if getattr(trained, name) != getattr(plan.recipe, name)]
        raise PyriteError(f"{out} holds a run with other {', '.join(differ)}: choose another out")
    return run if run.finished else _continue_run(plan, out, watching)


def _resume(
    folder: Path, data: Data | None, out: str | os.PathLike[str] | None, options: Options, watching: Watching
) -> Run:
    """Continue a run from its folder; options may only pass again the objects that the folder does not contain."""
    given = {name: value for name, value in options.items() if value is not None}
    objects = {name for name in ("model", "method", "loss", "features") if not isinstance(given.get(name, ""), str)}
    if given.keys() - objects or out is not None:
        raise PyriteError("resume continues a run with the settings in its recipe.toml: leave out all other options")
    recipe = Run.load(folder).recipe
    for name in objects:
        text = {"model": recipe.model, "features": recipe.features}.get(name, recipe.method)
        if not text.startswith(GIVEN):
            what = {"model": "net", "features": "features"}.get(name, "method")
            raise PyriteError(f"{folder} has the {what} {text}: leave out {name}")
    join(recipe.device)
    source = _same_data(recipe, data)
    method = _same_method(folder, recipe, options)
    if recipe.model.startswith(GIVEN) and "model" not in objects:
        raise PyriteError(f"the net of {folder} was {recipe.model}: pass it again as model")
    model, _ = model_and_text(options.get("model"))
    features, _ = features_and_text(options.get("features"), recipe.features)
    return _continue_run(Plan(recipe, source, method, model, features), folder, watching)


def _continue_run(plan: Plan, folder: Path, watching: Watching) -> Run:
    _check_unchanged(plan.recipe, folder)
    return _run(plan, folder, _corrections(plan.recipe, folder / "corrections.csv"), watching, new=False)


def _run(plan: Plan, folder: Path, corrections: bytes, watching: Watching, *, new: bool) -> Run:
    """Train in a folder that no other process trains in."""
    with locked(folder, new=new):
        features = folder / "features.npz"
        saved = None if new or not features.exists() else read_state(features)
        progress = watching.get("progress") is not False
        parts = assemble(
            plan.recipe, plan.data, plan.method, plan.model, corrections, plan.features, saved, progress,
        )  # fmt: skip
        run_folder = Folder(folder, plan.recipe, parts)
        run_folder.begin() if new else run_folder.resume()
        return _train(run_folder, **watching)


def _train(
    run_folder: Folder,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train until it is done or stopped; either way everything is written to the folder."""
    recipe, parts, folder = run_folder.recipe, run_folder.parts, run_folder.path
    bar = Progress.wanted(progress, recipe, parts)
    watching: list[Observer] = [parts.record, run_folder, *([bar] if bar else []), *observers]
    with interrupts() as interrupted:
        with ExitStack() as contexts:
            for observer in observers:
                if isinstance(observer, RunObserver):
                    contexts.enter_context(observer.watch(folder, parts.record))
            contexts.enter_context(bar or nullcontext())
            done = fit(
                parts.trainer, parts.batches, recipe.epochs, watching, all_agree(lambda: interrupted() or stop())
            )
        run_folder.finish() if done else run_folder.save()
        if interrupted():
            words = "finished" if done else "stopped and saved; continue with: pyrite train --resume"
            raise KeyboardInterrupt(f"{words} {folder}")
    return Run(folder, recipe, parts.record.history)


def _same_data(recipe: Recipe, data: Data | None) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if is_object(data):
        return load(data, **reading(recipe.model_dump()))
    if recipe.data.startswith(GIVEN):
        raise PyriteError(f"the data was {recipe.data}: pass it again, as in pyrite.train(data, resume=...)")
    if data is not None and recipe.data not in (str(data), os.path.abspath(str(data))):
        raise PyriteError(f"data is {str(data)!r}, but the run that is resumed has {recipe.data!r}")
    return recipe.load_data()


def _same_method(folder: Path, recipe: Recipe, options: Options) -> Method:
    if not recipe.method.startswith(GIVEN):
        return read_method(recipe.method)
    if options.get("method") is None and options.get("loss") is None:
        raise PyriteError(f"the method of {folder} was {recipe.method}: pass it again as method or loss")
    method, text = method_and_text(options)
    if text != recipe.method:
        raise PyriteError(f"the method of {folder} was {recipe.method}, not {text.removeprefix(GIVEN)}")
    return method


def _check_unchanged(recipe: Recipe, folder: Path) -> None:
    """Raise ``ValueError`` if recipe.toml was edited since the run began: it would not describe the first epochs."""
    path = folder / "run.json"
    if not path.exists():  # killed before the first step
        return
    began, now = {**BEFORE, **read_json(path, recipe=dict)["recipe"]}, recipe.model_dump(exclude_none=True)
    for name in {**began, **now}:
        if began.get(name) != now.get(name):
            raise PyriteError(
                f"{folder / 'recipe.toml'} was changed since the run began: {name} was {began.get(name)!r} and is "
                f"{now.get(name)!r}. Undo that, or train a new run with --config {folder / 'recipe.toml'} --out ..."
            )


def _corrections(recipe: Recipe, copy: Path | None = None) -> bytes:
    """The content of the file that corrects labels. A resumed run has a copy, because the file may have changed.

    Process 0 reads it for all, so that all have the same content.
    """
    if not recipe.corrections:
        return b""

    def content_or_problem() -> tuple[bytes, str]:
        try:
            return read_content(copy if copy is not None and copy.exists() else recipe.corrections), ""
        except ValueError as error:
            return b"", str(error)

    content, problem = all_gather(content_or_problem() if rank() == 0 else (b"", ""))[0]
    if problem:
        raise PyriteError(f"cannot read the corrections: {problem}")
    return content
