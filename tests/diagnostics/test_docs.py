from pathlib import Path

from pyrite import diagnostics

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()


def test_every_public_name_is_on_the_page() -> None:
    assert [name for name in diagnostics.__all__ if f"`{name}" not in PAGE] == []
    assert all(hasattr(diagnostics, name) for name in diagnostics.__all__)
