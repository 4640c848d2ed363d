"""The folder of a run: a new one, its lock, and what is written to it during training, and when."""

import json
import math
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

import pyrite
from pyrite.data import Unreadable, digest
from pyrite.errors import PyriteError
from pyrite.files import acquire, npz_bytes, pack_texts, write
from pyrite.processes import all_gather, join, rank, together, world_size
from pyrite.training.build import Training
from pyrite.training.evaluation import measure_retrieval
from pyrite.training.loop import Observer, RunFailed
from pyrite.training.own_objects import check_objects
from pyrite.training.progress import divergence
from pyrite.training.run import CHECKED, read_json, read_labels

STATE: Final = "state/state.safetensors"
_LOCK: Final = ".lock"
_TENSOR, _ARRAY, _TEXT = "tensor:", "array:", "text:"  # the last where a text begins like one of them
_DIGITS: Final = 40  # of the checksum


def new_folder(out: str | os.PathLike[str] | None, device: str = "cpu") -> Path:
    """A folder for a run: ``out``, which must be empty or not exist, or a new one. Process 0 chooses it for all."""
    join(device)
    folder = Path(time.strftime("runs/%Y-%m-%d-%H%M%S") if out is None else out)
    with together():
        if out is not None:
            _check_empty(folder)
        elif rank() == 0:
            first = folder
            for number in count(2):
                try:
                    folder.mkdir(parents=True)
                    break
                except FileExistsError:  # several runs may begin in the same second
                    folder = first.with_name(f"{first.name}-{number}")
                except OSError:  # reported when the first file is written
                    break
    return all_gather(folder)[0]


class InUse(PyriteError):  # noqa: N818  # the name tells what happened
    """The folder of a run that another process trains in."""


@contextmanager
def locked(folder: Path, *, new: bool) -> Iterator[None]:
    """Lock a run's folder, or raise ``InUse`` if another process uses it. Process 0 does it for all.

    A folder for a new run must still be empty once it is locked, because another process may have trained in it since
    ``new_folder`` checked.
    """
    was_there, release = folder.exists(), None
    try:
        # Where nothing can be written, the first file reports it; where there are no file locks, runs go without.
        with together(), suppress(OSError):
            if rank() == 0 and (release := acquire(folder / _LOCK)) is None:
                raise InUse(f"{folder} is in use: another process is training in it")
            if rank() == 0 and new:
                _check_empty(folder)
        yield
    finally:
        if release is not None:
            release()
            if not was_there:
                with suppress(OSError):  # not empty: it contains a run
                    folder.rmdir()


def _check_empty(folder: Path) -> None:
    """Refuse a folder in which there is more than unfinished files of a killed process, a lock, or an audit."""
    try:
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    except OSError as error:
        raise PyriteError(f"cannot read {folder}: {error.strerror}") from None
    others = [name for name in names if name not in ("audit", _LOCK, ".writing") and not name.endswith(".part")]
    if others or (folder.exists() and not folder.is_dir()):
        resume = f", or continue with --resume {folder}" if "recipe.toml" in others else ""
        raise PyriteError(f"{folder} is not empty: choose another folder{resume}")


