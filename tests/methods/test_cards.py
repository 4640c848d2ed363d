"""Every method has a card."""

from pathlib import Path

import pyrite


def test_every_method_has_a_card() -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    assert [name for name in pyrite.METHODS if f"\n### `{name}`" not in page] == []
