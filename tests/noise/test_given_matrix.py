"""matrix(file): where it may come from, and what is no matrix."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.noise import Matrix, noise_model
from tests.noise.examples import ROWS


def test_every_kind_of_file(tmp_path: Path) -> None:
    rows = np.array(ROWS)
    np.save(tmp_path / "t.npy", rows)
    np.save(tmp_path / "float32.npy", rows.astype(np.float32))
    np.savez(tmp_path / "t.npz", matrix=rows)
    (tmp_path / "t.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in ROWS))
    for name in ("t.npy", "float32.npy", "t.npz", "t.csv"):
        model = noise_model(f"matrix({str(tmp_path / name)!r})")
        np.testing.assert_allclose(model.matrix(3), rows, atol=1e-7 if "32" in name else 0, rtol=0)
        assert model.classes == 3
        assert noise_model(str(model)) == model
    assert Matrix(tmp_path / "t.csv") == Matrix(str(tmp_path / "t.csv"))
    for rows_given in (ROWS, rows, tuple(map(tuple, ROWS))):
        assert Matrix(rows_given) == Matrix(ROWS)
        assert np.array_equal(Matrix(rows_given).matrix(3), rows)


def test_rounded_rows_add_up_to_one_again() -> None:
    rows = [[0.3333, 0.3333, 0.3333]] * 3
    np.testing.assert_allclose(Matrix(rows).matrix(3).sum(1), 1, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([[0.5, 0.5]], r"shape \(1, 2\)"),
        ([[1.0]], r"shape \(1, 1\)"),
        ([0.5, 0.5], r"shape \(2,\)"),
        ([[0.5, 0.5], [0.6, 0.5]], r"row 1 = \[0\.6, 0\.5\], which adds up to 1\.1"),
        ([[1.5, -0.5], [0, 1]], r"row 0 = \[1\.5, -0\.5\]"),
        ([[float("nan"), 1], [0, 1]], r"row 0 = \[nan, 1\]"),
        ([[0.5, 0.5], [1]], "rows of numbers"),
        ([["a", "b"], ["c", "d"]], "rows of numbers"),
        (None, "matrix"),
    ],
)
def test_what_is_no_matrix(rows: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Matrix(rows)


def test_other_number_of_classes() -> None:
    with pytest.raises(ValueError, match="classes is 4, but the matrix is for 3 classes"):
        Matrix(ROWS).matrix(4)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.csv", b"", r"shape \(0, 1\)"),
        ("t.csv", b"a,b\n0.5,0.5\n", "could not convert string 'a' to float64 at row 0"),
        ("t.csv", b"0.5,0.5\n1\n", "the number of columns changed from 2 to 1 at row 2$"),
        ("t.csv", b"0.5,0.5\n0.5,0.6\n", "row 1 = "),
        ("t.csv", b"\xff\xfe\x00", "cannot read"),
        ("t.npy", b"", "it is empty"),
        ("t.npy", b"nothing", "cannot read"),
        ("t.npz", b"nothing", "not a complete .npz file"),
        ("t.txt", b"1", r"a matrix is a \.csv, \.npy or \.npz file"),
    ],
)
def test_bad_files(name: str, content: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        Matrix(tmp_path / name).matrix(2)


def test_more_bad_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        Matrix("nowhere.csv").matrix(2)
    np.savez(tmp_path / "other.npz", rows=np.eye(2))
    with pytest.raises(ValueError, match="no array called 'matrix'"):
        Matrix(tmp_path / "other.npz").matrix(2)
    np.savez(tmp_path / "objects.npz", matrix=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="holds Python objects"):
        Matrix(tmp_path / "objects.npz").matrix(2)
    np.save(tmp_path / "dict.npy", np.array({"matrix": 1}, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="array of numbers"):
        Matrix(tmp_path / "dict.npy").matrix(2)
