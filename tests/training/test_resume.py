"""A run that is stopped or killed, at any moment, ends with the same bytes as one that is not."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite.training import run_folder
from tests.children import differing, run, start

DATA = ["digits", "--samples", "300", "--noise", "symmetric(0.4)", "--model", "mlp(hidden=[16])"]
OPTIONS = [*DATA, "--epochs", "2", "--checkpoint-every", "1"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    code, said = run("train", *OPTIONS, "--out", str(folder / "run"), log=folder / "log")
    assert code == 0, said
    return folder / "run"


def words(options: list[str], out: Path) -> list[str]:
    """What its owner would type next."""
    if (out / "recipe.toml").exists():
        return ["train", "--resume", str(out)]
    return ["train", *options, "--out", str(out)]


def appears(path: Path, process: Any, unlike: bytes | None = None) -> None:
    """Wait for a file, or for another than there was."""
    while process.is_alive() and (not path.exists() or path.read_bytes() == unlike):
        time.sleep(0.002)


# --- killed ---------------------------------------------------------------------------------------------------------

PHASES = ("half", "written", "flushed", "renamed")
FILES = 19  # recipe, labels, facts; three steps, then state, history, samples, twice; history, samples, model, facts


def kill_while_writing(phase: str, number: int, whole: Path, folder: Path) -> None:
    out, log = folder / phase, folder / "log"
    code, said = run(*words(OPTIONS, out), log=log, trouble=(phase, number))
    assert code == -signal.SIGKILL, said
    code, said = run(*words(OPTIONS, out), log=log)
    assert code == 0, said
    assert differing(whole, out) == []
    assert not list(out.rglob("*.part"))


@pytest.mark.parametrize("number", range(1, FILES + 1))
def test_killed_while_writing(number: int, whole: Path, tmp_path: Path) -> None:
    kill_while_writing(PHASES[number % 4], number, whole, tmp_path)


@pytest.mark.parametrize("phase", PHASES)
def test_killed_while_writing_a_checkpoint(phase: str, whole: Path, tmp_path: Path) -> None:
    kill_while_writing(phase, 5, whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, FILES + 1))
@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_every_phase_of_every_file(phase: str, number: int, whole: Path, tmp_path: Path) -> None:
    kill_while_writing(phase, number, whole, tmp_path)


def test_there_are_no_more_files(whole: Path, tmp_path: Path) -> None:
    """So that the tests above have seen them all."""
    code, said = run(*words(OPTIONS, tmp_path / "run"), log=tmp_path / "log", trouble=("half", FILES + 1))
    assert code == 0, said


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        # Its steps are so quick that three epochs could be over before the fourth kill.
        (0, {"optimiser": "sgd(lr=0.05, momentum=0.9)", "model": "mlp(hidden=[16])", "epochs": 20}),
        (1, {"optimiser": "adam(lr=1e-3)", "model": "wrn(depth=10, width=1, dropout=0.3)"}),
        (2, {"optimiser": "adamw", "model": "cnn4", "augment": "crop_flip(pad=1)", "accumulate": 2}),
    ],
)
def test_killed_at_random_moments(seed: int, options: dict[str, Any], tmp_path: Path) -> None:
    options = {"samples": 300, "noise": "symmetric(0.4)", "epochs": 3, "checkpoint_every": 1, "seed": seed, **options}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    pyrite.train("digits", out=whole, **options)
    typed = ["digits"] + [
        text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))
    ]
    state, moments, seen = killed / "state" / "state.safetensors", random.Random(seed), set()
    for _ in range(4):
        before = state.read_bytes() if state.exists() else None
        process = start(*words(typed, killed), log=tmp_path / "log")
        appears(state, process, unlike=before)
        time.sleep(moments.uniform(0, 0.05))  # a step and its checkpoint take about 20 ms
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
        seen.add(state.read_bytes())
    assert len(seen) == 4  # it went on each time
    code, said = run("train", "--resume", str(killed), log=tmp_path / "log")
    assert code == 0, said
    assert differing(whole, killed) == []


# --- stopped --------------------------------------------------------------------------------------------------------


def after(steps: int) -> Callable[[], bool]:
    left = iter([False] * (steps - 1) + [True])
    return lambda: next(left)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "nce", "model": "mlp(hidden=[8])", "optimiser": "sgd(lr=0.1, momentum=0.9, nesterov=False)"},
        {"loss": "ce", "model": "mlp(hidden=[8])", "optimiser": "adam(lr=0.01, eps=0.1)", "clip": 0.1},
        {"loss": "imae(T=8)", "model": "wrn(depth=10, width=1, dropout=0.3)", "optimiser": "adamw", "validation": 0.2}
        | {"batch_size": 80},
        {"loss": "ce(weight=[1, 2, 1, 2, 1, 2, 1, 2, 1, 2])", "model": "cnn4", "augment": "crop_flip(pad=1)"},
        {"method": "meta_weight(size=90, every=2)", "model": "wrn(depth=10, width=1, dropout=0.3)", "batch_size": 80},
        {"method": "l2rw(size=90)", "model": "mlp(hidden=[8])", "batch_size": 80},
        {"loss": "peer(ce)", "model": "mlp(hidden=[8])", "precision": "float64", "schedule": "cosine(warmup=0.5)"},
    ],
    ids=lambda options: options.get("loss", options.get("method"))[:4],
)
def test_stopped_after_any_step(options: dict[str, Any], tmp_path: Path) -> None:
    options = {"noise": "symmetric(0.4)", "samples": 300, "epochs": 2, **options}
    whole = pyrite.train("digits", out=tmp_path / "whole", **options)
    for steps in range(1, 7):  # three are an epoch: in the middle of one, and at its last, before it is measured
        out = tmp_path / str(steps)
        stopped = pyrite.train("digits", out=out, stop=after(steps), **options)
        assert len(stopped.history) == (steps - 1) // 3
        assert not stopped.finished
        assert not pyrite.Run.load(out).finished
        resumed = pyrite.train(resume=out)
        assert resumed.finished
        assert resumed.history == whole.history
        assert resumed.table == whole.table
        assert differing(tmp_path / "whole", out) == []


def test_times_of_all_parts_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of two processes start anywhere; a run knows how long it took in each."""
    options = {"samples": 100, "epochs": 1, "batch_size": 50, "model": "mlp(hidden=[4])"}
    for now, later in ((50.0, 150.0), (9000.0, 9007.0)):
        clock = chain([now], repeat(later))
        monkeypatch.setattr(run_folder, "time", SimpleNamespace(perf_counter=lambda clock=clock: next(clock)))
        if now == 50.0:
            pyrite.train("digits", out=tmp_path / "run", stop=after(1), **options)
    assert pyrite.train(resume=tmp_path / "run").facts["seconds"] == 107


