"""One definition of settings: the flags of every command, the keyword arguments and the recipe agree with it."""

import inspect
import types
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from typer.core import TyperOption

import pyrite
from pyrite.cli.app import app
from pyrite.settings import HINTS, SETTINGS, SHORT, Settings
from pyrite.training import Config
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
    with pytest.raises(ValueError, match="a recipe has no 'epoch': did you mean 'epochs'"):
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
    assert "precision is 'half': input should be 'float32', 'float64'" in said


def test_a_flag_can_undo_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('data = "digits"\ncompile = true\n')
    words = ["--config", str(tmp_path / "run.toml"), "--no-compile", *SMALL, "--out", str(tmp_path / "run")]
    code, said = run("train", *words, log=tmp_path / "log")
    assert code == 0, said
    assert pyrite.Run.load(tmp_path / "run").config.compile is False
