import gzip
import tracemalloc

import numpy as np
import pytest

from pyrite.data import load
from pyrite.data.official import read_idx


def write_mnist(write, folder, packed=True, stem="{}-{}-idx{}-ubyte", count=7):
    rng = np.random.default_rng(0)
    held = {}
    for part, size in (("train", count), ("t10k", 3)):
        images, labels = rng.integers(0, 256, (size, 28, 28)), rng.integers(0, 10, size)
        ending = ".gz" if packed else ""
        write.idx(folder / (stem.format(part, "images", 3) + ending), images, packed)
        write.idx(folder / (stem.format(part, "labels", 1) + ending), labels, packed)
        held[part] = images, labels
    return held


@pytest.mark.parametrize(("name", "folder"), [("mnist", "mnist"), ("fashion_mnist", "fashion-mnist")])
@pytest.mark.parametrize("packed", [True, False])
def test_official_files(home, write, name, folder, packed):
    held = write_mnist(write, home / folder, packed)
    data = load(name)
    assert data.inputs.shape == (7, 1, 28, 28)
    assert data.inputs.dtype == np.uint8
    assert data.labels.dtype == np.int64
    np.testing.assert_array_equal(data.inputs[:, 0], held["train"][0])
    np.testing.assert_array_equal(data.labels, held["train"][1])
    np.testing.assert_array_equal(data.test.inputs[:, 0], held["t10k"][0])
    np.testing.assert_array_equal(data.test.labels, held["t10k"][1])
    assert len(data.classes) == 10


def test_other_spelling_of_the_names_and_a_path(tmp_path, write):
    write_mnist(write, tmp_path, packed=False, stem="{}-{}.idx{}-ubyte")
    assert len(load("mnist", path=str(tmp_path))) == 7


def test_gzip_is_known_by_its_bytes_not_by_its_name(tmp_path, write):
    path = tmp_path / "numbers"
    write.idx(path, np.arange(6).reshape(6), packed=True)
    np.testing.assert_array_equal(read_idx(path, 1), np.arange(6))


WHOLE = bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "begins with nothing"),
        (WHOLE[:3], "begins with 000008,"),
        (WHOLE[:6], "truncated"),
        (WHOLE[:-1], "claims 3 numbers, but holds 2"),
        (WHOLE + b"x", "claims 3 numbers, but holds 4"),
        (b"\x89PNG" + WHOLE, "begins with 89504e47"),
        (bytes([0, 0, 13]) + WHOLE[3:], "begins with 00000d01"),
        (bytes([0, 0, 8, 2]) + WHOLE[4:] + bytes(8), "begins with 00000802"),
        (bytes([0, 0, 8, 1, 255, 255, 255, 255]), "claims 4294967295 numbers, but holds 0"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 0]), "claims 0 numbers"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_damaged_files_are_refused(tmp_path, refused, content, said, packed):
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(gzip.compress(content) if packed else content)
    message = refused(read_idx, path, 1)
    assert said in message
    assert str(path) in message


def test_damaged_gzip_is_refused(tmp_path, refused):
    path = tmp_path / "a.gz"
    whole = gzip.compress(WHOLE * 1000)
    for content in (whole[: len(whole) // 2], whole[:12], whole[:20] + b"\xff" * 8 + whole[28:]):
        path.write_bytes(content)
        assert str(path) in refused(read_idx, path, 1)


def test_a_bomb_takes_no_memory(tmp_path, refused):
    """A claim of 1.6 GB in a small file is refused before the memory is taken."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0x60, 0, 0, 0]) + bytes(2**20)))
    tracemalloc.start()
    try:
        assert "but holds 1048576" in refused(read_idx, path, 1)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_labels_and_images_must_belong_together(tmp_path, write, refused):
    write_mnist(write, tmp_path)
    write.idx(tmp_path / "train-labels-idx1-ubyte.gz", np.arange(6), packed=True)
    assert "7 inputs but 6 labels" in refused(load, "mnist", path=str(tmp_path))
    write.idx(tmp_path / "train-labels-idx1-ubyte.gz", np.array([0, 1, 2, 3, 4, 5, 10]), packed=True)
    assert "label 10 at index 6" in refused(load, "mnist", path=str(tmp_path))


def test_a_missing_file_in_a_given_folder_is_named(tmp_path, write, refused):
    write_mnist(write, tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte.gz").unlink()
    message = refused(load, "mnist", path=str(tmp_path))
    assert "t10k-images-idx3-ubyte.gz" in message
    assert "is not a folder" in refused(load, "mnist", path=str(tmp_path / "no"))
