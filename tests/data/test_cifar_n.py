import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

from pyrite.data import load

COLUMNS = ("aggre_label", "worse_label", "random_label1", "random_label2", "random_label3")


@pytest.fixture
def cifar10n(home, write):
    """CIFAR-10 in the data folder, and human columns for it that are wrong in places that are known."""
    _, labels = write.cifar10(home / "cifar10" / "cifar-10-batches-py")
    columns = {"clean_label": labels}
    for number, name in enumerate(COLUMNS, start=1):
        columns[name] = labels.copy()
        columns[name][: 4 * number] = (labels[: 4 * number] + 1) % 10
    return home / "cifar10", columns


def test_the_official_pt(cifar10n):
    folder, columns = cifar10n
    torch.save(columns, folder / "CIFAR-10_human.pt")
    data = load("cifar10n")
    assert set(data.human) == set(COLUMNS)
    np.testing.assert_array_equal(data.labels, columns["worse_label"])
    np.testing.assert_array_equal(data.true, columns["clean_label"])
    assert np.flatnonzero(data.labels != data.true).tolist() == list(range(8))
    for number, name in enumerate(COLUMNS, start=1):
        read = load("cifar10n", column=name)
        assert (read.labels != read.true).sum() == 4 * number
    np.testing.assert_array_equal(data.test.labels, load("cifar10").test.labels)


def test_the_official_npy_is_put_in_the_order_of_the_images(cifar10n):
    folder, columns = cifar10n
    place = np.random.default_rng(5).permutation(100)
    ordered = {name: column[place] for name, column in columns.items()}
    np.save(folder / "CIFAR-10_human_ordered.npy", ordered, allow_pickle=True)
    np.save(folder / "image_order_c10.npy", place)
    data = load('cifar10n(column="random_label3")')
    for name in COLUMNS:
        np.testing.assert_array_equal(data.human[name], columns[name])


def test_the_plain_npy_is_in_the_order_of_the_images(cifar10n):
    folder, columns = cifar10n
    np.save(folder / "CIFAR-10_human.npy", columns, allow_pickle=True)
    np.save(folder / "image_order_c10.npy", np.arange(100)[::-1].copy())  # belongs to the other file
    np.testing.assert_array_equal(load("cifar10n").labels, columns["worse_label"])


def test_a_permuted_file_is_caught(cifar10n, refused):
    folder, columns = cifar10n
    place = np.random.default_rng(5).permutation(100)
    permuted = {name: column[place] for name, column in columns.items()}
    torch.save(permuted, folder / "CIFAR-10_human.pt")
    message = refused(load, "cifar10n")
    first = int((permuted["clean_label"] != columns["clean_label"]).argmax())
    assert f"at index {first}," in message
    # Two neighbours of different classes swapped leave all counts as they are.
    swap = int((np.diff(columns["clean_label"]) != 0).argmax())
    order = np.arange(100)
    order[[swap, swap + 1]] = swap + 1, swap
    torch.save({name: column[order] for name, column in columns.items()}, folder / "CIFAR-10_human.pt")
    message = refused(load, "cifar10n")
    assert f"at index {swap}," in message
    assert "2 of 100 differ" in message


def test_an_npy_without_its_order_is_caught(cifar10n, refused):
    folder, columns = cifar10n
    place = np.random.default_rng(5).permutation(100)
    ordered = {name: column[place] for name, column in columns.items()}
    np.save(folder / "CIFAR-10_human_ordered.npy", ordered, allow_pickle=True)
    assert "image_order" in refused(load, "cifar10n")
    np.save(folder / "image_order_c10.npy", np.zeros(100, np.int64))
    assert "come twice" in refused(load, "cifar10n")
    np.save(folder / "image_order_c10.npy", place[:50])
    assert "100 positions" in refused(load, "cifar10n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clean_label": None}, "no column 'clean_label'"),
        ({"worse_label": np.zeros(99, np.int64)}, "99 labels, but the data has 100"),
        ({"worse_label": np.full(100, 10)}, "label 10 at index 0"),
        ({"worse_label": np.full(100, 0.5)}, "no column 'worse_label'"),
    ],
)
def test_wrong_columns_are_refused(cifar10n, refused, change, said):
    folder, columns = cifar10n
    kept = {name: column for name, column in (columns | change).items() if column is not None}
    torch.save(kept, folder / "CIFAR-10_human.pt")
    assert said in refused(load, "cifar10n")


def test_an_unknown_column_is_named_with_those_there_are(cifar10n, refused):
    folder, columns = cifar10n
    torch.save(columns, folder / "CIFAR-10_human.pt")
    message = refused(load, "cifar10n", column="worst")
    assert "'worst'" in message
    assert "worse_label" in message
    assert "clean_label" in refused(load, "cifar10n", column="clean_label")


def test_a_malicious_file_runs_nothing(cifar10n, refused, tmp_path):
    folder, _ = cifar10n
    sign = tmp_path / "sign"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {sign}",)

    with zipfile.ZipFile(folder / "CIFAR-10_human.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"clean_label": Evil()}, protocol=2))
    assert "CIFAR-10_human.pt" in refused(load, "cifar10n")
    (folder / "CIFAR-10_human.pt").unlink()
    buffer = io.BytesIO()
    np.save(buffer, np.array({"clean_label": Evil()}, dtype=object), allow_pickle=True)
    (folder / "CIFAR-10_human_ordered.npy").write_bytes(buffer.getvalue())
    assert "CIFAR-10_human_ordered.npy" in refused(load, "cifar10n")
    assert not sign.exists()


def test_the_missing_file_is_named(cifar10n, refused):
    folder, _ = cifar10n
    message = refused(load, "cifar10n")
    assert "CIFAR-10_human.pt" in message
    assert str(folder) in message


def test_a_file_elsewhere(cifar10n, tmp_path):
    _, columns = cifar10n
    torch.save(columns, tmp_path / "mine.pt")
    assert len(load("cifar10n", labels=str(tmp_path / "mine.pt"))) == 100


def test_cifar100n(home, write, refused):
    folder = home / "cifar100"
    fine, coarse = write.cifar100(folder / "cifar-100-python")
    columns = {
        "clean_label": fine,
        "noisy_label": np.where(np.arange(40) < 10, (fine + 1) % 100, fine),
        "clean_coarse_label": coarse,
        "noisy_coarse_label": np.where(np.arange(40) < 6, (coarse + 1) % 20, coarse),
    }
    torch.save(columns, folder / "CIFAR-100_human.pt")
    data = load("cifar100n")
    assert (data.labels != data.true).sum() == 10
    assert (len(data.classes), set(data.human)) == (100, {"noisy_label", "noisy_coarse_label"})
    data = load('cifar100n(column="noisy_coarse_label")')
    assert (data.labels != data.true).sum() == 6
    np.testing.assert_array_equal(data.true, coarse)
    assert (len(data.classes), len(data.test.classes), data.test.labels.max() < 20) == (20, 20, True)
    (folder / "CIFAR-100_human.pt").unlink()
    named = {"clean_label": fine, "noise_label": columns["noisy_label"]}
    np.save(folder / "CIFAR-100_human.npy", named, allow_pickle=True)
    assert (load("cifar100n").labels != fine).sum() == 10
    columns["clean_coarse_label"] = np.roll(coarse, 1)
    torch.save(columns, folder / "CIFAR-100_human.pt")
    assert "clean_coarse_label is" in refused(load, "cifar100n")
