"""The folder of a search: a file for each trial, and locks by which several processes share the work.

Nothing is kept anywhere else. A trial belongs to the process that holds its lock; the kernel takes the lock from a
process that dies, however it dies, so that a trial that says it is running and is not locked has been left behind.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, final

from pyrite.files import write
from pyrite.locks import LocksMissingError, acquire
from pyrite.training import RunFailed

__all__ = ["Claim", "Study", "Trial"]

State = Literal["running", "complete", "pruned", "failed"]


@final
@dataclass(frozen=True)
class Trial:
    """One choice of method, parameters and learning rate, and what came of it.

    Attributes:
        number: from 1; its run is in the folder ``trial-0007``.
        method: spelled out, such as ``erm(gce(q=0.53))``.
        lr: the learning rate.
        params: what was chosen, by the names of the ranges.
        state: ``running``, ``complete``, ``pruned`` (ended early, as others did better) or ``failed`` (it diverged).
        values: the criterion on held-out given labels after each epoch.
        test_accuracy: at the end, where there is a test part; nothing is chosen by it.
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
        """The criterion at the end, of trials that came to their end."""
        return self.values[-1] if self.state == "complete" else None

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"trial-{self.number:04d}"


@final
@dataclass(frozen=True)
class Claim:
    """A trial that this process alone works on, until it gives it back."""

    trial: Trial
    release: Callable[[], None]


@final
class Study:
    """What is in the folder of a search."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, settings: Mapping[str, Any]) -> None:
        """Begin a search with these settings, or go on with one that has the same; any other folder is refused."""
        problem = self._foreign()
        if problem:
            raise ValueError(problem)
        plain = json.loads(json.dumps(settings))
        with _failures(self.path), self._alone():
            held = self._settings()
            if held is None:
                write(self.path / "study.json", (json.dumps(plain, indent=2) + "\n").encode())
            elif held != plain:
                differ = [name for name in {**plain, **held} if plain.get(name) != held.get(name)]
                raise ValueError(f"{self.path} holds a search with other {', '.join(differ)}: choose another out")

    def trials(self) -> tuple[Trial, ...]:
        """All that were begun, by their numbers."""
        read = map(_read, self.path.glob("trial-*.json"))
        return tuple(sorted(read, key=lambda trial: trial.number))

    def claim(self, ask: Callable[[tuple[Trial, ...]], Trial | None]) -> Claim | None:
        """A trial to work on: one that a dead process has left, or a new one; None if there is nothing left to do.

        While others still work on the last ones it waits: if one of them dies, its trial has to be taken up.

        Args:
            ask: makes a new trial after those that there are, if there is to be one.
        """
        while True:
            with _failures(self.path), self._alone():
                trials = self.trials()
                running = [trial for trial in trials if trial.state == "running"]
                for trial in running:
                    release = self._hold(trial.name, wait=False)
                    if release is None:
                        continue
                    # Its process may have finished it, and then let it go, since the files were read.
                    left = _read(self.path / f"{trial.name}.json")
                    if left.state == "running":
                        return Claim(left, release)
                    release()
                new = ask(trials)
                if new is not None:
                    release = self._hold(new.name, wait=False)
                    assert release is not None, f"{new.name} is new, so nobody holds it"
                    self.record(new)
                    return Claim(new, release)
            if not running:
                return None
            with _failures(self.path):
                done = self._hold(running[0].name, wait=True)
                assert done is not None
                done()

    def record(self, trial: Trial) -> None:
        """Write down what is known of a trial. Only the process that it belongs to does."""
        with _failures(self.path):
            path = write(self.path / f"{trial.name}.json", (json.dumps(asdict(trial), indent=2) + "\n").encode())
            for part in self.path.glob(f".{path.name}.*.part"):  # what a killed process had begun
                part.unlink(missing_ok=True)

    def finish(self, trial: Trial, **outcome: Any) -> Trial:
        """Write down what came of a trial."""
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
            raise ValueError(f"cannot read {path}: {error}") from None

    def _foreign(self) -> str:
        """Why the folder cannot be taken. One that another process is about to begin with has locks alone."""
        if self.path.exists() and not self.path.is_dir():
            return f"{self.path} is not a folder: choose another out"
        if not self.path.exists() or (self.path / "study.json").exists():
            return ""
        held = [one.name for one in self.path.iterdir() if one.name != "locks" and not one.name.endswith(".part")]
        # It may have begun since the question above.
        known = not held or (self.path / "study.json").exists()
        return "" if known else f"{self.path} is not empty, and holds no search: choose another out"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time decides."""
        release = self._hold("study", wait=True)
        assert release is not None
        try:
            yield
        finally:
            release()

    def _hold(self, name: str, wait: bool) -> Callable[[], None] | None:
        """Take a lock, which ends with this process at the latest; None if another process has it."""
        try:
            return acquire(self.path / "locks" / name, wait=wait)
        except LocksMissingError as error:
            raise ValueError(f"tuning shares its folder by file locks: {error}") from None


def _read(path: Path) -> Trial:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return Trial(**held | {"values": tuple(held["values"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """A disk that is full, or a folder that may not be written to."""
    try:
        yield
    except OSError as error:
        raise RunFailed(f"cannot write to {path}: {error.strerror or error}; what is there is whole") from None
