"""The picture of a noise matrix."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from pyrite.noise import noise_model
from pyrite.report.figures import _SHADES, matrix_figure
from pyrite.report.style import save


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def ticks(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_ten_classes_have_names_and_numbers() -> None:
    names = [f"class {letter}" for letter in "abcdefghij"]
    matrix = noise_model("asymmetric(0.4)").matrix(10)
    figure = matrix_figure(matrix, names, "title")
    assert ticks(figure) == names
    # 0.45 inches per class and a frame, up to 9.5, and at least 4.5, so that a number fits into its cell.
    sizes = [matrix_figure(np.eye(classes)).get_size_inches().tolist() for classes in (2, 10, 50)]
    assert sizes == [[5.8, 4.5], pytest.approx([8.4, 7.1]), [10.8, 9.5]]
    assert sorted(texts(figure)) == sorted(["60", "40"] * 5 + ["100"] * 5)
    image = figure.axes[0].images[0]
    assert np.array_equal(image.get_array(), matrix)
    # T[i, j] stands in row i and column j.
    cell = next(text for text in figure.axes[0].texts if text.get_position() == (1, 9))
    assert cell.get_text() == "40"  # truck, given automobile


def test_between_thirteen_and_thirty_no_numbers() -> None:
    figure = matrix_figure(noise_model("symmetric(0.4)").matrix(13))
    assert texts(figure) == []
    assert ticks(figure) == [str(number) for number in range(13)]


def test_a_hundred_classes_are_numbered_by_tens(tmp_path: Path) -> None:
    figure = matrix_figure(noise_model("symmetric(0.4)").matrix(100), [f"name {i}" for i in range(100)])
    assert ticks(figure) == [str(number) for number in range(0, 100, 10)]
    with Image.open(save(figure, tmp_path / "m.png")) as picture:
        picture.load()
        assert min(picture.size) >= 1000  # ten pixels a class


def test_a_small_share_is_seen() -> None:
    """0.4 % among 100 classes, and nothing, are told apart: ten steps of 255 or more."""
    from matplotlib.colors import PowerNorm

    nothing, little = (np.array(_SHADES(PowerNorm(0.5, vmin=0, vmax=1)(share))) for share in (0.0, 0.004))
    assert 255 * np.abs(nothing - little).max() >= 9
    lightness = [sum(_SHADES(share)[:3]) for share in np.linspace(0, 1, 50)]
    assert all(more < less for less, more in itertools.pairwise(lightness))


def test_names_are_not_formulas_and_long_ones_are_cut(tmp_path: Path) -> None:
    names = ["$x^$", "a" * 80, "_"]
    figure = matrix_figure(np.eye(3), names, "$title^$ " + "long " * 100)
    save(figure, tmp_path / "m.png")
    assert ticks(figure)[0] == "$x^$"
    assert len(ticks(figure)[1]) < 25
    assert len(figure.axes[0].get_title()) < 100


@pytest.mark.parametrize(
    ("matrix", "names", "complaint"),
    [
        (np.zeros((2, 3)), None, r"shape \(2, 3\)"),
        (np.full((2, 2), np.nan), None, "finite"),
        (np.eye(3), ["a", "b"], "names has 2 names, but there are 3 classes"),
    ],
)
def test_bad_input(matrix: Any, names: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        matrix_figure(matrix, names)
