"""One definition of settings: the flags of every command, the keyword arguments and the recipe agree with it."""

import inspect
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from typer.core import TyperOption

import pyrite
from pyrite.cli.app import app
from pyrite.cli.terminal import completes, names_of
from pyrite.settings import HINTS, SETTINGS, SHORT, Settings
from pyrite.training import OPTIMISERS, SCHEDULES, Config
from tests.children import run

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
TAKES = {  # what each command leaves out, and why: the data is an argument, methods are listed
    "train": {"data"},
    "audit": {"data"},
    "compare": {"data", "method", "loss"},
    "tune": {"data", "method", "loss"},
}


@pytest.mark.parametrize("command", TAKES)
def test_every_command_takes_every_setting(command: str) -> None:
    flags = {option.name: option for option in COMMANDS[command].params if isinstance(option, TyperOption)}
    for name, setting in {**SETTINGS, **SHORT}.items():
        if name in TAKES[command]:
            assert name not in flags
        else:
            assert flags[name].help == setting.help
            assert flags[name].opts == [f"--{name.replace('_', '-')}"]


@pytest.mark.parametrize("command", TAKES)
def test_flags_that_are_used_first_come_first(command: str) -> None:
    flags = [option for option in COMMANDS[command].params if isinstance(option, TyperOption)]
    first = {option.name for option in flags if not option.rich_help_panel}
    assert {"out", "model", "epochs", "minutes", "label", "device"} <= first
    assert len(first) <= 12
    groups = {option.rich_help_panel for option in flags} - {None}
    assert {"Columns of a table", "Data and labels", "Images", "Optimisation", "Running"} <= groups


@pytest.mark.parametrize(
    ("kind", "registry"),
    [("loss", pyrite.LOSSES), ("method", pyrite.METHODS), ("model", pyrite.MODELS), ("noise", pyrite.NOISES),
     ("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("recipe", pyrite.RECIPES)],
)  # fmt: skip
def test_names_that_are_completed_are_those_of_the_registry(kind: str, registry: Any) -> None:
    assert names_of(kind) == list(registry)
    assert completes(kind)(names_of(kind)[0])[0] == names_of(kind)[0]


def test_a_shell_completes_names_without_torch() -> None:
    code = "import sys; from pyrite.cli.app import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    for words, names in (("pyrite train digits --loss im", "imae"), ("pyrite reproduce imae_t", "imae_table1")):
        environment = os.environ | {"_PYRITE_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment |= {"COMP_CWORD": str(len(words.split()) - 1)}
        program = f"import sys; sys.argv = ['pyrite']; {code}"
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert names in done.stdout.split(), done.stderr
        assert done.stdout.split()[-1] == "False"


def test_keyword_arguments_may_be_left_out_or_none() -> None:
    assert HINTS.keys() == {*SETTINGS, *SHORT} - {"data"}
    for name, hint in HINTS.items():
        assert name == "loss" or types.NoneType in get_args(get_args(hint)[0]), name


def test_an_object_stands_where_a_text_describes_one() -> None:
    config = Config({"data": "", "noise": "symmetric(0.4)", "augment": "none", "features": "tfidf"})
    for name, setting in SETTINGS.items():
        assert not setting.spec or not isinstance(getattr(config, name), str), name
        if setting.default is not None:
            assert setting.default_in(1) is not None


@pytest.mark.parametrize("function", [pyrite.train, pyrite.compare, pyrite.tune, pyrite.train_without_suspects])
def test_what_trains_takes_the_keywords(function: Any) -> None:
    (keywords,) = (p for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_KEYWORD)
    (taken,) = get_args(keywords.annotation)
    assert taken is Settings


def test_a_name_that_is_no_setting() -> None:
    with pytest.raises(ValueError, match="unknown setting 'epoch': did you mean 'epochs'"):
        pyrite.train("digits", epoch=3)  # type: ignore[call-arg]


SMALL = ["--samples", "300", "--noise", "symmetric(0.4)", "--model", "mlp(hidden=[8])", "--epochs", "2"]
MORE = ["--batch-size", "50", "--optimiser", "adam", "--schedule", "cosine", "--clip", "2.5", "--accumulate", "2"]
MORE += ["--precision", "float64", "--checkpoint-every", "3", "--validation", "0.3", "--seed", "7", "--lr", "0.01"]


@pytest.mark.parametrize(
    ("words", "place"),
    [(["audit", "digits"], "."), (["compare", "digits", "ce"], "ce-7"), (["tune", "digits", "ce"], "trial-0001")],
    ids=lambda words: words[0],
)
def test_settings_arrive_with_every_command(words: list[str], place: str, tmp_path: Path) -> None:
    """``compare`` had no optimiser, ``audit`` no learning rate."""
    more = ["--trials", "1"] if words[0] == "tune" else []
    code, said = run(*words, *SMALL, *MORE, *more, "--out", str(tmp_path / "out"), log=tmp_path / "log")
    assert code == 0, said
    recipe = pyrite.Run.load(tmp_path / "out" / place).config
    assert (recipe.batch_size, recipe.clip, recipe.accumulate, recipe.precision) == (50, 2.5, 2, "float64")
    assert (recipe.checkpoint_every, recipe.validation, recipe.seed) == (3, 0.3, 7)
    assert str(recipe.optimiser).startswith("adam(lr=0.01, ")
    assert str(recipe.schedule).startswith("cosine")


def test_literals_are_read_as_text_and_checked_by_the_recipe(tmp_path: Path) -> None:
    code, said = run("compare", "digits", "ce", "--precision", "half", "--out", str(tmp_path), log=tmp_path / "log")
    assert code == 2
    assert "precision is 'half', but must be 'float32', 'float64'" in said


def test_a_flag_can_undo_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('data = "digits"\ncompile = true\n')
    words = ["--config", str(tmp_path / "run.toml"), "--no-compile", *SMALL, "--out", str(tmp_path / "run")]
    code, said = run("train", *words, log=tmp_path / "log")
    assert code == 0, said
    assert pyrite.Run.load(tmp_path / "run").config.compile is False
