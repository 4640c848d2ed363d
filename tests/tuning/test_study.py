"""Several processes on one search, and processes that are killed. The processes are real, and so is the kill."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite.files import acquire
from pyrite.training import RunFailed
from pyrite.tuning.result import CRITERIA, Tuning
from pyrite.tuning.space import Space
from pyrite.tuning.study import Claim, Study, read_study
from tests.children import differing, run, start

WORDS = ["tune", "digits", "ce", "gce(q=between(0.1, 0.9))", "--noise", "symmetric(0.4)", "--samples", "200"]
WORDS += ["--model", "mlp(hidden=[8])"]


def trials(out: Path) -> list[dict[str, Any]]:
    """All that is known of the trials but the time of day."""
    stored = read_study(out).trials
    known = ("state", "value", "params", "user_attrs", "intermediate_values")
    return [{name: getattr(trial, name) for name in known} for trial in stored]


def states(out: Path) -> list[str]:
    return [trial["state"].name for trial in trials(out)]


def appears(path: Path, process: Any) -> None:
    while not path.exists():
        assert process.is_alive()
        time.sleep(0.005)


def locked(out: Path, name: str) -> bool:
    release = acquire(out / "locks" / name)
    if release is not None:
        release()
    return release is None


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trials by one process that nobody disturbs."""
    folder = tmp_path_factory.mktemp("alone")
    code, said = run(*WORDS, "--epochs", "25", "--trials", "3", "--out", str(folder / "out"), log=folder / "log")
    assert code == 0, said
    return folder / "out"


def test_killed_and_gone_on_with(alone: Path, tmp_path: Path) -> None:
    """What a killed process was at is taken up, and ends with the same bytes; the rest is as it would have been."""
    out = tmp_path / "out"
    words = [*WORDS, "--epochs", "25", "--trials", "3", "--out", str(out)]
    first = start(*words, log=tmp_path / "first")
    appears(out / "trial-0001" / "state" / "state.safetensors", first)
    assert locked(out, "trial-0001")
    os.kill(first.pid or 0, signal.SIGKILL)
    first.join()
    assert first.exitcode == -signal.SIGKILL
    assert states(out) == ["RUNNING"]
    assert not locked(out, "trial-0001")
    assert not (out / "trial-0001" / "model.safetensors").exists()
    code, said = run(*words, log=tmp_path / "second")
    assert code == 0, said
    assert trials(out) == trials(alone)
    assert states(out) == ["COMPLETE"] * 3
    for number in (1, 2, 3):
        assert differing(alone / f"trial-{number:04d}", out / f"trial-{number:04d}") == []


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    """Every trial is trained once, by one of them; both come to the same end."""
    out = tmp_path / "out"
    words = [*WORDS, "--epochs", "4", "--no-prune", "--trials", "5", "--out", str(out)]
    workers = [start(*words, log=tmp_path / name) for name in ("one", "two")]
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0, (tmp_path / "one").read_text() + (tmp_path / "two").read_text()
    logs = [(tmp_path / name).read_text() for name in ("one", "two")]
    trained = [[int(number) for number in re.findall(r"^trial (\d+)/5  ", log, flags=re.MULTILINE)] for log in logs]
    assert sorted(trained[0] + trained[1]) == [1, 2, 3, 4, 5]
    assert all(trained), "one process did all the work"
    assert states(out) == ["COMPLETE"] * 5
    assert len({tuple(trial["user_attrs"][name] for name in ("method", "lr")) for trial in trials(out)}) == 5
    choices = [re.findall(r"^.* has the best accuracy, .* of 5 trials\.$", log, flags=re.MULTILINE) for log in logs]
    assert choices[0] == choices[1] != []


def test_who_waits_for_another_takes_over_if_that_dies(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*WORDS, "--epochs", "60", "--trials", "1", "--out", str(out)]
    first = start(*words, log=tmp_path / "first")
    appears(out / "trial-0001" / "state" / "state.safetensors", first)
    os.kill(first.pid or 0, signal.SIGSTOP)  # or it might be done before the second has started
    second = start(*words, log=tmp_path / "second")
    time.sleep(2)  # in which it finds that there is nothing left to do but to wait
    assert second.is_alive()
    os.kill(first.pid or 0, signal.SIGKILL)
    first.join()
    second.join(120)
    assert second.exitcode == 0, (tmp_path / "second").read_text()
    assert states(out) == ["COMPLETE"]
    assert len(pyrite.Run.load(out / "trial-0001").history) == 60


