"""Every net has its card."""

import re
from pathlib import Path

import pytest

from pyrite.cli.list import _arguments
from pyrite.models import MODELS, architecture

CARDS = Path(__file__).parents[2] / "docs" / "models.md"


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
def test_a_card_spells_the_call(name: str) -> None:
    arguments = _arguments(MODELS[name]).replace("'", '"')
    assert not arguments or f"`{name}{arguments}`" in cards()[name]


@pytest.mark.parametrize("name", MODELS)
def test_a_card_counts_the_parameters(name: str) -> None:
    net = architecture(name).build((20,) if name == "mlp" else (1, 28, 28) if name == "cnn4" else (3, 32, 32), 10, 0)
    assert f"{sum(weight.numel() for weight in net.parameters()):,}" in cards()[name]