@final
class RunFolder(Observer):
    """An observer that keeps the folder up to date. Process 0 alone writes.

    The state is written before the results, and contains them: a run that is killed in between writes the same results
    when it is resumed.
    """

    def __init__(self, path: Path, training: Training) -> None:
        self.path, self.training, self.config = path, training, training.config
        self._began = time.perf_counter()
        self._unwritten = False  # whether there are results of an epoch that are not in the folder yet
        self._saved_at, self._saving = -math.inf, 0.0  # seconds: when and how long

    def begin(self) -> None:
        """Write what is known before the first step: first the recipe, which a resume needs, and the checksums."""
        labels = self.training.labels
        packed = {"path": pack_texts(labels["path"])} if "path" in labels else {}
        files = {"recipe.toml": self.config.to_toml().encode(), "run.json": self._facts({"finished": False})}
        self._write({} if rank() else files | self.training.files | {"labels.npz": npz_bytes(labels | packed)})

    def resume(self) -> None:
        """Load the saved state; start from the beginning if there is none."""
        path, training = self.path / STATE, self.training
        there = [self.path / name for name in ("labels.npz", "run.json")]
        saved, begun = all_gather((path.exists(), any(one.exists() for one in there)))[0]
        if saved or begun:
            self._check_data(saved)
        if not saved:
            return self.begin()
        state = unpack(path)
        if self.config.differences(state["recipe"]):
            raise PyriteError(
                f"{path} belongs to a run with a recipe other than {self.path / 'recipe.toml'}: restore the "
                "file, or train again"
            )
        if state["checksums"] != training.checksums:  # run.json, which has them too, may be gone
            raise PyriteError(f"the inputs of {self.config.data} are not those of {path}")
        self._began -= state["seconds"]
        try:
            training.trainer.load_state_dict(state["trainer"])
        except (RuntimeError, KeyError) as error:  # what was handed over is not what it was
            reason = " ".join(str(error).split())
            raise PyriteError(f"{path} does not fit the net or the method: {reason}") from None
        training.batches.load_state_dict(state["batches"])
        training.record.load_state_dict(state["record"])
        training.batches.unreadable |= {name: Unreadable(name, why) for name, why in state["unreadable"].items()}

    def _check_data(self, saved: bool) -> None:
        """Raise ``PyriteError`` if recipe, labels or inputs have changed; warn of what changes the last digits.

        A run with an edited recipe is not continued: it would not describe the first epochs.
        """
        facts_path, began = self.path / "run.json", None
        if facts_path.exists():  # the run was not killed before the first step
            began = read_json(facts_path, recipe=dict, threads=int, processes=int)
            for name, (was, value) in self.config.differences(began["recipe"]).items():
                recipe = self.path / "recipe.toml"
                raise PyriteError(
                    f"{recipe} was changed since the run began: {name} was {was!r} and is {value!r}. Undo the change, "
                    f"or train a new run with --config {recipe} --out ..."
                )
            check_objects(self.config, began, self.path)
        path, now = self.path / "labels.npz", self.training.labels
        labels = read_labels(path) if saved or path.exists() else now  # a process may have been killed before it
        # Which part a sample is in depends on the inputs too: copies are together.
        if list(labels) != list(now) or not all(
            np.array_equal(labels[name], now[name]) for name in now if name != "part"
        ):
            raise PyriteError(f"the labels of {self.config.data} are not those in {path}")
        if began is None:
            return
        facts = json.loads(json.dumps(self.training.facts))
        if changed := [name for name, value in facts.items() if began.get(name) != value]:
            others = f"other {', '.join(changed)}"
            raise PyriteError(f"the inputs of {self.config.data} are not those of {facts_path}: {others}")
        for name, value in (("threads", torch.get_num_threads()), ("processes", world_size())):
            if began[name] != value:
                text = f"{self.path} was begun with {began[name]} {name}, not {value}: the last digits will differ"
                warnings.warn(text, stacklevel=4)

    def after_epoch(self, epoch: int) -> None:
        self._unwritten = True
        # At most a tenth of the time goes into writing, and once in five seconds is enough; a killed run repeats them.
        due = self.config.checkpoint_every or time.perf_counter() - self._saved_at > max(5.0, 10 * self._saving)
        if all_gather(bool(due))[0]:
            self.save()

    def save(self) -> None:
        """Write the current state, and the results of the last epoch."""
        training, begun = self.training, time.perf_counter()
        training.record.merge()
        if rank():
            return self._write({})
        state: dict[str, Any] = {"recipe": self.config.recipe, "checksums": training.checksums}
        state["seconds"] = time.perf_counter() - self._began
        state |= {name: getattr(training, name).state_dict() for name in ("batches", "trainer", "record")}
        state["unreadable"] = {entry.path: entry.reason for entry in training.batches.unreadable.values()}
        self._write({STATE: pack(state), **(self._results() if self._unwritten else {})})
        self._unwritten, self._saved_at = False, time.perf_counter()
        self._saving = self._saved_at - begun

    def finish(self) -> None:
        """Write the model, and everything that is known at the end."""
        training, history, last = self.training, self.training.record.history, {}
        self._write({} if rank() else self._results())
        warned, saved = divergence(history), training.evaluation.saved(history)
        if (best := training.evaluation.best) is not None and saved["epoch"] != len(history):
            last["last.safetensors"] = _weights(training.trainer.model)
            best.restore(training.trainer.predictors)  # of which the rest is measured
        # What would take too long after every epoch is measured now.
        results: dict[str, Any] = {"finished": True, "saved": saved, "nets": len(training.trainer.predictors)}
        deadline, whole = training.job.deadline, len(training.batches.index)
        results["final_model"], some = training.evaluation.final_model(training.batches, training.record, deadline)
        if deadline is not None and some < whole - len(training.batches.unreadable):
            warned.append(f"the time was up: what the model learned was measured on {some:,} of {whole:,} samples")
        evaluated, data = (training.evaluation.test, training.evaluation.validation), training.data
        parts = [part.unreadable.values() for part in (training.batches, *evaluated) if part is not None]
        own = {entry.path: entry.reason for part in (data.unreadable, *parts) for entry in part}
        results["unreadable"] = {path: reason for found in all_gather(own) for path, reason in found.items()}
        if data.test is not None and data.test.tracklets is not None:
            try:
                results["retrieval"] = measure_retrieval(training.trainer, data.test, training.scale)
            except ValueError as error:  # a net without embeddings is saved all the same
                results["retrieval"] = {"unknown": str(error)}
        self._write({} if rank() else {"model.safetensors": _weights(training.trainer.model), **last})
        paths = [path for name in CHECKED if (path := self.path / name).exists()]
        results["files"] = {path.name: digest([path.read_bytes()]) for path in paths}
        self._write({} if rank() else {"run.json": self._facts(results, warned)})

    def _results(self) -> dict[str, bytes]:
        record = self.training.record
        learned = {name: values.detach().cpu().numpy() for name, values in self.training.trainer.arrays().items()}
        history = "".join(json.dumps(line) + "\n" for line in record.history).encode()
        files = {"history.jsonl": history, "samples.npz": npz_bytes(record.arrays())}
        return files | ({"method.npz": npz_bytes(learned)} if learned else {})

    def _write(self, files: Mapping[str, bytes]) -> None:
        """Write files by their names, in this order; only process 0 has some. All wait for it, and fail together."""
        with together():
            for name, content in files.items():
                try:
                    path = write(self.path / name, content)
                    for part in path.parent.glob(f".{path.name}.*.part"):  # left by a killed process
                        part.unlink(missing_ok=True)
                except OSError as error:
                    saved = (self.path / STATE).exists()
                    hint = f". The last checkpoint is whole: pyrite train --resume {self.path}" if saved else ""
                    raise RunFailed(f"cannot write {self.path / name}: {error.strerror or error}{hint}") from None

    @cached_property
    def _commit(self) -> str | None:
        """The commit of the working directory when training began."""
        with suppress(OSError):  # there may be no git
            words = ["git", "rev-parse", "HEAD"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)  # nosec B603
            return done.stdout.strip() or None
        return None

    def _facts(self, results: dict[str, Any], warned: Sequence[str] = ()) -> bytes:
        versions = {"pyrite": pyrite.__version__, "torch": torch.__version__, "numpy": np.__version__}
        facts: dict[str, Any] = {
            "warnings": [*self.training.warnings, *warned],
            "seconds": round(time.perf_counter() - self._began, 3),
            "seed": self.config.seed,
            "recipe": self.config.recipe,
            "objects": self.training.objects,
            "command": sys.argv,
            "git": self._commit,
            "processes": world_size(),
            "threads": torch.get_num_threads(),
            "versions": {**versions, "python": platform.python_version()},
            **self.training.facts,
            **results,
        }
        return (json.dumps(facts, indent=2) + "\n").encode()


