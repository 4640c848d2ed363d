import os

import numpy as np
import pytest
from PIL import Image, ImageOps

from pyrite.data import LazyImages, load


@pytest.fixture
def pictures(tmp_path, write):
    for number in range(9):
        write.image(tmp_path / "set" / ("cat", "dog", "emu")[number % 3] / f"{number}.png", seed=number)
    return tmp_path / "set"


def test_one_folder_a_class(pictures):
    data = load(pictures)
    assert data.classes == ("cat", "dog", "emu")
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.inputs.shape == (9, 3, 10, 12)
    assert data.inputs.dtype == np.uint8
    assert data.name == "set"
    assert data.test is None
    expected = np.asarray(Image.open(pictures / "dog/4.png")).transpose(2, 0, 1)
    np.testing.assert_array_equal(data.inputs[4], expected)


def test_lazily(pictures):
    data = load(str(pictures), lazy=True)
    assert isinstance(data.inputs, LazyImages)
    np.testing.assert_array_equal(data.inputs[:], load(pictures).inputs)


def test_sizes(pictures, write):
    assert load(pictures, size=6).inputs.shape == (9, 3, 6, 6)
    assert load(f'folder("{pictures}", size=[8, 4])').inputs.shape == (9, 3, 8, 4)
    write.image(pictures / "cat/wide.jpg", size=(300, 20))
    assert load(pictures).inputs.shape == (10, 3, 10, 10)
    assert load(pictures, lazy=True).inputs.shape == (10, 3, 10, 10)


def test_large_images_become_squares(tmp_path, write):
    for number in range(4):
        write.image(tmp_path / "ab"[number % 2] / f"{number}.png", size=(400, 300))
    assert load(tmp_path).inputs.shape == (4, 3, 224, 224)


def test_grey_images_have_one_channel(tmp_path, write):
    for number in range(4):
        write.image(tmp_path / "ab"[number % 2] / f"{number}.png", mode="L")
    assert load(tmp_path).inputs.shape == (4, 1, 10, 12)
    write.image(tmp_path / "a/colour.png")
    assert load(tmp_path).inputs.shape == (5, 3, 10, 12)


def test_sixteen_bits_are_scaled_and_transparency_is_dropped(tmp_path, write):
    deep = np.arange(120, dtype=np.uint16).reshape(10, 12) * 500
    for label in "ab":
        (tmp_path / label).mkdir()
        Image.fromarray(deep).save(tmp_path / label / "deep.png")
    data = load(tmp_path)
    np.testing.assert_array_equal(data.inputs[0, 0], deep >> 8)
    write.image(tmp_path / "a/alpha.png", mode="RGBA")
    palette = Image.open(write.image(tmp_path / "b/p.png")).convert("P")
    palette.save(tmp_path / "b/p.png", transparency=bytes([0, 128, 255]))
    assert load(tmp_path).inputs.shape == (4, 3, 10, 12)


