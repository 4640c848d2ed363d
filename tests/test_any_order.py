"""Train, stop, kill, resume, edit the data, audit, review, predict and damage files, in any order.

After any sequence a command must give the result that a fresh folder gives for the same data, or be refused in a
sentence. hypothesis finds the sequences and shortens those that fail.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from typer.testing import CliRunner, Result

import pyrite
from pyrite.cli.app import app
from tests import children

ROWS: Final = 64
FAST: Final = ("--epochs", "2", "--batch-size", "16", "--model", "mlp(hidden=[3])")
METHODS: Final = ("erm(gce(q=0.7))", "cross_fit(erm(ce), folds=2)", "elr")
FOLDERS: Final = ("one", "two")
FILES: Final = ("history.jsonl", "samples.npz", "labels.npz", "model.safetensors")
DAMAGED: Final = (*FILES, "run.json", "recipe.toml", "features.npz", "state/state.safetensors", "corrections.csv")
FEW: Final = {"max_examples": 12, "stateful_step_count": 12}
MANY: Final = {"max_examples": 150, "stateful_step_count": 30}


def original() -> pd.DataFrame:
    random = np.random.default_rng(0)
    a, city = random.normal(size=ROWS), random.choice(["Oslo", "Rome", "Lima"], ROWS)
    labels = np.where(a + 0.5 * random.normal(size=ROWS) > 0, "yes", "no")
    return pd.DataFrame({"a": a, "b": random.normal(size=ROWS), "city": city, "label": labels})


def relabelled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(label=np.where(np.arange(len(frame)) == 3, "no", frame.label))


EDITS: Final[dict[str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "put back": lambda frame: original(),
    "relabel": relabelled,
    "sort": lambda frame: frame.sort_values("a"),
    "fewer rows": lambda frame: frame[: ROWS - 5],
    "a number": lambda frame: frame.assign(b=np.where(np.arange(len(frame)) == 0, 9.5, frame.b)),
    "a category": lambda frame: frame.assign(city=np.where(np.arange(len(frame)) == 0, "Bonn", frame.city)),
    "another label": lambda frame: frame.assign(label=np.where(np.arange(len(frame)) == 5, "maybe", frame.label)),
}


class Killed(BaseException):
    """In place of SIGKILL: nothing catches it."""


@dataclass(frozen=True)
class Begun:
    """What is known of a folder: the data and the words that its run was begun with."""

    data: bytes
    words: tuple[str, ...]
    corrections: bytes
    finished: bool = True
    whole: bool = True  # neither damaged nor killed


class AnyOrder(RuleBasedStateMachine):
    """Two folders of runs, a table that changes, and decisions of a reviewer."""

    kills = False  # processes that are killed, beside exceptions in their place

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.before = Path.cwd()
        os.chdir(self.folder)
        self.frame = original()
        self.write()
        original().drop(columns="label").to_csv("new.csv", index=False)
        self.runs: dict[str, Begun] = {}
        self.others: dict[str, bytes] = {}  # the data of other commands, by what they make

    def teardown(self) -> None:
        os.chdir(self.before)
        shutil.rmtree(self.folder)

    def write(self) -> None:
        self.frame.to_csv("t.csv", index=False)

    @property
    def data(self) -> bytes:
        return Path("t.csv").read_bytes()

    def corrections(self, words: tuple[str, ...]) -> bytes:
        return Path("decisions.csv").read_bytes() if "--corrections" in words else b""

    # What is done to the files.

    @rule(edit=st.sampled_from(sorted(EDITS)))
    def edit(self, edit: str) -> None:
        self.frame = EDITS[edit](self.frame)
        self.write()

    @precondition(lambda self: self.runs)
    @rule(file=st.sampled_from(DAMAGED), how=st.sampled_from(["remove", "cut", "empty", "swap"]), data=st.data())
    def damage(self, file: str, how: str, data: st.DataObject) -> None:
        folder = data.draw(st.sampled_from(sorted(self.runs)))
        path, other = Path(folder, file), Path("two" if folder == "one" else "one", file)
        if not path.exists() or (how == "swap" and not other.exists()):
            return
        content = path.read_bytes()
        if how == "remove":
            path.unlink()
        else:
            new = {"cut": content[: len(content) // 2], "empty": b""}
            path.write_bytes(new[how] if how in new else other.read_bytes())
        self.runs[folder] = Begun(**vars(self.runs[folder]) | {"whole": False})

    @precondition(lambda self: self.runs)
    @rule(folder=st.sampled_from(FOLDERS))
    def remove(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.runs.pop(folder, None)

    # Commands.

    @rule(
        folder=st.sampled_from(FOLDERS),
        method=st.sampled_from(METHODS),
        command=st.sampled_from(["train", "audit"]),
        corrected=st.booleans(),
        steps=st.one_of(st.none(), st.integers(1, 9)),
        how=st.sampled_from(["stop", "kill"]),
    )
    def train(self, folder: str, method: str, command: str, corrected: bool, steps: int | None, how: str) -> None:
        words = (command, "t.csv", "--method", method, *FAST)
        words += ("--corrections", "decisions.csv") if corrected and Path("decisions.csv").exists() else ()
        begun = Begun(self.data, words, self.corrections(words))
        known = self.runs.get(folder)
        done = self.interrupted((*words, "--out", folder), steps, how)
        if done is None:  # killed
            if known is None and Path(folder, "recipe.toml").exists():
                self.runs[folder] = Begun(**vars(begun) | {"finished": False, "whole": False})
            elif known is not None and not known.finished:
                self.runs[folder] = Begun(**vars(known) | {"whole": False})
        elif done.exit_code == 130:
            assert known is None or (not known.finished and command == "audit")
            self.runs[folder] = Begun(**vars(known or begun) | {"finished": False})
        elif self.fine(done):
            if known is not None:
                assert command == "audit", "a folder with a run in it is not trained in"
                assert self.same(known, begun)
            self.runs[folder] = begun if known is None else Begun(**vars(known) | {"finished": True})
            self.check(folder)
        elif known is None:
            assert self.refused_afresh(begun), done.exception
        elif command == "audit" and known.whole and self.same(known, begun):
            raise AssertionError(f"refused: {done.exception}")

    @precondition(lambda self: self.runs)
    @rule(folder=st.sampled_from(FOLDERS), steps=st.one_of(st.none(), st.integers(1, 6)),
          how=st.sampled_from(["stop", "kill"]))  # fmt: skip
    def resume(self, folder: str, steps: int | None, how: str) -> None:
        known = self.runs.get(folder)
        if known is not None and not Path(folder, "run.json").exists() and not Path(folder, "state").exists():
            known = Begun(**vars(known) | {"data": self.data})  # the recipe alone: it begins now
        done = self.interrupted(("train", "--resume", folder), steps, how)
        if done is None:
            assert known is not None
            self.runs[folder] = Begun(**vars(known) | {"whole": False})
        elif done.exit_code == 130:
            assert known is not None
            assert known.data == self.data
        elif self.fine(done):
            assert known is not None
            self.runs[folder] = Begun(**vars(known) | {"finished": True})
            self.check(folder)
            assert known.data == self.data, "continued on other data"
        elif known is not None and known.whole and known.data == self.data:
            raise AssertionError(f"refused: {done.exception}")

    @precondition(lambda self: self.runs)
    @rule(folder=st.sampled_from(FOLDERS), reviewed=st.booleans())
    def audit(self, folder: str, reviewed: bool) -> None:
        known = self.runs.get(folder)
        more = ("--reviewed", "decisions.csv") if reviewed and Path("decisions.csv").exists() else ()
        if self.fine(done := self.call("audit", folder, *more)):
            assert known is not None
            assert known.data == self.data, "other rows beside the suspects"
            if known.finished:
                self.check(folder, "suspects.csv", words=more)
        elif known is not None and known.whole and known.finished and known.data == self.data and not more:
            raise AssertionError(f"refused: {done.exception}")

    @precondition(lambda self: any(Path(folder, "suspects.csv").exists() for folder in self.runs))
    @rule(decision=st.sampled_from(["keep", "relabel", "drop"]), data=st.data())
    def review(self, decision: str, data: st.DataObject) -> None:
        """As the page of an audit writes them: the three most suspect."""
        there = [folder for folder in self.runs if Path(folder, "suspects.csv").exists()]
        found = pd.read_csv(Path(data.draw(st.sampled_from(there)), "suspects.csv"), dtype=str)[:3]
        new = found.suggested if decision == "relabel" else ""
        table = pd.DataFrame({"index": found["index"], "old": found.given, "new": new, "decision": decision})
        table.loc[table.new == table.old, ["new", "decision"]] = "", "keep"
        table.to_csv("decisions.csv", index=False)

    @precondition(lambda self: self.runs)
    @rule(folder=st.sampled_from(FOLDERS))
    def predict(self, folder: str) -> None:
        known = self.runs.get(folder)
        Path("predictions.csv").unlink(missing_ok=True)
        if self.fine(done := self.call("predict", folder, "new.csv")):
            assert known is not None
            own = Path("predictions.csv").read_bytes()
            assert own == (fresh(known) / "predictions.csv").read_bytes(), "other predictions"
        elif known is not None and known.whole and known.finished:
            raise AssertionError(f"refused: {done.exception}")

    @rule(losses=st.sampled_from([("ce",), ("ce", "mae"), ("mae",)]))
    def compare(self, losses: tuple[str, ...]) -> None:
        words = ("compare", "t.csv", *losses, *FAST, "--out", "compared")
        self.again([f"compared {loss}" for loss in losses], words)

    @rule(trials=st.integers(1, 2))
    def tune(self, trials: int) -> None:
        self.again(["tuned"], ("tune", "t.csv", "ce", "--trials", str(trials), *FAST, "--out", "tuned"))

    def again(self, names: list[str], words: tuple[str, ...]) -> None:
        """A command that continues what its folder holds: of the same data, or not at all."""
        known = {self.others.get(name, self.data) for name in names}
        done = self.call(*words)
        assert self.fine(done) == (known == {self.data}), done.exception
        if done.exit_code == 0:
            self.others |= dict.fromkeys(names, self.data)

    # What holds after every command.

    def call(self, *words: str) -> Result:
        return CliRunner().invoke(app, list(words))

    def fine(self, done: Result) -> bool:
        """Whether a command did what it should; if not, it was refused in a sentence."""
        if done.exit_code and not isinstance(done.exception, pyrite.PyriteError | SystemExit):
            raise AssertionError(done.output) from done.exception
        return done.exit_code == 0

    def interrupted(self, words: tuple[str, ...], steps: int | None, how: str) -> Result | None:
        """A command that is stopped after some steps, or killed at a file that it writes; None if it was killed."""
        if steps is None:
            return self.call(*words)
        if how == "kill" and self.kills:
            code, output = children.run(*words, log=self.folder / "log", folder=self.folder, trouble=("half", steps))
            assert "Traceback" not in output, output
            error = pyrite.PyriteError(output) if code == 2 else None
            return None if code < 0 else Result(CliRunner(), b"", b"", b"", None, code, error)
        with pytest.MonkeyPatch.context() as patch:
            if how == "kill":
                patch.setattr(os, "replace", killed_at(steps))
            else:
                patch.setattr(pyrite.Trainer, "step", stopped_at(steps))
            with suppress(Killed):
                return self.call(*words)
        return None

    def same(self, known: Begun, other: Begun) -> bool:
        return (known.data, known.words, known.corrections) == (other.data, other.words, other.corrections)

    def refused_afresh(self, begun: Begun) -> bool:
        """Whether this would be refused in a new folder too."""
        try:
            fresh(begun)
        except Refused:
            return True
        return False

    def check(self, folder: str, *files: str, words: tuple[str, ...] = ()) -> None:
        """The results in a folder are those of a fresh one."""
        expected = fresh(self.runs[folder], words, Path("decisions.csv") if words else None)
        names = [*FILES, *files] if self.runs[folder].whole else [*files]
        for name in names:
            assert Path(folder, name).read_bytes() == (expected / name).read_bytes(), f"{name} is another"


class Refused(Exception):  # noqa: N818
    """What a fresh folder is refused for."""


_FRESH: Final[dict[Any, Path]] = {}


def fresh(begun: Begun, audit_words: tuple[str, ...] = (), decisions: Path | None = None) -> Path:
    """The results of the same command in a fresh folder, with an audit and predictions; made once."""
    reviewed = b"" if decisions is None else decisions.read_bytes()
    key = begun.data, begun.words, begun.corrections, audit_words, reviewed
    if key not in _FRESH:
        folder, before = Path(tempfile.mkdtemp()), Path.cwd()
        os.chdir(folder)
        try:
            Path("t.csv").write_bytes(begun.data)
            Path("decisions.csv").write_bytes(begun.corrections)
            original().drop(columns="label").to_csv("new.csv", index=False)
            done = CliRunner().invoke(app, [*begun.words, "--out", "run"])
            if done.exit_code:
                raise Refused(done.exception)
            Path("decisions.csv").write_bytes(reviewed)
            CliRunner().invoke(app, ["audit", "run", *audit_words])
            CliRunner().invoke(app, ["predict", "run", "new.csv", "--out", "run/predictions.csv"])
        finally:
            os.chdir(before)
        _FRESH[key] = folder / "run"
    return _FRESH[key]


def killed_at(count: int) -> Callable[..., None]:
    left, replace = [count], os.replace

    def replaced(source: Any, target: Any) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Killed
        replace(source, target)

    return replaced


def stopped_at(count: int) -> Callable[..., Any]:
    """``Trainer.step``, after which Ctrl-C is pressed the n-th time that it is called."""
    import signal

    left, step = [count], pyrite.Trainer.step

    def stepped(self: pyrite.Trainer, *given: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return step(self, *given, **more)

    return stepped


class WithProcesses(AnyOrder):
    kills = True


def explore(machine: type[AnyOrder], **limits: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    # Shortening takes minutes, as every step trains: it is for whoever repairs what was found.
    phases = tuple(Phase) if "PYRITE_SHRINK" in os.environ else (Phase.generate,)
    options = settings(deadline=None, suppress_health_check=checks, database=None, phases=phases, **limits)
    run_state_machine_as_test(machine, settings=options)  # type: ignore[no-untyped-call]


@pytest.mark.filterwarnings("ignore")
def test_any_order_is_right_or_refused() -> None:
    explore(AnyOrder, **FEW)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_any_order_of_many_with_processes_that_are_killed() -> None:
    explore(WithProcesses, **MANY)
