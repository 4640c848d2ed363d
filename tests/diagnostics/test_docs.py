from pathlib import Path

from pyrite import diagnostics
from pyrite.diagnostics import SampleEvidence, TrainingObserver

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()


def test_every_public_name_is_on_the_page() -> None:
    names = [*diagnostics.__all__, *TrainingObserver([0]).end_epoch(), *SampleEvidence([0]).arrays()]
    assert [name for name in names if f"`{name}" not in PAGE] == []


def test_all_is_what_there_is() -> None:
    assert sorted(diagnostics.__all__) == sorted(set(diagnostics.__all__))
    assert all(hasattr(diagnostics, name) for name in diagnostics.__all__)