def test_stopped_by_ctrl_c_it_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(*WORDS, "--epochs", "200", "--trials", "2", "--out", str(out), log=tmp_path / "log")
    appears(out / "trial-0001" / "state" / "state.safetensors", process)
    os.kill(process.pid or 0, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 130
    assert f"pyrite: stopped and saved; the same command continues {out}" in (tmp_path / "log").read_text()
    assert states(out) == ["RUNNING"]
    assert not locked(out, "trial-0001")


# --- the folder itself ----------------------------------------------------------------------------------------------


def opened(path: Path, settings: dict[str, Any] | None = None) -> Study:
    return Study(path, settings or {}, Space(["gce(q=between(0.1, 0.9))"]), CRITERIA["accuracy"], seed=0, epochs=1)


def claimed(study: Study, limit: int) -> Claim | None:
    return study.claim(limit, lambda method, rate: (str(method), 0.1))


def test_a_trial_belongs_to_one(tmp_path: Path) -> None:
    study = opened(tmp_path)
    first, second = claimed(study, 2), claimed(opened(tmp_path), 2)
    assert first is not None
    assert second is not None
    assert (first.trial.number, second.trial.number) == (1, 2)
    first.release()  # left behind, not finished
    again = claimed(study, 2)
    assert again is not None
    assert again.trial == first.trial
    study.finish(again.trial, "complete", (0.5,))
    again.release()
    study.finish(second.trial, "pruned", (0.25,))
    second.release()
    assert claimed(study, 2) is None
    assert [(one.state, one.value) for one in opened(tmp_path).trials()] == [("complete", 0.5), ("pruned", None)]


def test_a_trial_that_ends_while_one_looks_is_not_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading of the journal and the lock its process may finish it."""
    study = opened(tmp_path)
    held = claimed(study, 1)
    assert held is not None
    read = study.trials

    def read_and_then_it_ends() -> Any:
        found = read()
        monkeypatch.undo()
        study.finish(held.trial, "complete", (0.5,))
        held.release()
        return found

    monkeypatch.setattr(study, "trials", read_and_then_it_ends)
    assert claimed(study, 1) is None


def test_a_line_that_was_cut_off_is_forgotten_and_a_broken_journal_named(tmp_path: Path) -> None:
    claim = claimed(opened(tmp_path), 1)
    assert claim is not None
    journal = tmp_path / "study.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code":9,"tri')  # killed while it wrote
    study = opened(tmp_path)
    assert [trial.state for trial in study.trials()] == ["running"]
    study.finish(claim.trial, "complete", (0.5,))
    assert [trial.value for trial in opened(tmp_path).trials()] == [0.5]
    journal.write_bytes(b"{\n" + whole)
    with pytest.raises(ValueError, match=r"cannot read .*study.journal"):
        opened(tmp_path)


def edits(entry: Any) -> Iterator[Any]:
    """Every copy of a line of the journal in which one value is another, or missing."""
    items = list(entry.items() if isinstance(entry, dict) else enumerate(entry)) if entry else []
    for key, value in items:
        yield {name: kept for name, kept in items if name != key}
        for other in (None, "x", -1, 10**400, [], {}, "nan"):
            yield dict(items) | {key: other}
        if isinstance(value, dict):
            yield from (dict(items) | {key: inner} for inner in edits(value))


def test_an_edited_journal_is_one_sentence(tmp_path: Path) -> None:
    study = opened(tmp_path, {"methods": ["gce"]})
    for state in ("complete", "failed"):
        claim = claimed(study, 2)
        assert claim is not None
        study.finish(claim.trial, state, (0.5,), reason="none")
        claim.release()
    journal = tmp_path / "study.journal"
    lines = journal.read_text().splitlines()
    refused = 0
    for place, line in enumerate(lines):
        changes = [json.dumps(entry) for entry in edits(json.loads(line))]
        for changed in ([], [line, line], [lines[place - 1]], ["[]"], ["\x00"], *([change] for change in changes)):
            journal.write_text("".join(f"{each}\n" for each in (*lines[:place], *changed, *lines[place + 1 :])))
            try:
                again = opened(tmp_path, {"methods": ["gce"]})
                claimed(again, 2)
                Tuning(tmp_path, "accuracy", again.trials(), again.space, None, {}).to_markdown()
                read_study(tmp_path)
            except (pyrite.PyriteError, RunFailed):
                refused += 1
    assert refused > 200


def test_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(RunFailed, match="cannot write to /proc/nowhere"):
        opened(Path("/proc/nowhere"))
