import io
import math
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from pyrite.data import Dataset, load

IMAGES = np.arange(4 * 3 * 5 * 6, dtype=np.uint8).reshape(4, 3, 5, 6)
Y = np.array([2, 5, 2, 5])


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("writer", [np.savez, np.savez_compressed])
def test_images(tmp_path, writer):
    path = tmp_path / "set.npz"
    writer(path, x=IMAGES, y=Y, x_test=IMAGES[:2], y_test=Y[1:3])
    data = load(path)
    np.testing.assert_array_equal(data.inputs, IMAGES)
    assert (data.labels.tolist(), data.classes) == ([0, 1, 0, 1], ("2", "5"))
    assert data.test.labels.tolist() == [1, 0]
    assert data.name == "set"


def test_other_layouts_of_images(tmp_path):
    path = save(tmp_path / "a.npz", x=IMAGES[:, 0], y=Y)
    np.testing.assert_array_equal(load(path).inputs, IMAGES[:, :1])
    path = save(tmp_path / "a.npz", x=IMAGES.transpose(0, 2, 3, 1), y=Y)
    np.testing.assert_array_equal(load(path).inputs, IMAGES)
    path = save(tmp_path / "a.npz", x=IMAGES.transpose(0, 2, 3, 1) / 255, y=Y)  # floating-point numbers stay so
    np.testing.assert_array_equal(load(path).inputs, (IMAGES / 255).astype(np.float32))
    path = save(tmp_path / "a.npz", x=np.asfortranarray(IMAGES), y=Y)
    np.testing.assert_array_equal(load(path).inputs, IMAGES)


def test_features_texts_and_names(tmp_path):
    path = save(tmp_path / "a.npz", x=np.arange(8).reshape(4, 2), y=np.array(["b", "a", "b", "ö"]))
    data = load(path)
    assert data.inputs.dtype == np.float64
    assert (data.labels.tolist(), data.classes) == ([1, 0, 1, 2], ("a", "b", "ö"))
    path = save(tmp_path / "a.npz", x=np.ones((4, 2)), y=Y - 2, classes=np.array(["p", "q", "r", "s"]))
    assert load(path).labels.tolist() == [0, 3, 0, 3]
    assert load(path).classes == ("p", "q", "r", "s")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": IMAGES}, "no array 'y'"),
        ({"y": Y}, "no array 'x'"),
        ({"x": IMAGES, "y": Y[:3]}, "x has 4 samples, y has 3"),
        ({"x": IMAGES, "y": Y[:, None]}, "y: int64 of shape (4, 1)"),
        ({"x": IMAGES, "y": Y / 2}, "y: float64"),
        ({"x": np.where(IMAGES < 250, IMAGES / 255, np.inf), "y": Y}, "value"),
        ({"x": IMAGES[0, 0, 0], "y": Y}, "x: uint8 of shape (6,)"),
        ({"x": np.ones((4, 2), complex), "y": Y}, "complex"),
        ({"x": np.array([["a"]] * 4), "y": Y}, "<U1"),
        (
            {"x": np.array([[0, 1], [0, np.nan], [0, 1], [0, 1]]), "y": Y},
            "x, row 1, column 1: nan is not a finite number",
        ),
        ({"x": np.array([[1.0], [2.0], [1e39], [3.0]]), "y": Y}, "x, row 2, column 0: 1e+39 is so far"),
        ({"x": IMAGES, "y": Y, "x_test": IMAGES}, "belong together"),
        ({"x": IMAGES, "y": Y, "x_test": IMAGES[:, :, :4], "y_test": Y}, "x_test (3, 4, 6)"),
        ({"x": IMAGES, "y": Y, "x_test": IMAGES, "y_test": Y + 1}, "'3' at index 0"),
        ({"x": IMAGES, "y": Y, "classes": np.array(["a", "b"])}, "label 2 at index 0"),
        ({"x": IMAGES, "y": np.zeros(4, int)}, "only the class '0'"),
        ({"x": IMAGES[:0], "y": Y[:0]}, "no class"),
    ],
)
def test_wrong_arrays_are_refused(tmp_path, refused, arrays, said):
    message = refused(load, save(tmp_path / "a.npz", **arrays))
    assert said in message
    assert str(tmp_path / "a.npz") in message


def test_a_pickle_inside_is_not_run(tmp_path, refused):
    sign = tmp_path / "sign"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {sign}",)

    path = save(tmp_path / "a.npz", x=np.array([Evil()], dtype=object), y=Y)
    assert "Python objects" in refused(load, path)
    assert not sign.exists()