def test_resuming_what_is_finished_changes_nothing(whole: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(whole, again)
    pyrite.train(resume=again)
    assert differing(whole, again) == []


def test_a_run_continues_on_another_device(begun: Path, whole: Path) -> None:
    """A machine without the device of the run takes its own, and the rest of the recipe stays."""
    for name in ("recipe.toml", "run.json"):
        text = (begun / name).read_text()
        assert '"cpu"' in text
        (begun / name).write_text(text.replace('"cpu"', '"cuda:77"'))
    with pytest.warns(UserWarning, match="was begun on the device 'cuda:77' and continues on "):
        continued = pyrite.train(resume=begun, device=None if not torch.cuda.is_available() else "cpu")
    assert [line["loss"] for line in continued.history] == [line["loss"] for line in pyrite.Run.load(whole).history]


def test_ctrl_c_in_an_audit_prints_how_to_continue_the_audit(tmp_path: Path) -> None:
    def interrupt() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    options: dict[str, Any] = {"samples": 300, "model": "mlp(hidden=[4])", "epochs": 2, "progress": False}
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt) as stopped:
        pyrite.audit("digits", out=out, stop=interrupt, **options)
    assert str(stopped.value) == (
        f"stopped and saved; continue the audit with: pyrite train --resume {out} && pyrite audit {out}"
    )
    assert len(pyrite.audit(pyrite.train(resume=out))) == 300


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_says_how_to_go_on(number: signal.Signals, tmp_path: Path) -> None:
    options = [*DATA, "--epochs", "15"]
    out, log = tmp_path / "run", tmp_path / "log"
    process = start("train", *options, "--out", str(out), log=log)
    appears(out / "history.jsonl", process)
    os.kill(process.pid or 0, number)
    process.join(60)
    said = log.read_text()
    assert process.exitcode == 130, said
    assert f"stopped and saved; continue with: pyrite train --resume {out}" in said
    assert "Traceback" not in said
    lines = len(pyrite.Run.load(out).history)
    assert 1 <= lines < 15
    assert not (out / "model.safetensors").exists()
    code, said = run("train", "--resume", str(out), log=log)
    assert code == 0, said
    assert said.count("  loss ") == 15 - lines
    pyrite.train("digits", samples=300, noise="symmetric(0.4)", model="mlp(hidden=[16])", epochs=15, out=tmp_path / "b")
    assert differing(tmp_path / "b", out) == []


def test_handlers_are_given_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    pyrite.train("digits", samples=100, model="mlp(hidden=[4])", epochs=1, out=tmp_path / "run")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


# --- no room, no permission -----------------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A run that was killed after its first checkpoint."""
    out = tmp_path / "begun"
    code, said = run(*words(OPTIONS, out), log=tmp_path / "log", trouble=("renamed", 4))
    assert code == -signal.SIGKILL, said
    return out


