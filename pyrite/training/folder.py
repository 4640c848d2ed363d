"""A run's folder while the run goes on: what is written to it, and when."""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

import pyrite
from pyrite.files import npz_bytes, write
from pyrite.methods import Step
from pyrite.processes import count, rank
from pyrite.training.assembly import Parts
from pyrite.training.loop import RunFailed
from pyrite.training.recipe import Recipe
from pyrite.training.state import pack, unpack

__all__ = ["Folder"]


@final
class Folder:
    """An observer that keeps the folder up to date. Process 0 alone writes.

    The state comes first, and after it the results, which the state holds too: a run that is killed in between writes
    the same results when it goes on.
    """

    def __init__(self, path: Path, recipe: Recipe, parts: Parts) -> None:
        self.path, self.recipe, self.parts = path, recipe, parts
        self.seconds, self._since = 0.0, time.perf_counter()

    def begin(self) -> None:
        """A new folder, with what is known before the first step."""
        if rank() == 0:
            self._write("labels.npz", npz_bytes(self.parts.labels))
            self._write("recipe.toml", self.recipe.to_toml().encode())
            self._write_facts()

    def resume(self) -> None:
        """Go on where the folder says that the run stood; at the beginning if it was never saved."""
        with np.load(self.path / "labels.npz") as held:
            changed = [name for name in held if not np.array_equal(held[name], self.parts.labels.get(name, ()))]
        if changed or len(held.files) != len(self.parts.labels):
            raise ValueError(f"the labels of {self.recipe.data} are not those in {self.path / 'labels.npz'}")
        path = self.path / "state" / "state.safetensors"
        if not path.exists():
            return
        state, learner = unpack(path), self.parts.method.learner
        learner.model.load_state_dict(state["model"])
        held_by = {int(number): entry for number, entry in state["optimiser"].items()}
        learner.optimiser.load_state_dict(
            {"state": held_by, "param_groups": learner.optimiser.state_dict()["param_groups"]}
        )
        learner.steps, self.seconds = state["steps"], state["seconds"]
        self.parts.method.load_state_dict(state["method"])
        self.parts.batches.load_state_dict(state["batches"])
        self.parts.recorder.load_state_dict(state["recorder"])

    def after_step(self, step: Step) -> None:
        every, steps = self.recipe.checkpoint_every, self.parts.method.learner.steps
        if every and steps % every == 0:
            self.save()

    def after_epoch(self, epoch: int) -> None:
        self.save()
        self.write_results()

    def save(self) -> None:
        """The state, as it is now."""
        self.parts.recorder.share()
        if rank():
            return
        learner = self.parts.method.learner
        state = {
            "steps": learner.steps,
            "seconds": self._elapsed(),
            "batches": self.parts.batches.state_dict(),
            "model": learner.model.state_dict(),
            "optimiser": {str(number): held for number, held in learner.optimiser.state_dict()["state"].items()},
            "method": self.parts.method.state_dict(),
            "recorder": self.parts.recorder.state_dict(),
        }
        self._write("state/state.safetensors", pack(state))

    def write_results(self) -> None:
        """History and samples."""
        if rank():
            return
        recorder = self.parts.recorder
        self._write("history.jsonl", "".join(json.dumps(line) + "\n" for line in recorder.history).encode())
        histograms = recorder.observer.histograms
        arrays = recorder.observer.evidence.arrays() | {"margin_edges": histograms.edges, "margins": histograms.all}
        arrays |= {} if histograms.noisy is None else {"noisy_margins": histograms.noisy}
        self._write("samples.npz", npz_bytes(arrays))
        if learned := self.parts.method.arrays():
            self._write("method.npz", npz_bytes(learned))

    def finish(self, warnings: list[str]) -> None:
        """The model, and all that is known at the end."""
        self.write_results()
        if rank() == 0:
            self._write("model.safetensors", save(_plain(self.parts.method.learner.model.state_dict())))
            self._write_facts(finished=True, warnings=warnings, **self.parts.at_the_end())

    def _write(self, name: str, content: bytes) -> None:
        try:
            write(self.path / name, content)
        except OSError as error:
            reason = f"cannot write {self.path / name}: {error.strerror or error}"
            saved = (self.path / "state" / "state.safetensors").exists()
            hint = f". The last checkpoint is whole: pyrite train --resume {self.path}" if saved else ""
            raise RunFailed(reason + hint) from None

    def _write_facts(self, finished: bool = False, warnings: Sequence[str] = (), **found: Any) -> None:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        facts: dict[str, Any] = {
            "finished": finished,
            "warnings": list(warnings),
            "seconds": round(self._elapsed(), 3),
            "seed": self.recipe.seed,
            "command": sys.argv,
            "git": done.stdout.strip() or None,
            "processes": count(),
            "threads": torch.get_num_threads(),
            "versions": {
                "pyrite": pyrite.__version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            **self.parts.facts,
            **found,
        }
        self._write("run.json", (json.dumps(facts, indent=2) + "\n").encode())

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self._since


def _plain(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in state.items()}
