"""The picture of a search."""

from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from pyrite.report.style import COLOURS, save
from pyrite.report.tuning import tuning_figure
from pyrite.tuning import Trial, Tuning
from pyrite.tuning.space import Between, Space

METHODS = ("ce", "gce(q=between(0.1, 1))", "imae(T=between(1, 8, log=True))")


def found(by: str, rate: Between | None = None) -> Tuning:
    """Five trials: two of cross entropy, two of GCE, of which one was pruned, and one that failed."""
    trials = (
        Trial(1, "erm(ce)", 0.1, {"method": METHODS[0]}, "complete", (0.2, 0.5)),
        Trial(2, "erm(gce(q=0.5))", 0.2, {"method": METHODS[1], "gce.q": 0.5}, "complete", (0.2, 0.3)),
        Trial(3, "erm(gce(q=0.7))", 0.3, {"method": METHODS[1], "gce.q": 0.7}, "pruned", (0.1,)),
        Trial(4, "erm(imae(T=2.0))", 0.3, {"method": METHODS[2], "imae.T": 2.0}, "failed"),
        Trial(5, "erm(ce)", 0.4, {"method": METHODS[0]}, "complete", (0.2, 0.6)),
    )
    return Tuning(Path("nowhere"), by, trials, Space(METHODS, rate), "digits", {})


@pytest.mark.parametrize(("by", "best"), [("accuracy", [0.5, 0.5, 0.6, 0.6]), ("mae", [0.5, 0.3, 0.3, 0.3])])
def test_trials_and_the_best_so_far(by: str, best: list[float]) -> None:
    first, rates, q, tees = tuning_figure(found(by)).axes
    line = first.lines[0]
    assert list(line.get_xdata()) == [1, 2, 5, 5]  # type: ignore[arg-type]
    assert list(line.get_ydata()) == best  # type: ignore[arg-type]
    points = [tuple(dots.get_offsets()[0]) for dots in first.collections]  # type: ignore[index]
    assert points == [(1, 0.5), (2, 0.3), (3, 0.1), (5, 0.6)]
    edges = [to_hex(dots.get_edgecolor()[0]).upper() for dots in first.collections]  # type: ignore[index]
    assert edges == [COLOURS[0], COLOURS[1], COLOURS[1], COLOURS[0]]
    assert [len(dots.get_facecolor()) for dots in first.collections] == [1, 1, 0, 1]  # type: ignore[arg-type]  # pruned: hollow
    assert [tuple(dots.get_offsets()[0]) for dots in rates.collections][-1] == (0.4, 0.6)  # type: ignore[index]
    assert [tuple(dots.get_offsets()[0]) for dots in q.collections] == [(0.5, 0.3), (0.7, 0.1)]  # type: ignore[index]
    assert not tees.collections
    assert [axes.get_xlabel() for axes in (first, rates, q, tees)] == ["trial", "learning rate", "gce.q", "imae.T"]
    assert [axes.get_xscale() for axes in (rates, q, tees)] == ["log", "linear", "log"]
    assert q.get_xlim() == pytest.approx((0.064, 1.036))
    assert first.get_ylabel() == f"held-out {'accuracy' if by == 'accuracy' else 'MAE'}"


def test_the_legend_names_what_was_chosen_from(tmp_path: Path) -> None:
    figure = tuning_figure(found("accuracy"))
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == [*METHODS, "best so far, of finished trials", "pruned"]
    assert (
        save(tuning_figure(found("accuracy", Between(0.25, 4, log=True))), tmp_path / "a.png").stat().st_size > 10_000
    )