def test_train_and_test(tmp_path, write):
    for number in range(8):
        write.image(tmp_path / ("train", "test")[number // 6] / "ab"[number % 2] / f"{number}.png", seed=number)
    data = load(tmp_path)
    assert (len(data), len(data.test), data.validation) == (6, 2, None)
    assert data.test.labels.tolist() == [0, 1]
    assert data.test.classes == ("a", "b")
    write.image(tmp_path / "val/b/v.png")
    data = load(tmp_path)
    assert (len(data.test), len(data.validation)) == (2, 1)
    assert data.validation.labels.tolist() == [1]


def test_val_stands_in_for_test(tmp_path, write):
    for number in range(6):
        write.image(tmp_path / ("train", "val")[number // 4] / "ab"[number % 2] / f"{number}.png")
    data = load(tmp_path)
    assert (len(data.test), data.validation) == (2, None)


def test_a_class_called_train(tmp_path, write):
    for label in ("train", "bus", "test"):
        write.image(tmp_path / label / "a.png")
    assert load(tmp_path).classes == ("bus", "test", "train")


def test_test_images_are_read_like_training_images(tmp_path, write):
    for label in "ab":
        write.image(tmp_path / "train" / label / "a.png", mode="L")
        write.image(tmp_path / "test" / label / "a.png", size=(50, 60))
    assert load(tmp_path).test.inputs.shape == (2, 1, 10, 12)


def test_unknown_class_in_the_test_part(tmp_path, write, refused):
    for label in "ab":
        write.image(tmp_path / "train" / label / "a.png")
    write.image(tmp_path / "test/c/a.png")
    assert "the class 'c'" in refused(load, tmp_path)


def test_numbers_are_ordered_as_numbers(tmp_path, write):
    for label in ("10", "9", "1"):
        write.image(tmp_path / label / "a.png")
    assert load(tmp_path).classes == ("1", "9", "10")


def test_unreadable_images_are_set_aside(pictures):
    whole = (pictures / "dog/4.png").read_bytes()
    (pictures / "cat/empty.png").write_bytes(b"")
    (pictures / "cat/text.jpg").write_text("not an image")
    (pictures / "dog/cut.png").write_bytes(whole[: len(whole) // 2])
    (pictures / "emu/gone.png").symlink_to(pictures / "nowhere")
    os.mkfifo(pictures / "emu/pipe.png")
    (pictures / "emu/notes.txt").write_text("not taken for an image")
    (pictures / "emu/drawn.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0")
    data = load(pictures)
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    names = sorted(entry.path.removeprefix(str(pictures)) for entry in data.unreadable)
    assert names == ["/cat/empty.png", "/cat/text.jpg", "/dog/cut.png", "/emu/gone.png", "/emu/pipe.png"]
    assert all(entry.path in entry.reason for entry in data.unreadable)
    assert "5 unreadable" in repr(data)


def test_a_format_in_disguise_is_not_decoded(pictures):
    """A PostScript file would be handed to another program, whatever its name."""
    (pictures / "cat/x.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")
    assert [entry.path for entry in load(pictures).unreadable] == [str(pictures / "cat/x.png")]


def test_bombs_are_set_aside(pictures, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 200)
    Image.fromarray(np.zeros((15, 15), np.uint8)).save(pictures / "cat/one.png")  # Pillow itself would only warn
    Image.fromarray(np.zeros((50, 50), np.uint8)).save(pictures / "cat/two.png")
    data = load(pictures)
    assert [entry.path for entry in data.unreadable] == [str(pictures / f"cat/{name}.png") for name in ("one", "two")]
    assert all("rejected" in entry.reason for entry in data.unreadable)


def test_too_few_classes(tmp_path, write, refused):
    assert "no class folders" in refused(load, tmp_path)
    write.image(tmp_path / "a/1.png")
    assert "one class folder, 'a'" in refused(load, tmp_path)
    (tmp_path / "dataset_info.json").write_text("{}")
    assert "pass datasets.load_from_disk(" in refused(load, tmp_path)
    (tmp_path / "b").mkdir()
    assert "only one of 2 class folders" in refused(load, tmp_path)
    (tmp_path / "b/1.png").write_bytes(b"")
    message = refused(load, tmp_path)
    assert "only one of 2 class folders" in message
    assert str(tmp_path / "b/1.png") in message
    (tmp_path / "a/1.png").write_bytes(b"")
    assert "none of 2 images can be read" in refused(load, tmp_path)


def test_not_a_folder(tmp_path, refused):
    assert "is not a folder" in refused(load, f'folder("{tmp_path}/no")')


@pytest.mark.parametrize("size", [0, -1, 2.5, True, [3], [3, 4, 5], "large"])
def test_wrong_sizes(pictures, refused, size):
    assert "size is" in refused(load, pictures, size=size)


def test_folders_that_are_one_class(tmp_path, write, refused):
    for name in ("1", "01", "2"):
        write.image(tmp_path / "photos" / name / "a.png")
    message = refused(load, tmp_path / "photos")
    assert "'01' and '1' are one class" in message
    assert str(tmp_path / "photos") in message


def test_images_larger_than_memory(tmp_path, write, refused):
    for name in ("cat", "dog"):
        write.image(tmp_path / "photos" / name / "a.png")
    assert "would take" in refused(load, tmp_path / "photos", size=10**7)


def test_images_of_the_user_keep_their_size(tmp_path):
    """Pillow decodes a JPEG at another size in place."""
    for name in "ab":
        Image.new("RGB", (1500, 1000)).save(tmp_path / f"{name}.jpg")
    images = [Image.open(tmp_path / f"{name}.jpg") for name in "ab"]
    assert load((images, [0, 1])).inputs.shape == (2, 3, 224, 224)
    assert [image.size for image in images] == [(1500, 1000)] * 2


def test_large_jpegs_are_decoded_at_the_size_needed(tmp_path, monkeypatch):
    """To nearly the pixels of the whole image, scaled; a small one is decoded whole."""
    rows, columns = np.mgrid[:640, :960]
    picture = np.stack([rows / 640, columns / 960, (rows + columns) / 1600], 2)
    image = Image.fromarray((255 * picture).astype(np.uint8))
    image.save(tmp_path / "large.jpg", quality=95)
    decoded = []
    fit = ImageOps.fit
    monkeypatch.setattr(ImageOps, "fit", lambda image, size: decoded.append(image.size) or fit(image, size))
    for size, expected in ((40, (120, 80)), (150, (480, 320)), (400, (960, 640))):
        found = LazyImages(tmp_path, ["large.jpg"], size)[[0]][0]
        assert decoded.pop() == expected
        whole = np.asarray(fit(image, (size, size))).transpose(2, 0, 1)
        assert np.abs(found.astype(int) - whole).mean() < 2
