"""The pictures of sample weights and of margins before training."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.comparing import Comparison, Row
from pyrite.report.figures import initial_margins_figure, weights_figure
from pyrite.report.style import save
from pyrite.training import Run, Start

Make = Callable[..., Run]


def with_alpha(run: Run, *values: float | None) -> Run:
    for line, value in zip(run.history, values, strict=True):
        line["alpha"] = value
    return run


def test_alpha_and_its_share_of_the_largest(make_run: Make, tmp_path: Path) -> None:
    first, second = (with_alpha(make_run([0.5, 0.7], [0.1, 0.2]), *values) for values in ((0.4, 0.2), (0.2, 0.3)))
    other = with_alpha(make_run([0.5, 0.7], [0.1, 0.2]), 0.01, 0.02)
    found = Comparison(tmp_path, (Row("$ce$", (first, second)), Row("mae", (other,))))
    left, right = weights_figure(found).axes
    assert [line.get_label() for line in left.lines] == ["$ce$", "mae"]
    assert list(left.lines[0].get_ydata()) == pytest.approx([0.3, 0.25])
    assert list(right.lines[0].get_ydata()) == pytest.approx([(1 + 2 / 3) / 2, (0.5 + 1) / 2])
    assert list(right.lines[1].get_ydata()) == pytest.approx([0.5, 1])
    for kind in ("png", "svg"):
        assert save(weights_figure(found), tmp_path / f"weights.{kind}").stat().st_size > 5000


def test_no_weights(make_run: Make, tmp_path: Path) -> None:
    found = Comparison(tmp_path, (Row("ce", (with_alpha(make_run([0.5], [0.1]), None),)),))
    with pytest.raises(ValueError, match="nothing to draw: no run has sample weights"):
        weights_figure(found)


def test_margins_of_nets_beside_the_assumed_ones(tmp_path: Path) -> None:
    margins = np.sort(np.random.default_rng(0).normal(-2.2, 0.2, 5000))
    starts = {"$narrow$": Start(margins, 0.2), "net": pyrite.measure_start("mlp", classes=10)}
    figure = initial_margins_figure(starts, 10)
    panel = figure.axes[0]
    assert panel.get_title() == "$narrow$: mean -2.20, spread 0.20"
    heights = [patch.get_height() * patch.get_width() for patch in panel.patches if hasattr(patch, "get_height")]
    assert sum(heights) == pytest.approx(1, abs=0.01)
    values, edges, _ = panel.patches[-1].get_data()
    centre = (edges[:-1] + edges[1:]) / 2
    assert float((values * np.diff(edges) * centre).sum()) == pytest.approx(-2.617, abs=0.03)
    assert save(figure, tmp_path / "initial.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(ValueError, match="starts is empty"):
        initial_margins_figure({}, 10)
