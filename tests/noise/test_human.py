"""human(file, column): the official layouts, and files that are not about these samples."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite.noise import Human, noise_model

CLEAN = np.array([6, 9, 9, 4, 1, 1, 2, 7, 8, 3] * 30)
WORSE = np.where(np.arange(300) % 5 < 2, (CLEAN + 1) % 10, CLEAN)


def cifar10n() -> dict[str, Any]:
    aggregate = np.where(np.arange(300) % 10 == 0, (CLEAN + 2) % 10, CLEAN)
    return {"clean_label": CLEAN, "aggre_label": aggregate, "worse_label": WORSE, "random_label1": WORSE[::-1].copy()}


def cifar100n() -> dict[str, Any]:
    """Arrays for fine labels, lists for coarse ones, as the official file has them."""
    return {
        "clean_label": CLEAN,
        "noisy_label": WORSE,
        "clean_coarse_label": (CLEAN // 2).tolist(),
        "noisy_coarse_label": (WORSE // 2).tolist(),
    }


def written(folder: Path, ending: str, columns: dict[str, Any]) -> str:
    path = folder / f"human{ending}"
    match ending:
        case ".pt":
            torch.save(columns, path)
        case ".npy":
            np.save(path, np.array(columns, dtype=object), allow_pickle=True)
        case ".npz":
            np.savez(path, **columns)
    return str(path)


@pytest.mark.parametrize("ending", [".pt", ".npy", ".npz"])
def test_labels_are_read(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, ending, cifar10n())
    noisy = pyrite.corrupt(CLEAN, f"human({path!r}, 'worse_label')", classes=10, seed=3)
    assert np.array_equal(noisy.given, WORSE)
    assert np.array_equal(noisy.true, CLEAN)
    assert noisy.rate == 0.4
    assert np.array_equal(noisy.matrix, noisy.realised)
    np.testing.assert_allclose(noisy.matrix.sum(1), 1)
    assert noisy.matrix[5].tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]  # no sample of it
    assert noisy.noise == f"human(file={path!r}, column='worse_label')"
    assert noise_model(noisy.noise) == Human(path, "worse_label")
    aggregated = pyrite.corrupt(CLEAN, Human(path, "aggre_label"))
    assert aggregated.rate == pytest.approx(0.1)


def test_seed_does_not_matter(tmp_path: Path) -> None:
    path = written(tmp_path, ".pt", cifar10n())
    one, two = (pyrite.corrupt(CLEAN, Human(path, "worse_label"), seed=seed) for seed in (0, 1))
    assert np.array_equal(one.given, two.given)


def test_coarse_labels_have_their_own_truth(tmp_path: Path) -> None:
    path = written(tmp_path, ".pt", cifar100n())
    noisy = pyrite.corrupt(CLEAN // 2, Human(path, "noisy_coarse_label"), classes=5)
    assert np.array_equal(noisy.given, WORSE // 2)
    with pytest.raises(ValueError, match="clean_label is"):
        pyrite.corrupt(CLEAN // 2, Human(path, "noisy_label"), classes=5)
    other = pyrite.corrupt(CLEAN // 2, Human(path, "noisy_coarse_label", clean="clean_coarse_label"), classes=5)
    assert np.array_equal(other.given, noisy.given)


def test_a_permuted_file_is_caught(tmp_path: Path) -> None:
    columns = {name: column.copy() for name, column in cifar10n().items()}
    for column in columns.values():
        column[[100, 207]] = column[[207, 100]]
    path = written(tmp_path, ".pt", columns)
    with pytest.raises(
        ValueError, match=r"clean_label is 7 at index 100, where the data's label is 6; 2 of 300 differ"
    ):
        pyrite.corrupt(CLEAN, Human(path, "worse_label"))


def test_a_file_for_other_data_is_caught(tmp_path: Path) -> None:
    path = written(tmp_path, ".npy", cifar10n())
    with pytest.raises(ValueError, match="clean_label has 300 labels, but the data has 299"):
        pyrite.corrupt(CLEAN[:-1], Human(path, "worse_label"))
    short = cifar10n() | {"worse_label": WORSE[:-1]}
    with pytest.raises(ValueError, match="worse_label has 299 labels, but the data has 300"):
        pyrite.corrupt(CLEAN, Human(written(tmp_path, ".pt", short), "worse_label"))
    with pytest.raises(ValueError, match="worse_label: label 19 at index 0, but there are 10 classes"):
        pyrite.corrupt(CLEAN, Human(written(tmp_path, ".pt", cifar10n() | {"worse_label": WORSE + 12}), "worse_label"))
    with pytest.raises(ValueError, match="worse_label: label -1 at index 0"):
        pyrite.corrupt(
            CLEAN, Human(written(tmp_path, ".pt", cifar10n() | {"worse_label": WORSE * 0 - 1}), "worse_label")
        )


def test_columns_that_are_not_there_or_not_labels(tmp_path: Path) -> None:
    path = written(tmp_path, ".pt", cifar10n() | {"scores": [0.5] * 300, "ragged": [[1], [1, 2]]})
    with pytest.raises(ValueError, match="no column 'worst_label': did you mean 'worse_label'"):
        pyrite.corrupt(CLEAN, Human(path, "worst_label"))
    with pytest.raises(ValueError, match="no column 'zzz': there are: aggre_label, clean_label"):
        pyrite.corrupt(CLEAN, Human(path, "zzz"))
    for column in ("scores", "ragged"):
        with pytest.raises(ValueError, match=f"no column '{column}'"):
            pyrite.corrupt(CLEAN, Human(path, column))
    with pytest.raises(ValueError, match="no column 'clean_label'"):
        pyrite.corrupt(CLEAN, Human(written(tmp_path, ".pt", {"worse_label": WORSE}), "worse_label"))


def test_files_without_columns(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", WORSE)
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({1: WORSE}, tmp_path / "numbers.pt")
    for name in ("plain.npy", "list.pt", "numbers.pt"):
        with pytest.raises(ValueError, match="it holds no columns with names"):
            pyrite.corrupt(CLEAN, Human(str(tmp_path / name), "worse_label"))
    with pytest.raises(ValueError, match=r"a \.pt, \.npy or \.npz file"):
        pyrite.corrupt(CLEAN, Human("labels.txt", "worse_label"))
    with pytest.raises(ValueError, match="no such file"):
        pyrite.corrupt(CLEAN, Human("nowhere.pt", "worse_label"))
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"not a complete \.npz file"):
        pyrite.corrupt(CLEAN, Human(str(tmp_path / "broken.npz"), "worse_label"))


def test_a_torch_file_of_tensors_is_refused_by_name(tmp_path: Path) -> None:
    torch.save({"clean_label": torch.tensor(CLEAN), "worse_label": torch.tensor(WORSE)}, tmp_path / "tensors.pt")
    with pytest.raises(ValueError, match=r"it names 'torch\._utils\._rebuild_tensor_v2'"):
        pyrite.corrupt(CLEAN, Human(str(tmp_path / "tensors.pt"), "worse_label"))


def test_no_matrix_beforehand() -> None:
    with pytest.raises(ValueError, match="people gave the labels"):
        Human("human.pt", "worse_label").matrix(10)


@pytest.mark.parametrize("arguments", [(1, "a"), ("a", 1), ("a", "b", 1), (None, "a")])
def test_arguments_are_texts(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="must be a text"):
        Human(*arguments)
