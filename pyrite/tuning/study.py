"""The folder of a search: one file per trial, and locks by which several processes share the work.

There is no other state. A trial belongs to the process that has its lock. The kernel releases the locks of a process
that ends, however it ends, so a trial whose file has the state "running" but which is not locked was abandoned.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, final

from pyrite.errors import PyriteError
from pyrite.files import write
from pyrite.locks import acquire
from pyrite.training import RunFailed

__all__ = ["Claim", "Study", "Trial"]

State = Literal["running", "complete", "pruned", "failed"]


@final
@dataclass(frozen=True)
class Trial:
    """One choice of method, parameters and learning rate, and its outcome.

    Attributes:
        number: from 1; its run is in the folder ``trial-0007``.
        method: spelled out, such as ``erm(gce(q=0.53))``.
        lr: the learning rate.
        params: the chosen values, by the names of the ranges.
        state: ``running``, ``complete``, ``pruned`` (ended early, others did better) or ``failed`` (it diverged).
        values: the criterion on held-out given labels after each epoch.
        test_accuracy: at the end, if there is a test part; it does not influence the choice.
        reason: why it failed.
    """

    number: int
    method: str
    lr: float
    params: Mapping[str, Any]
    state: State = "running"
    values: tuple[float, ...] = ()
    test_accuracy: float | None = None
    reason: str = ""

    @property
    def value(self) -> float | None:
        """The criterion at the end; None if the trial is not complete."""
        return self.values[-1] if self.state == "complete" else None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"trial-{self.number:04d}"


@final
@dataclass(frozen=True)
class Claim:
    """A trial that this process alone works on, until it is released."""

    trial: Trial
    release: Callable[[], None]


@final
class Study:
    """The folder of a search."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, settings: Mapping[str, Any]) -> None:
        """Begin a search with these settings, or continue one with the same; ``ValueError`` for any other folder."""
        problem = self._foreign()
        if problem:
            raise PyriteError(problem)
        plain = json.loads(json.dumps(settings))
        with _failures(self.path), self._exclusive():
            written = self._settings()
            if written is None:
                write(self.path / "study.json", (json.dumps(plain, indent=2) + "\n").encode())
            elif written != plain:
                differ = [name for name in {**plain, **written} if plain.get(name) != written.get(name)]
                raise PyriteError(f"{self.path} holds a search with other {', '.join(differ)}: choose another out")

    def trials(self) -> tuple[Trial, ...]:
        """All trials that were begun, by their numbers."""
        read = map(_read, self.path.glob("trial-*.json"))
        return tuple(sorted(read, key=lambda trial: trial.number))

    def claim(self, ask: Callable[[tuple[Trial, ...]], Trial | None]) -> Claim | None:
        """A trial to work on: one that a process abandoned, or a new one; None if there is nothing left to do.

        While other processes work on the last trials it waits: if one of them ends, its trial has to be continued.

        Args:
            ask: from the existing trials to a new one; None if there is to be none.
        """
        while True:
            with _failures(self.path), self._exclusive():
                trials = self.trials()
                running = [trial for trial in trials if trial.state == "running"]
                for trial in running:
                    release = self._lock(trial.name, wait=False)
                    if release is None:
                        continue
                    # Its process may have finished and released it since the files were read.
                    current = _read(self.path / f"{trial.name}.json")
                    if current.state == "running":
                        return Claim(current, release)
                    release()
                new = ask(trials)
                if new is not None:
                    release = self._lock(new.name, wait=False)
                    assert release is not None, f"{new.name} is new, so no process has its lock"
                    self.record(new)
                    return Claim(new, release)
            if not running:
                return None
            with _failures(self.path):
                release = self._lock(running[0].name, wait=True)
                assert release is not None
                release()

    def record(self, trial: Trial) -> None:
        """Write a trial's file. Only the process that the trial belongs to may do so."""
        with _failures(self.path):
            path = write(self.path / f"{trial.name}.json", (json.dumps(asdict(trial), indent=2) + "\n").encode())
            for part in self.path.glob(f".{path.name}.*.part"):  # left by a killed process
                part.unlink(missing_ok=True)

    def finish(self, trial: Trial, **outcome: Any) -> Trial:
        """Write the outcome of a trial."""
        ended = replace(trial, **outcome)
        self.record(ended)
        return ended

    def _settings(self) -> Any:
        path = self.path / "study.json"
        if not path.exists():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise PyriteError(f"cannot read {path}: {error}") from None

    def _foreign(self) -> str:
        """The reason why the folder cannot be used; empty if it can. A search that is just beginning has only locks."""
        if self.path.exists() and not self.path.is_dir():
            return f"{self.path} is not a folder: choose another out"
        if not self.path.exists() or (self.path / "study.json").exists():
            return ""
        names = [file.name for file in self.path.iterdir() if file.name != "locks" and not file.name.endswith(".part")]
        # Another process may have begun the search since the check above.
        usable = not names or (self.path / "study.json").exists()
        return "" if usable else f"{self.path} is not empty, and holds no search: choose another out"

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """A context that only one process at a time can enter."""
        release = self._lock("study", wait=True)
        assert release is not None
        try:
            yield
        finally:
            release()

    def _lock(self, name: str, wait: bool) -> Callable[[], None] | None:
        """Take a lock, which the end of this process releases too; None if another process has it."""
        return acquire(self.path / "locks" / name, wait=wait)


def _read(path: Path) -> Trial:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Trial(**fields | {"values": tuple(fields["values"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise PyriteError(f"cannot read {path}: {error}") from None


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Turn errors of writing, such as a full disk, into ``RunFailed``."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"cannot write to {path}: {error.strerror or error}; its files are complete") from None