def npy(shape, dtype="<f4", content=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "x: not an array"),
        (b"hello", "x: not an array"),
        (npy((4, 2))[:20], "x: not an array"),
        (npy((4, 2), content=bytes(31)), "truncated"),
        (npy((4, 2), content=bytes(33)), "more data than its header"),
        (npy((2**30, 2**10)), "claims"),
        (npy((2**62, 2**62)), "not a valid array"),
        (npy((-4, 2), content=bytes(32)), "not a valid array"),
        (npy((4, 2), "<U0"), "not a valid array"),
        (npy((4, 2)).replace(b"\x01\x00", b"\x09\x00", 1), "x: not an array"),
        (npy((4, 2)).replace(b"}", b" ", 1), "x: not an array"),
        (npy((4, 2)).replace(b"(4, 2)", b"((((((", 1), "x: not an array"),
    ],
)
def test_damaged_members_are_refused(tmp_path, refused, content, said):
    path = save(tmp_path / "a.npz", y=Y)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", content)
    assert said in refused(load, path)


def test_damaged_files_are_refused(tmp_path, refused):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=IMAGES, y=Y)
    whole = path.read_bytes()
    broken = bytearray(whole)
    broken[60:80] = b"\xff" * 20
    for content in (b"", whole[:-30], b"PK\x03\x04", bytes(broken)):
        path.write_bytes(content)
        assert str(path) in refused(load, path)


def test_a_bomb_takes_no_memory(tmp_path, refused, monkeypatch):
    monkeypatch.setattr("pyrite.npz_files.LARGEST", 2**20)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((2**13, 2**10), np.uint8), y=Y)
    tracemalloc.start()
    try:
        assert "store it uncompressed" in refused(load, path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


RGBA = np.arange(4 * 5 * 6 * 4, dtype=np.uint8).reshape(4, 5, 6, 4)


def test_transparency_is_dropped(tmp_path):
    path = save(tmp_path / "a.npz", x=RGBA, y=Y, x_test=RGBA[:2], y_test=Y[:2])
    np.testing.assert_array_equal(load(path).inputs, RGBA[..., :3].transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(load(path).test.inputs, RGBA[:2, ..., :3].transpose(0, 3, 1, 2))
    path = save(tmp_path / "a.npz", x=RGBA.transpose(0, 3, 1, 2), y=Y)
    np.testing.assert_array_equal(load(path).inputs, RGBA[..., :3].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("sides", [(3, 32, 3), (1, 28, 1), (4, 8, 4), (3, 3, 3), (3, 7, 1), (4, 4, 3)])
def test_a_shape_that_may_be_two_things_is_refused(tmp_path, refused, sides):
    x = np.arange(4 * math.prod(sides), dtype=np.uint8).reshape(4, *sides)
    path = save(tmp_path / "a.npz", x=x, y=Y)
    message = refused(load, path)
    assert "may be (N, C, H, W) or (N, H, W, C): specify channels='first' or channels='last'" in message
    assert str(path) in message
    np.testing.assert_array_equal(load(path, channels="first").inputs, x[:, :3])
    np.testing.assert_array_equal(load(path, channels="last").inputs, x.transpose(0, 3, 1, 2)[:, :3])


def test_other_numbers_of_channels_are_said(tmp_path, refused):
    x = np.zeros((4, 13, 6, 7), np.uint8)
    path = save(tmp_path / "a.npz", x=x, y=Y)
    assert "has neither 1, 3 nor 4 channels" in refused(load, path)
    assert load(path, channels="first").inputs.shape == (4, 13, 6, 7)
    assert load(f"npz('{path}', channels='last')").inputs.shape == (4, 7, 13, 6)
    assert "channels is 'middle'" in refused(load, path, channels="middle")


def test_images_that_were_not_read_from_a_file_too(refused):
    message = refused(Dataset, "mine", RGBA, np.zeros(4, np.int64), ("a", "b"))
    assert "(4, 5, 6, 4), which looks like (N, H, W, C)" in message
    assert "transpose(0, 3, 1, 2)" in message


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", "nan", "b", "a"], "the label at index 1 is missing ('nan')"),
        (["a", "b", " ", "a"], "the label at index 2 is missing (' ')"),
        (["", "b", "a", "a"], "the label at index 0 is missing ('')"),
        (["1", "01", "2", "1"], "'01' and '1' are one class"),
        (["1", "1.0", "2", "1"], "'1' and '1.0' are one class"),
        (["é", "e\u0301", "2", "1"], "are one class"),
    ],
)
def test_labels_that_are_missing_or_spelled_in_two_ways(tmp_path, refused, labels, said):
    path = save(tmp_path / "a.npz", x=IMAGES, y=np.array(labels))
    message = refused(load, path)
    assert said in message
    assert str(path) in message


def test_names_of_classes_that_come_twice_or_are_empty(tmp_path, refused):
    for names, said in ((["a", "b", "a"], "two classes are called 'a'"), (["a", " ", "b"], "name of a class is empty")):
        path = save(tmp_path / "a.npz", x=IMAGES, y=np.array([0, 1, 2, 0]), classes=np.array(names))
        assert said in refused(load, path)


def test_labels_of_texts_and_numbers(tmp_path):
    path = save(tmp_path / "a.npz", x=IMAGES, y=np.array(["10", "cat", "9", "none"]))
    assert load(path).classes == ("10", "9", "cat", "none")
