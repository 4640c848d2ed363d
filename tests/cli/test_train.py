"""``pyrite train`` and ``pyrite compare`` as they are typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pyrite
from tests.children import run

SMALL = ["digits", "--samples", "200", "--noise", "symmetric(0.4)", "--model", "mlp(hidden=[8])", "--epochs", "2"]


def test_train_in_words(tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = run("train", *SMALL, "--loss", "ce", "--lr", "0.05", "--out", str(out), log=tmp_path / "log")
    assert code == 0, said
    found = pyrite.Run.load(out)
    assert str(found.config.method) == "erm(ce)"
    assert str(found.config.optimiser).startswith("sgd(lr=0.05, ")
    lines = said.splitlines()
    for number, (line, epoch) in enumerate(zip(lines, found.history, strict=False), 1):  # one an epoch, no bar
        assert line.startswith(f"epoch {number}/2  loss {epoch['loss']:.4f}  test {100 * epoch['test_accuracy']:.2f} %")
        assert line.endswith("samples/s")
    reached = f"{100 * found.history[-1]['test_accuracy']:.2f}"
    assert f"test accuracy of the saved model {reached} %" in " ".join(said.split())
    assert lines[-1] == f"wrote {out}"


def test_what_the_default_method_made_of_the_data(tmp_path: Path) -> None:
    code, said = run("train", *SMALL, "--out", str(tmp_path / "one"), log=tmp_path / "log")
    assert code == 0, said
    found = pyrite.Run.load(tmp_path / "one")
    best, selected = (round(found.history[found.epoch - 1][name]) for name in ("best_method", "selected"))
    together = f"; the prediction averages {selected} methods" if selected > 1 else ""
    assert f"elr(coefficient=3, momentum=0.7)): method {best} predicts the most held-out labels{together}\n" in said
    code, said = run("train", *SMALL, "--method", "curriculum", "--out", str(tmp_path / "alone"), log=tmp_path / "log")
    assert code == 0, said
    exponent = pyrite.Run.load(tmp_path / "alone").history[-1]["exponent"]
    assert f"ended with exponent {exponent:.2f} (0 is cross entropy, 1 absolute error)" in said
    words = ["--method", "self_corrected(at=0.5)", "--lr", "0.05", "--out", str(tmp_path / "two")]
    code, said = run("train", *SMALL, *words, log=tmp_path / "log")
    assert code == 0, said
    noise = pyrite.Run.load(tmp_path / "two").history[-1]["estimated_noise_rate"]
    outcome = f"estimated label noise {100 * noise:.0f} %; the targets were corrected"
    assert f": {outcome if noise else 'no label noise was found, so the loss remained cross entropy'}" in said


def test_train_for_a_program(tmp_path: Path) -> None:
    """In a process of its own: nothing but JSON on standard output, nothing at all on standard error."""
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "pyrite", "train", *SMALL, "--out", str(out), "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
    run = pyrite.Run.load(out)
    facts = {"saved": run.facts["saved"], "warnings": [], "unreadable": {}}
    assert json.loads(done.stdout) == {"run": str(out), **run.table, **facts}


def test_every_option_arrives(tmp_path: Path) -> None:
    words = {
        "method": "erm(nce)",
        "batch-size": "50",
        "optimiser": "adam",
        "schedule": "cosine",
        "clip": "2.5",
        "accumulate": "2",
        "augment": "crop_flip(pad=1)",
        "validation": "0.25",
        "keep": "best",
        "precision": "float64",
        "checkpoint-every": "3",
        "seed": "7",
        "device": "cpu",
    }
    typed = [text for name, value in words.items() for text in (f"--{name}", value)]
    code, said = run("train", *SMALL, *typed, "--out", str(tmp_path / "run"), log=tmp_path / "log")
    assert code == 0, said
    found = pyrite.Run.load(tmp_path / "run")
    assert said.splitlines()[-2] == f"saved the model of {found.choice}"
    recipe = found.config
    for name, value in words.items():
        assert str(getattr(recipe, name.replace("-", "_"))).startswith(value.rstrip(")")), name
    code, said = run(
        "train", "--config", str(tmp_path / "run" / "recipe.toml"), "--out", str(tmp_path / "b"), log=tmp_path / "log"
    )
    assert code == 0, said
    assert pyrite.Run.load(tmp_path / "b").history == pyrite.Run.load(tmp_path / "run").history


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "digit"], "did you mean 'digits'"),
        (["train", "digits", "--loss", "gcee"], "unknown loss 'gcee': did you mean 'gce'"),
        (["train", "digits", "--optimiser", "sgdd"], "unknown optimiser 'sgdd': did you mean 'sgd'"),
        (["train", "digits", "--schedule", "cosin"], "unknown schedule 'cosin': did you mean 'cosine'"),
        (["train", "digits", "--model", "resnet21"], "unknown model 'resnet21': did you mean 'resnet"),
        (["train", "digits", "--noise", "symmetrical(0.4)"], "did you mean 'symmetric'"),
        (["train", "digits", "--epochs", "0"], "epochs is 0"),
        (["train"], "data is missing"),
        (["train", "--resume", "/nowhere"], "/nowhere is not a run"),
        (["train", "digits", "--resume", "/nowhere", "--model", "mlp"], "omit all other options"),
        (["train", "digits", "--config", "/nowhere.toml"], "cannot read /nowhere.toml"),
        (["compare", "digits", "gcee", "--out", "/nowhere/c"], "unknown method 'gcee': did you mean 'gce'"),
        (["compare", "digits", "--out", "/nowhere/c"], "methods"),
        (["compare", "digits", "ce"], "--out"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], said: str, tmp_path: Path) -> None:
    code, found = run(*words, log=tmp_path / "log")
    assert code == 2
    assert said in found
    assert "Traceback" not in found


def test_nan_is_exit_code_1(tmp_path: Path) -> None:
    words = [*SMALL, "--model", "mlp(hidden=[8], norm=False)", "--loss", "ce", "--lr", "1e30"]
    code, said = run("train", *words, "--out", str(tmp_path / "run"), log=tmp_path / "log")
    assert code == 1
    assert "Traceback" not in said
    assert "of epoch 1, at learning rate" in said
    assert "Try a learning rate ten times lower, gradient clipping" in said
    code, said = run("train", *SMALL, "--out", "/proc/nowhere/run", log=tmp_path / "log")
    assert code == 1
    assert said == "pyrite: cannot write /proc/nowhere/run/recipe.toml: No such file or directory\n"


def test_a_run_that_diverged_says_so(tmp_path: Path) -> None:
    words = ["digits", "--model", "mlp(hidden=[16])", "--epochs", "4", "--loss", "mae"]
    words += ["--schedule", "steps(at=[3], factor=3e4)"]
    code, said = run("train", *words, "--out", str(tmp_path / "run"), log=tmp_path / "log")
    assert code == 0
    assert "pyrite: the run diverged: it followed" in said


def test_compare(tmp_path: Path) -> None:
    out = tmp_path / "c"
    words = ["compare", "digits", "ce", "gce(q=0.7)", *SMALL[1:], "--seeds", "2", "--out", str(out)]
    code, said = run(*words, log=tmp_path / "log")
    assert code == 0, said
    assert "gce(q=0.7), seed 1\n" in said
    assert "best on test" in said
    assert said.endswith(f"wrote {out / 'table.md'}\nwrote {out / 'report.html'}\n")
    assert "test accuracy of the saved model" in (out / "report.html").read_text()
    table = (out / "table.md").read_text()
    for cell in table.splitlines()[-1].split("|")[2:-1]:
        assert cell.replace(" ", "") in said
    code, said = run(*words, "--json", log=tmp_path / "log")  # again: nothing is trained
    assert code == 0, said
    assert json.loads(said) == json.loads((out / "comparison.json").read_text())
    code, said = run(*words, "--epochs", "3", log=tmp_path / "log")
    assert code == 2
    assert "ce-0 contains a run with other epochs, schedule: choose another folder" in said


@pytest.mark.parametrize("command", ["train", "audit", "compare", "tune"])
def test_help_does_not_load_torch(command: str) -> None:
    code = f"import sys; sys.argv = ['pyrite', '{command}', '--help']; from pyrite.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "--noise" in done.stdout
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "pyrite" in loaded
    assert not {"torch", "numpy", "matplotlib", "sklearn", "safetensors"} & loaded
