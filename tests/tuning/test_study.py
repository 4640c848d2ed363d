"""Several processes on one search, and processes that are killed. The processes are real, and so is the kill."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite.training import RunFailed
from pyrite.tuning.study import Claim, Study, Trial
from tests.children import differing, run, start

WORDS = ["tune", "digits", "ce", "gce(q=between(0.1, 0.9))", "--noise", "symmetric(0.4)", "--samples", "200"]
WORDS += ["--model", "mlp(hidden=[8])"]


def trial(out: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / f"trial-{number:04d}.json").read_text())
    return found


def appears(path: Path, process: Any) -> None:
    while not path.exists():
        assert process.is_alive()
        time.sleep(0.005)


def locked(out: Path, name: str) -> bool:
    release = Study(out)._lock(name, wait=False)
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
    assert trial(out, 1)["state"] == "running"
    assert not locked(out, "trial-0001")
    assert not (out / "trial-0001" / "model.safetensors").exists()
    code, said = run(*words, log=tmp_path / "second")
    assert code == 0, said
    for number in (1, 2, 3):
        assert trial(out, number) == trial(alone, number)
        assert differing(alone / f"trial-{number:04d}", out / f"trial-{number:04d}") == []
    assert not (out / "trial-0004.json").exists()


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
    assert [trial(out, number)["state"] for number in range(1, 6)] == ["complete"] * 5
    assert len({(trial(out, number)["method"], trial(out, number)["lr"]) for number in range(1, 6)}) == 5
    assert not (out / "trial-0006.json").exists()
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
    assert trial(out, 1)["state"] == "complete"
    assert len(pyrite.Run.load(out / "trial-0001").history) == 60
    assert not (out / "trial-0002.json").exists()


def test_stopped_by_ctrl_c_it_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(*WORDS, "--epochs", "200", "--trials", "2", "--out", str(out), log=tmp_path / "log")
    appears(out / "trial-0001" / "state" / "state.safetensors", process)
    os.kill(process.pid or 0, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 130
    assert f"pyrite: stopped and saved; the same command continues {out}" in (tmp_path / "log").read_text()
    assert trial(out, 1)["state"] == "running"
    assert not locked(out, "trial-0001")


# --- the folder itself ----------------------------------------------------------------------------------------------


def claimed(study: Study, limit: int) -> Claim | None:
    return study.claim(lambda trials: Trial(len(trials) + 1, "erm(ce)", 0.1, {}) if len(trials) < limit else None)


def test_a_trial_belongs_to_one(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.open({"by": "accuracy"})
    first, second = claimed(study, 2), claimed(study, 2)
    assert first is not None
    assert second is not None
    assert (first.trial.number, second.trial.number) == (1, 2)
    first.release()  # left behind, not finished
    again = claimed(study, 2)
    assert again is not None
    assert again.trial == first.trial
    study.finish(again.trial, state="complete", values=(0.5,))
    again.release()
    study.finish(second.trial, state="pruned", values=(0.25,))
    second.release()
    assert claimed(study, 2) is None
    assert [(one.state, one.value) for one in study.trials()] == [("complete", 0.5), ("pruned", None)]


def test_a_trial_that_ends_while_one_looks_is_not_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading of the files and the lock its process may finish it."""
    study = Study(tmp_path)
    study.open({})
    held = claimed(study, 1)
    assert held is not None
    read = study.trials

    def read_and_then_it_ends() -> tuple[Trial, ...]:
        found = read()
        study.finish(held.trial, state="complete", values=(0.5,))
        held.release()
        monkeypatch.undo()
        return found

    monkeypatch.setattr(study, "trials", read_and_then_it_ends)
    assert claimed(study, 1) is None


def test_broken_files_are_named(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.open({})
    (tmp_path / "trial-0001.json").write_text("{")
    with pytest.raises(ValueError, match=r"cannot read .*trial-0001.json"):
        study.trials()
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(ValueError, match=r"cannot read .*study.json"):
        study.open({})


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="cannot write to /proc/nowhere"):
        Study(Path("/proc/nowhere")).open({})
