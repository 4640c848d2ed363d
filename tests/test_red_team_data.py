"""Data of hostile and unlucky users, given to the command line: the right answer, or one sentence and exit code 2.

``docs/testing.md`` lists what was tried.
"""

import io
import sys
import time
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import pyrite
from pyrite.cli.app import main

RNG = np.random.default_rng(0)
LABELS = np.arange(300) % 2
HEIGHTS = RNG.integers(-40, 41, 300) + np.where(LABELS, 60, -60)
QUICK = ("--epochs", "6", "--batch-size", "32", "--seed", "0")


def typed(*words: str) -> tuple[int, str]:
    """Exit code of ``pyrite`` with these words, and all that it printed, on one line."""
    printed = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["pyrite", *words]),
        redirect_stdout(printed),
        redirect_stderr(printed),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0, " ".join(printed.getvalue().split())


def refused(*words: str) -> str:
    """The sentence of something that is refused at once."""
    started = time.monotonic()
    code, said = typed(*words)
    assert code == 2, said
    assert "Traceback" not in said
    assert time.monotonic() - started < 10
    return said


def table(path: Path, heights: np.ndarray, labels: np.ndarray | None = None) -> str:
    rows = zip(heights.tolist(), (LABELS if labels is None else labels).tolist(), strict=True)
    path.write_text("height,label\n" + "".join(f"{height!r},{label}\n" for height, label in rows))
    return str(path)


def trained(tmp_path: Path, data: str, *words: str) -> pyrite.Run:
    out = tmp_path / "run"
    code, said = typed("train", data, *QUICK, *words, "--out", str(out))
    assert code == 0, said
    return pyrite.Run.load(out)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1.0, 1.7e9), (1e300, 0.0), (1e-300, 0.0), (1e39, 0.0), (1e-42, 0.0)], ids=str
)
def test_a_column_of_any_size_is_learned(tmp_path: Path, scale: float, shift: float) -> None:
    run = trained(tmp_path, table(tmp_path / "a.csv", HEIGHTS * scale + shift), "--loss", "ce")
    assert run.history[-1]["validation_accuracy"] > 0.95
    data = run.dataset()
    assert (run.scores(data.inputs).argmax(1) == data.labels).mean() > 0.95


def test_times_in_seconds_are_no_repeats(tmp_path: Path) -> None:
    from pyrite import data_issues

    seconds = 1.7e9 + np.arange(300.0)
    assert data_issues(pyrite.data.load(table(tmp_path / "a.csv", seconds))).repeated == 0


@pytest.mark.parametrize("cell", [1e39, -1e300, 1e12])
def test_a_cell_far_from_all_others_is_named(tmp_path: Path, cell: float) -> None:
    path = table(tmp_path / "a.csv", np.append(HEIGHTS[:-1] / 7, cell))
    assert f"row 300 (line 301), column 'height': {cell:g} is so far from" in refused("train", path)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("1e309", "'1e309' is not a number"),
        ("inf", "'inf' is not a number"),
        ("0x10", "'0x10' is not a number, but 30 of 31 cells of the column are"),
        ("1_000", "'1_000' is not a number, but 30 of 31 cells of the column are"),
    ],
)
def test_cells_that_are_no_numbers(tmp_path: Path, cell: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"height,label\n1,a\n{cell},b\n" + "2,a\n" * 29)
    assert f"a.csv, row 2 (line 3), column 'height': {said}" in refused("train", str(path))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", "nan", "b"], "the label at index 1 is missing ('nan')"),
        (["a", "<NA>", "b"], "the label at index 1 is missing ('<NA>')"),
        (["1", "01", "2"], "'01' and '1' are one class"),
        (["a", " ", "b"], "row 2 (line 3), column 'label': the label is missing"),
        (["a", "a", "a"], "only the class 'a'"),
    ],
)
def test_labels(tmp_path: Path, labels: list[str], said: str) -> None:
    assert said in refused("train", table(tmp_path / "a.csv", np.arange(3.0), np.array(labels)))