def test_full_disk_leaves_the_last_checkpoint(begun: Path, whole: Path, tmp_path: Path) -> None:
    state = begun / "state" / "state.safetensors"
    good = state.read_bytes()
    # The next checkpoint knows of more samples, so it is larger.
    code, said = run("train", "--resume", str(begun), log=tmp_path / "log", trouble=("room", len(good) + 8))
    assert code == 1
    assert f"pyrite: cannot write {state}: File too large. The last checkpoint is whole: pyrite train --resume" in said
    assert "Traceback" not in said
    assert state.read_bytes() == good
    assert not list(begun.rglob("*.part"))
    code, said = run("train", "--resume", str(begun), log=tmp_path / "log")
    assert code == 0, said
    assert differing(whole, begun) == []


def test_no_room_from_the_beginning(tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = run("train", *OPTIONS, "--out", str(out), log=tmp_path / "log", trouble=("room", 5000))
    assert code == 1
    assert f"pyrite: cannot write {out / 'labels.npz'}: File too large\n" in said  # and nothing to resume is promised
    code, said = run("train", "--resume", str(out), log=tmp_path / "log")  # but it can be, as the recipe is there
    assert code == 0, said


def test_read_only_folder(begun: Path, whole: Path, tmp_path: Path) -> None:
    good = (begun / "state" / "state.safetensors").read_bytes()
    for path in (begun, begun / "state"):
        path.chmod(0o555)
    code, said = run("train", "--resume", str(begun), log=tmp_path / "log", trouble=("humble", 0))
    assert code == 1, said
    assert f"cannot write {begun / 'state' / 'state.safetensors'}: Permission denied. The last checkpoint is" in said
    code, said = run("train", *OPTIONS, "--out", str(begun / "b"), log=tmp_path / "log", trouble=("humble", 0))
    assert code == 1, said
    assert f"cannot write {begun / 'b' / 'recipe.toml'}: Permission denied\n" in said
    for path in (begun, begun / "state"):
        path.chmod(0o755)
    assert (begun / "state" / "state.safetensors").read_bytes() == good
    code, said = run("train", "--resume", str(begun), log=tmp_path / "log")
    assert code == 0, said
    assert differing(whole, begun) == []


def test_nowhere_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "run", Path("/proc/nowhere/run")):
        with pytest.raises(pyrite.RunFailed, match=f"cannot write {out / 'recipe.toml'}: "):
            pyrite.train("digits", samples=100, model="mlp(hidden=[4])", epochs=1, out=out)


# --- what is no resume ----------------------------------------------------------------------------------------------


def test_changed_labels_are_refused(tmp_path: Path) -> None:
    rows = np.random.default_rng(0)
    data, out = tmp_path / "data.npz", tmp_path / "run"
    x, y = rows.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    np.savez(data, x=x, y=y)
    options: dict[str, Any] = {"model": "mlp(hidden=[4])", "batch_size": 20, "epochs": 2}
    pyrite.train(data, out=out, stop=after(1), **options)
    y[17] = (y[17] + 1) % 3
    np.savez(data, x=x, y=y)
    code, said = run("train", "--resume", str(out), log=tmp_path / "log")
    assert code == 2
    assert f"pyrite: the labels of {data} are not those in {out / 'labels.npz'}\n" in said
    y[17] = 17 % 3
    np.savez(data, x=x, y=y)
    assert pyrite.train(resume=out).finished


def test_broken_files_are_named(begun: Path, tmp_path: Path) -> None:
    for name in ("state/state.safetensors", "labels.npz", "recipe.toml"):
        out = tmp_path / name.partition("/")[0]
        shutil.copytree(begun, out)
        (out / name).write_bytes(b"\x00nothing of the kind")
        with pytest.raises(ValueError, match=f"cannot read (the state )?{out / name}"):
            pyrite.train(resume=out)
    (begun / "labels.npz").unlink()
    with pytest.raises(ValueError, match=r"labels.npz is missing"):
        pyrite.train(resume=begun)


def test_resume_takes_no_options(begun: Path, tmp_path: Path) -> None:
    options: list[dict[str, Any]] = [{"epochs": 3}, {"loss": "ce"}, {"lr": 0.1}, {"out": tmp_path}, {"model": "mlp"}]
    for option in [*options, {"config": begun / "recipe.toml"}]:
        with pytest.raises(ValueError, match="omit all other options"):
            pyrite.train(resume=begun, **option)
    with pytest.raises(ValueError, match="data is 'mnist', but the resumed run was trained on 'digits'"):
        pyrite.train("mnist", resume=begun)
    with pytest.raises(ValueError, match=r"is not a run: it has no recipe.toml"):
        pyrite.train(resume=tmp_path / "nothing")
    assert pyrite.train("digits", resume=begun).finished
