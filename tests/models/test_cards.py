"""Every net has its card."""

import re
from pathlib import Path

import pytest

from pyrite.models import MODELS
from pyrite.spec import arguments
from tests.models.counting import parameters

CARDS = Path(__file__).parents[2] / "docs" / "models.md"

# What the card of a net counts its parameters for, if not for CIFAR's images.
SHAPES = {"mlp": (20,), "linear": (20,), "cnn4": (1, 28, 28)}


def cards() -> dict[str, str]:
    parts = re.split(r"^## `(\w+)`$", CARDS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_card_for_every_net_and_none_for_others() -> None:
    assert list(cards()) == list(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_card_says_what_it_must(name: str) -> None:
    for word in ("Net", "Parameters", "Paper", "Speed"):
        assert re.search(rf"^- \*\*{word}:\*\* \S", cards()[name], flags=re.MULTILINE), word


@pytest.mark.parametrize("name", MODELS)
def test_a_card_shows_the_call(name: str) -> None:
    taken = arguments(MODELS[name]).replace("'", '"')
    assert not taken or f"`{name}{taken}`" in cards()[name]


@pytest.mark.parametrize("name", MODELS)
def test_a_card_counts_the_parameters(name: str) -> None:
    counted = parameters(name, SHAPES.get(name, (3, 32, 32)), 10)
    assert f"- **Parameters:** {counted:,}" in cards()[name]