def test_rare_classes(tmp_path: Path) -> None:
    rare = np.where(np.arange(300) == 7, 2, (np.arange(300) % 100 == 0).astype(int))
    run = trained(tmp_path, table(tmp_path / "a.csv", HEIGHTS, rare))
    assert run.classes == ("0", "1", "2")


def test_transparent_images(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    images = RNG.integers(0, 256, (40, 10, 12, 4)).astype(np.uint8)
    np.savez(path, x=images, y=np.arange(40) % 2)
    run = trained(tmp_path, str(path), "--model", "mlp(hidden=[4])")
    assert run.facts["shape"] == [3, 10, 12]
    assert run.dataset().inputs[5, 1].tolist() == images[5, :, :, 1].tolist()


def test_images_whose_layout_nobody_can_tell(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((40, 3, 12, 3), np.uint8), y=np.arange(40) % 2)
    assert "specify channels='first' or channels='last'" in refused("train", str(path))
    run = trained(tmp_path, f"npz('{path}', channels='last')", "--model", "mlp(hidden=[4])")
    assert run.facts["shape"] == [3, 3, 12]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["blobs(samples=1000000000000)"], "blobs of 1000000000000 samples of 2 features would take"),
        (["blobs(samples=1e12)"], "samples is 1000000000000.0, but must be a whole number"),
        (["blobs(features=1000000000000)"], "would take"),
        (["gratings(size=10000000)"], "would take"),
        (["blobs", "--model", "mlp(hidden=(1000000000,))"], "training mlp(hidden=(1000000000,)) with its"),
        (["gratings", "--model", "wrn(depth=16, width=1000000)"], "would take"),
    ],
    ids=str,
)
def test_more_than_memory_holds(tmp_path: Path, words: list[str], said: str) -> None:
    assert said in refused("train", *words, "--out", str(tmp_path / "run"))


@pytest.mark.parametrize("shape", [(-300, 1), (2**62, 2**62), (2**40, 1), (300,) * 33], ids=str)
def test_headers_that_claim_any_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, y=LABELS)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})  # type: ignore[arg-type]
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("x.npy", header.getvalue() + bytes(2400))
    assert "a.npz: x: " in refused("train", str(path))


@pytest.mark.parametrize("ending", [".csv", ".npz", ".parquet"])
def test_files_of_nothing_and_of_noise(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    for content in (b"", RNG.bytes(200)):
        path.write_bytes(content)
        assert path.name in refused("train", str(path))


def test_whole_numbers_that_float64_cannot_tell_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=2**60 + np.arange(300)[:, None], y=LABELS)
    said = refused("train", str(path))
    assert "x, row 0, column 0: the numbers of the column, from 1152921504606846976 to 1152921504606847275," in said
    assert "differ by less than float64 resolves" in said


@pytest.mark.parametrize("text", ["{}", "{}.0", " {}.25e0"])
def test_numbers_of_a_table_that_float64_cannot_tell_apart(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"{text.format(2**60 + number)},{number % 2}\n" for number in range(300))
    path.write_text("id,label\n" + rows)
    assert "column 'id': the numbers of the column, from 1152921504606846976" in refused("train", str(path))


def test_times_in_nanoseconds_over_days_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"{1_700_000_000_000_000_000 + number * 10**12},{number % 2}\n" for number in range(60))
    path.write_text("time,label\n" + rows)
    assert len(np.unique(pyrite.data.load(str(path)).inputs)) == 60


def test_noise_for_more_classes_than_there_are(tmp_path: Path) -> None:
    out = str(tmp_path / "noisy.npz")
    assert "classes is 2, but flips mistakes a class for 3 others" in refused(
        "corrupt", "blobs(classes=2)", "--noise", "flips(0.4, 3)", "--out", out
    )
    code, said = typed("corrupt", "blobs(classes=5)", "--noise", "flips(0.4, 3)", "--out", out)
    assert code == 0, said
    assert pyrite.NoisyLabels.load(out).noise == "flips(rate=0.4, targets=3)"
