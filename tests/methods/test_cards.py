"""Every method has a card, and a spec string with its arguments."""

from pathlib import Path

import pytest

import pyrite


def test_every_method_has_a_card() -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    assert [name for name in pyrite.METHODS if f"\n### `{name}`" not in page] == []


@pytest.mark.parametrize(
    ("short", "written"),
    [
        ("elr", "elr(coefficient=3, momentum=0.7)"),
        ("select(erm(ce), elr)", "select(erm(ce), elr(coefficient=3, momentum=0.7))"),
        ("cross_fit(erm(ce), folds=3)", "cross_fit(erm(ce), folds=3)"),
        ("staged(erm(ce), erm(mae), at=0.1)", "staged(erm(ce), erm(mae), at=0.1)"),
        ("bootstrap('soft')", "bootstrap(kind='soft', beta=0.95, warmup=0.2)"),
        ("peer", "peer(ce, alpha=1, warmup=0.06, ramp=0.94)"),
        ("forward", "forward(matrix='estimate', percentile=97, at=0.2)"),
        ("co_teaching(0.4)", "co_teaching(rate=0.4)"),
        ("mentornet(percentile=0.6)", "mentornet(percentile=0.6)"),
    ],
)
def test_what_a_recipe_has(short: str, written: str) -> None:
    assert str(pyrite.method(short)) == written
