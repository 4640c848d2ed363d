"""The picture of training."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from pyrite.comparing import Comparison, Row
from pyrite.report.figures import learning_figure, run_figure
from pyrite.report.style import COLOURS, dark, encode, save
from pyrite.training import Run

Make = Callable[..., Run]


def lines(figure: Figure, panel: int) -> dict[str, tuple[str, list[float], list[float]]]:
    return {
        str(line.get_label()): (to_hex(line.get_color()).upper(), list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for line in figure.axes[panel].lines
    }


def test_a_line_a_loss_in_both_panels(make_run: Make, tmp_path: Path) -> None:
    rows = Row("ce", (make_run([0.5, 0.7], [0.1, 0.9]),)), Row("$mae$", (make_run([0.6, 0.8], [0.1, 0.2]),))
    found = Comparison(tmp_path, rows)
    figure = learning_figure(found)
    assert lines(figure, 0) == {
        "ce": (COLOURS[0], [1, 2], [0.5, 0.7]),
        "$mae$": (COLOURS[1], [1, 2], [0.6, 0.8]),
    }
    assert lines(figure, 1)["ce"] == (COLOURS[0], [1, 2], [0.1, 0.9])
    assert [axes.get_ylabel() for axes in figure.axes] == ["test accuracy", "wrong labels memorised"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ce", "$mae$"]
    path = save(learning_figure(found), tmp_path / "deep" / "learning.png")
    with Image.open(path) as picture:
        assert picture.width == 1200


def test_several_seeds_are_a_mean_and_a_band(make_run: Make, tmp_path: Path) -> None:
    runs = make_run([0.5, 0.7], [0.1, 0.9]), make_run([0.7, 0.8], [0.3, 0.5])
    figure = learning_figure(Comparison(tmp_path, (Row("ce", runs),)))
    assert lines(figure, 0)["ce"][2] == pytest.approx([0.6, 0.75])
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert {(1, 0.5), (1, 0.7), (2, 0.7), (2, 0.8)} <= {(x, y) for x, y in np.asarray(band).tolist()}


def test_what_is_unknown_has_no_panel(make_run: Make, tmp_path: Path) -> None:
    figure = learning_figure(Comparison(tmp_path, (Row("ce", (make_run([0.5, 0.7], [None, None]),)),)))
    assert [axes.get_ylabel() for axes in figure.axes] == ["test accuracy"]
    assert figure.axes[0].get_xlabel() == "epoch"
    nothing = Comparison(tmp_path, (Row("ce", (make_run([None], [None]),)),))
    with pytest.raises(ValueError, match="no run has test accuracy or true labels"):
        learning_figure(nothing)


def test_dark_pictures_are_dark_and_leave_no_trace(make_run: Make, tmp_path: Path) -> None:
    found = Comparison(tmp_path, tuple(Row(f"loss {i}", (make_run([0.5, 0.7], [0.1, 0.9]),)) for i in range(7)))
    with dark():
        figure = learning_figure(found)
        content = encode(figure)
    (tmp_path / "dark.png").write_bytes(content)
    with Image.open(tmp_path / "dark.png") as picture:
        assert sum(picture.convert("RGB").getpixel((0, 0))) < 150
    # The seventh colour is black, which would not be seen.
    assert sum(int(lines(figure, 0)["loss 6"][0][i : i + 2], 16) for i in (1, 3, 5)) > 500
    assert lines(learning_figure(found), 0)["loss 6"][0] == COLOURS[6]


def test_one_run_tells_right_labels_from_wrong_where_it_can(make_run: Make) -> None:
    known = lines(run_figure(make_run([0.5, 0.7], [0.1, 0.4])), 0)
    assert {name: values for name, (_, _, values) in known.items()} == {
        "test accuracy": [0.5, 0.7],
        "right labels learned": [0.9, 0.9],
        "wrong labels memorised": [0.1, 0.4],
        "wrong labels recovered": [0.05, 0.05],
    }
    unknown = make_run([None, None], [None, None], truth=False)
    for line in unknown.history:
        line |= {"clean_accuracy": None, "recovered": None, "validation_accuracy": 0.5}
    assert set(lines(run_figure(unknown), 0)) == {"validation accuracy, given labels", "given labels learned"}
    with pytest.raises(ValueError, match="no epoch is finished"):
        run_figure(make_run([], []))
