"""The picture of margins."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from PIL import Image

from pyrite.comparing import Comparison, Row
from pyrite.report.figures import margins_figure
from pyrite.report.style import COLOURS, save
from pyrite.training import Run

Make = Callable[..., Run]


def steps(axes: object) -> dict[str, dict[float, float]]:
    """Heights by left edges, where there is any height, of the outlines."""
    found = {}
    for patch in axes.patches:  # type: ignore[attr-defined]
        assert isinstance(patch, StepPatch)
        if not patch.get_fill():
            values, edges, _ = patch.get_data()
            colour = to_hex(patch.get_edgecolor()).upper()
            found[colour] = {float(edge): float(value) for edge, value in zip(edges, values, strict=False) if value}
    return found


def test_right_and_wrong_labels_each_have_an_area_of_one(make_run: Make, tmp_path: Path) -> None:
    figure = margins_figure(Comparison(tmp_path, (Row("ce", (make_run([0.5] * 12, [0.1] * 12),)),)))
    # Bins are one wide: all six right labels lie between 0 and 1, all four wrong ones between -10 and -9.
    for axes in figure.axes:
        assert steps(axes) == {COLOURS[0]: {0.0: 1.0}, COLOURS[1]: {-10.0: 1.0}}
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["epoch 1", "epoch 2", "epoch 6", "epoch 12"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["right labels", "wrong labels"]


def test_without_truth_all_labels_are_one_histogram(make_run: Make, tmp_path: Path) -> None:
    run = make_run([0.5, 0.6], [None, None], truth=False)
    figure = margins_figure(run)
    assert steps(figure.axes[0]) == {COLOURS[0]: {0.0: 0.6, -10.0: 0.4}}
    assert figure.axes[0].texts[1].get_text() == "erm(ce)"
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["epoch 1", "epoch 2"]
    with Image.open(save(margins_figure(run), tmp_path / "m.png")) as picture:
        assert picture.width == 720


def test_what_lies_beyond_the_axis_is_written(make_run: Make, tmp_path: Path) -> None:
    near, far = make_run([0.5], [0.1]), make_run([0.5], [0.1])
    far.samples["margins"][:, -1] += 18  # right labels from 20 on: 18 of 24
    figure = margins_figure(Comparison(tmp_path, (*(Row(f"{i}", (near,)) for i in range(4)), Row("far", (far,)))))
    reach = figure.axes[0].get_xlim()[1]
    assert reach == 10  # four rows of five need no more
    said = [text.get_text() for text in figure.axes[-1].texts]
    assert said[0] == "75% ▸"
    assert steps(figure.axes[-1])[COLOURS[0]] == {0.0: 0.25}


def test_counts_within_and_beyond_by_hand(make_run: Make) -> None:
    """Bins of width 1: one count below -20 and on its right, as many on either side of 0, more beyond 20."""
    run = make_run([0.5], [None], truth=False)
    run.samples["margins"][:] = np.arange(1, 43)
    axes = margins_figure(run).axes[0]
    assert axes.get_xlim() == (-20, 20)
    total = 42 * 43 / 2
    assert steps(axes)[COLOURS[0]] == pytest.approx({float(edge): (edge + 22) / total for edge in range(-20, 20)})
    assert "5% ▸" in [text.get_text() for text in axes.texts]  # 42 of 903; the one below -20 is less than 0.5 %


def test_nothing_to_draw(make_run: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run has finished an epoch"):
        margins_figure(make_run([], []))
