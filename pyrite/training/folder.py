"""A run's folder during training: what is written to it, and when."""

import json
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

import pyrite
from pyrite.data import Unreadable
from pyrite.errors import PyriteError
from pyrite.files import npz_bytes, write
from pyrite.methods import Step
from pyrite.processes import all_gather, rank, world_size
from pyrite.training.build import Running
from pyrite.training.divergence import divergence
from pyrite.training.loop import RunFailed
from pyrite.training.run_files import read_json, read_npz
from pyrite.training.state import pack, unpack

__all__ = ["Folder"]


@final
class Folder:
    """An observer that keeps the folder up to date. Process 0 alone writes.

    The state is written before the results, and contains them: a run that is killed in between writes the same results
    when it is resumed.
    """

    def __init__(self, path: Path, running: Running) -> None:
        self.path, self.running, self.config = path, running, running.job.config
        self.seconds, self._since = 0.0, time.perf_counter()

    def begin(self) -> None:
        """Write what is known before the first step; the recipe first, because a resume needs it."""
        corrections, features = self.running.corrections, self.running.features
        self._write(
            lambda: {
                "recipe.toml": self.config.to_toml().encode(),
                **({"corrections.csv": corrections} if corrections else {}),
                **({"features.npz": features} if features else {}),
                "labels.npz": npz_bytes(self.running.labels),
                "run.json": self._facts(),
            }
        )

    def resume(self) -> None:
        """Load the saved state; start from the beginning if there is none."""
        path = self.path / "state" / "state.safetensors"
        saved, labelled = all_gather((path.exists(), (self.path / "labels.npz").exists()))[0]
        if saved or labelled:
            self._check_labels()
            self._check_facts()
        if not saved:
            return self.begin()
        state = unpack(path)
        if state["recipe"] != self.config.to_dict():
            raise PyriteError(f"{path} belongs to a run with another recipe than {self.path / 'recipe.toml'}")
        self.seconds = state["seconds"]
        try:
            self.running.trainer.load_state_dict(state["trainer"])
        except (RuntimeError, KeyError) as error:  # what was handed over is not what it was
            reason = " ".join(str(error).split())
            raise PyriteError(f"{path} does not fit the net or the method: {reason}") from None
        self.running.batches.load_state_dict(state["batches"])
        self.running.record.load_state_dict(state["record"])
        unreadable = {path: Unreadable(path, reason) for path, reason in state["unreadable"].items()}
        self.running.batches.unreadable |= unreadable

    def _check_labels(self) -> None:
        path, now = self.path / "labels.npz", self.running.labels
        began = read_npz(path)
        if list(began) != list(now) or not all(np.array_equal(began[name], now[name]) for name in now):
            raise PyriteError(f"the labels of {self.config.data} are not those in {path}")

    def _check_facts(self) -> None:
        """Raise ``ValueError`` if the inputs have changed; warn of what changes the last digits of results."""
        path = self.path / "run.json"
        if not path.exists():
            return
        began = read_json(path, threads=int, processes=int)
        now = json.loads(json.dumps(self.running.facts))
        changed = [name for name, value in now.items() if began.get(name) != value]
        if changed:
            raise PyriteError(f"the inputs of {self.config.data} are not those of {path}: other {', '.join(changed)}")
        for name, value in (("threads", torch.get_num_threads()), ("processes", world_size())):
            if began[name] != value:
                text = f"{self.path} was begun with {began[name]} {name}, not {value}: the last digits will differ"
                warnings.warn(text, stacklevel=4)

    def after_step(self, step: Step) -> None:
        every = self.config.checkpoint_every
        if every and self.running.record.steps % every == 0:
            self.save()

    def after_epoch(self, epoch: int) -> None:
        self.save()
        self.write_results()

    def save(self) -> None:
        """Write the current state."""
        self.running.record.merge()
        self._write(lambda: {"state/state.safetensors": pack(self._state())})

    def _state(self) -> dict[str, Any]:
        return {
            "recipe": self.config.to_dict(),
            "seconds": self._elapsed(),
            "batches": self.running.batches.state_dict(),
            "trainer": self.running.trainer.state_dict(),
            "record": self.running.record.state_dict(),
            "unreadable": {entry.path: entry.reason for entry in self.running.batches.unreadable.values()},
        }

    def write_results(self) -> None:
        """Write the history, the samples and the method's arrays."""
        self._write(self._results)

    def _results(self) -> dict[str, bytes]:
        history = "".join(json.dumps(line) + "\n" for line in self.running.record.history).encode()
        files = {"history.jsonl": history, "samples.npz": npz_bytes(self.running.record.arrays())}
        learned = self.running.trainer.arrays()
        return files | {"method.npz": npz_bytes(learned)} if learned else files

    def finish(self) -> None:
        """Write the model, and everything that is known at the end."""
        self.write_results()
        warned = divergence(self.running.record.history)
        saved = self.running.evaluation.saved(self.running.record.history)
        last = {}
        if saved["epoch"] != len(self.running.record.history):
            last["last.safetensors"] = self._model()
            self.running.evaluation.restore_best()
        results = {"saved": saved, **self.running.at_the_end()}
        nets = len(self.running.trainer.predictors)
        self._write(
            lambda: {
                "model.safetensors": self._model(),
                **last,
                "run.json": self._facts(finished=True, warned=warned, nets=nets, **results),
            }
        )

    def _model(self) -> bytes:
        return save(_plain(self.running.trainer.model.state_dict()))

    def _write(self, contents: Callable[[], dict[str, bytes]]) -> None:
        """Write files by their names, in this order. All processes wait for it, and fail together."""
        problem = all_gather(self._try_to_write(contents()) if rank() == 0 else "")[0]
        if problem:
            raise RunFailed(problem)

    def _try_to_write(self, contents: dict[str, bytes]) -> str:
        """An error message; empty if all is written."""
        for name, content in contents.items():
            try:
                path = write(self.path / name, content)
                for part in path.parent.glob(f".{path.name}.*.part"):  # left by a killed process
                    part.unlink(missing_ok=True)
            except OSError as error:
                saved = (self.path / "state" / "state.safetensors").exists()
                hint = f". The last checkpoint is whole: pyrite train --resume {self.path}" if saved else ""
                return f"cannot write {self.path / name}: {error.strerror or error}{hint}"
        return ""

    def _facts(self, finished: bool = False, warned: Sequence[str] = (), **results: Any) -> bytes:
        facts: dict[str, Any] = {
            "finished": finished,
            "warnings": [*self.running.warnings, *warned],
            "seconds": round(self._elapsed(), 3),
            "seed": self.config.seed,
            "recipe": self.config.to_dict(),
            "command": sys.argv,
            "git": _git_hash(),
            "processes": world_size(),
            "threads": torch.get_num_threads(),
            "versions": {
                "pyrite": pyrite.__version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            **self.running.facts,
            **results,
        }
        return (json.dumps(facts, indent=2) + "\n").encode()

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self._since


def _git_hash() -> str | None:
    """The commit of the working directory, if it is in a git repository."""
    with suppress(OSError):  # there may be no git
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None
    return None


def _plain(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in state.items()}
