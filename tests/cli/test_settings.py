"""One definition of settings: the flags of every command, the keyword arguments and the recipe agree with it."""

import inspect
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.core import TyperOption

import pyrite
from pyrite.cli.app import app
from pyrite.settings import Settings, ShortForms
from pyrite.training import Options, OptionsButRate, Recipe
from tests.children import run

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
DEFINED = {**get_type_hints(Settings), **get_type_hints(ShortForms)}
TAKES = {  # what each command leaves out, and why: the data is an argument, methods are listed
    "train": {"data"},
    "audit": {"data"},
    "compare": {"data", "method", "loss"},
    "tune": {"data", "method", "loss"},
}


@pytest.mark.parametrize("command", TAKES)
def test_every_command_takes_every_setting(command: str) -> None:
    flags = {option.name: option for option in COMMANDS[command].params if isinstance(option, TyperOption)}
    for definition in (Settings, ShortForms):
        for name, hint in get_type_hints(definition, include_extras=True).items():
            if name in TAKES[command]:
                assert name not in flags
            elif (command, name) != ("tune", "lr"):  # which may be a range
                assert flags[name].help == get_args(hint)[-1]
                assert flags[name].opts == [f"--{name.replace('_', '-')}"]
    assert "config" in flags


def parts(hint: Any) -> set[Any]:
    """The types that a hint allows."""
    if get_origin(hint) in (Union, types.UnionType):
        return set().union(*(parts(part) for part in get_args(hint)))
    return {hint}


def test_keyword_arguments_have_the_names_and_types_of_settings() -> None:
    keywords = get_type_hints(Options)
    assert keywords.keys() == (DEFINED.keys() - {"data"}) | {"config"}
    for name, hint in DEFINED.items():
        if name in ("data", "loss"):  # a loss may be anything that can be called
            continue
        allowed = parts(keywords[name])
        assert types.NoneType in allowed, name
        assert parts(hint) <= allowed, name
        # What else is allowed is an object of a class, that a text stands for.
        more = allowed - parts(hint) - {types.NoneType}
        assert not more or str in parts(hint), name
        assert not {int, float, bool, str} & more, name
    assert keywords["loss"] is object
    assert get_type_hints(OptionsButRate).keys() == keywords.keys() - {"lr"}


def test_the_recipe_has_the_settings() -> None:
    assert list(Recipe.model_fields) == list(get_type_hints(Settings))
    for name, field in Recipe.model_fields.items():
        assert field.annotation == get_type_hints(Settings)[name], name
        assert name == "data" or field.default == getattr(Settings, name), name


@pytest.mark.parametrize("function", [pyrite.train, pyrite.compare, pyrite.tune, pyrite.train_without_suspects])
def test_what_trains_takes_the_keywords(function: Any) -> None:
    (keywords,) = (p for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_KEYWORD)
    (taken,) = get_args(keywords.annotation)
    assert taken is (OptionsButRate if function is pyrite.tune else Options)


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
    recipe = pyrite.Run.load(tmp_path / "out" / place).recipe
    assert (recipe.batch_size, recipe.clip, recipe.accumulate, recipe.precision) == (50, 2.5, 2, "float64")
    assert (recipe.checkpoint_every, recipe.validation, recipe.seed) == (3, 0.3, 7)
    assert recipe.optimiser.startswith("adam(lr=0.01, ")
    assert recipe.schedule.startswith("cosine")


def test_literals_are_read_as_text_and_checked_by_the_recipe(tmp_path: Path) -> None:
    assert get_origin(get_args(DEFINED["precision"])[0]) is Literal  # or None
    code, said = run("compare", "digits", "ce", "--precision", "half", "--out", str(tmp_path), log=tmp_path / "log")
    assert code == 2
    assert "precision is 'half': input should be 'float32', 'float64' or 'bfloat16'" in said


def test_a_flag_can_undo_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('data = "digits"\ncompile = true\n')
    words = ["--config", str(tmp_path / "run.toml"), "--no-compile", *SMALL, "--out", str(tmp_path / "run")]
    code, said = run("train", *words, log=tmp_path / "log")
    assert code == 0, said
    assert pyrite.Run.load(tmp_path / "run").recipe.compile is False