def _weights(model: nn.Module) -> bytes:
    # Clones, because safetensors refuses tensors that share their memory, as tied weights do.
    return save({name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()})


def pack(state: Mapping[str, Any]) -> bytes:
    """Nested dictionaries of tensors, arrays, numbers, strings, and lists of numbers and strings, as bytes."""
    tensors: dict[str, Tensor] = {}

    def plain(value: Any, name: str) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(item, f"{name}/{key}") for key, item in value.items()}
        if isinstance(value, Tensor):
            tensors[name] = value.detach().cpu().contiguous().clone()
            return _TENSOR + name
        if isinstance(value, np.ndarray):
            tensors[name] = torch.from_numpy(np.array(value))
            return _ARRAY + name
        if isinstance(value, str) and value.startswith((_TENSOR, _ARRAY, _TEXT)):
            return _TEXT + value
        return value.item() if isinstance(value, np.generic) else value

    tree = json.dumps(plain(state, ""))
    # One entry: the order of several would not be the same each time.
    return save(tensors, {"state": digest([tree.encode(), save(tensors)]) + tree})


def unpack(path: Path) -> dict[str, Any]:
    """What ``pack`` packed; ``PyriteError`` if a single bit of it has changed."""
    try:
        with safe_open(path, framework="pt") as file:
            text = file.metadata()["state"]
            checksum, tree = text[:_DIGITS], text[_DIGITS:]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
        if digest([tree.encode(), save(tensors)]) != checksum:
            raise PyriteError("its checksum is wrong, so it has been changed or damaged")
        plain = json.loads(tree)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise PyriteError(
            f"cannot read the state {path}: {error}. The run cannot be resumed: restore the file or train again"
        ) from None

    def restored(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: restored(item) for key, item in value.items()}
        if isinstance(value, str) and value.startswith(_TENSOR):
            return tensors[value.removeprefix(_TENSOR)]
        if isinstance(value, str) and value.startswith(_ARRAY):
            return tensors[value.removeprefix(_ARRAY)].numpy()
        return value.removeprefix(_TEXT) if isinstance(value, str) else value

    state: dict[str, Any] = restored(plain)
    return state
