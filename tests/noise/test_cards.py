"""Every noise model has its card."""

import re
from pathlib import Path

import pytest

from pyrite.noise import NOISES
from pyrite.spec import arguments

CARDS = Path(__file__).parents[2] / "docs" / "noise.md"


def cards() -> dict[str, str]:
    parts = re.split(r"^## `(\w+)`$", CARDS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_card_for_every_model_and_none_for_others() -> None:
    assert list(cards()) == list(NOISES)


@pytest.mark.parametrize("name", NOISES)
def test_a_card_says_rule_rate_paper_and_caveat(name: str) -> None:
    for word in ("Rule", "True flip rate", "Paper", "Caveat"):
        assert re.search(rf"^- \*\*{word}:\*\* \S", cards()[name], flags=re.MULTILINE), word


@pytest.mark.parametrize("name", NOISES)
def test_a_card_shows_the_call(name: str) -> None:
    taken = arguments(NOISES[name]).replace("'", '"')
    assert not taken or f"`{name}{taken}`" in cards()[name]
