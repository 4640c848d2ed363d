import numpy as np
import pytest
from PIL import Image

from pyrite.data import LazyImages, load

LISTS = {"noisy_train": 6, "clean_train": 4, "clean_val": 3, "clean_test": 5}


@pytest.fixture
def clothing(home, write):
    root = home / "clothing1m"
    root.mkdir()
    names = "T-Shirt Shirt Knitwear Chiffon Sweater Hoodie Windbreaker Jacket Downcoat Suit Shawl Dress Vest Underwear"
    (root / "category_names_eng.txt").write_text(names.replace(" ", "\n") + "\n")
    tables = {"noisy": [], "clean": []}
    for number, (part, count) in enumerate(LISTS.items()):
        keys = [f"images/{i}/{number}{i}/pic{number}{i},{i}.jpg" for i in range(count)]
        (root / f"{part}_key_list.txt").write_text("".join(key + "\n" for key in keys))
        tables[part.split("_")[0]] += [f"{key} {(i + number) % 14}" for i, key in enumerate(keys)]
        for i, key in enumerate(keys):
            write.image(root / key, seed=100 * number + i, size=(40, 30 + i))
    # The label tables hold more than one list, in another order.
    for kind, lines in tables.items():
        (root / f"{kind}_label_kv.txt").write_text("\n".join(reversed(lines)) + "\n")
    return root


def test_clothing1m(clothing):
    data = load("clothing1m(size=24)")
    assert isinstance(data.inputs, LazyImages)
    assert data.inputs.shape == (6, 3, 24, 24)
    assert data.inputs[[2, 0]].shape == (2, 3, 24, 24)
    with Image.open(data.inputs.path(2)) as picture:  # 40 x 32: warped, not cropped
        assert np.array_equal(data.inputs[2], np.asarray(picture.resize((24, 24))).transpose(2, 0, 1))
    assert data.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert [len(part) for part in (data.clean, data.validation, data.test)] == [4, 3, 5]
    assert data.clean.labels.tolist() == [1, 2, 3, 4]
    assert data.test.labels.tolist() == [3, 4, 5, 6, 7]
    assert data.classes[0] == "T-Shirt"
    assert data.inputs.path(3) == clothing / "images/3/03/pic03,3.jpg"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("noisy_train_key_list.txt", "images/no.jpg\n", "'images/no.jpg' has no label"),
        ("noisy_train_key_list.txt", "../../etc/passwd\n", "line 1: '../../etc/passwd' points out of its folder"),
        ("noisy_train_key_list.txt", "/etc/passwd\n", "points out of its folder"),
        ("noisy_train_key_list.txt", "", "is empty"),
        ("noisy_label_kv.txt", "images/a.jpg\n", "line 1"),
        ("noisy_label_kv.txt", "images/a.jpg one\n", "not a file name and a class number"),
        ("clean_label_kv.txt", "../a.jpg 1\n", "points out of its folder"),
        ("category_names_eng.txt", "Shirt\nVest\n", "label 2 at index"),
    ],
)
def test_wrong_lists_are_refused(clothing, refused, file, content, said):
    (clothing / file).write_text(content)
    assert said in refused(load, "clothing1m")


def test_what_to_put_where(home, refused):
    for name, sign in (("clothing1m", "noisy_label_kv.txt"), ("webvision", "synsets.txt"), ("mars", "tracks_train")):
        message = refused(load, name)
        assert sign in message
        assert str(home / name) in message


@pytest.fixture
def webvision(home, write):
    root = home / "webvision"
    (root / "info").mkdir(parents=True)
    words = ["n01440764 tench, Tinca tinca", "n01443537 goldfish", "n01484850 great white shark", "n01491361"]
    (root / "info/synsets.txt").write_text("\n".join(words) + "\n")
    files = [
        ("google/q0001/a.jpg", 0),
        ("google/q0002/b.jpg", 3),
        ("google/q0003/c d.jpg", 1),
        ("google/q0003/e.jpg", 2),
    ]
    lists = {
        "train_filelist_google.txt": files,
        "train_filelist_flickr.txt": [("flickr/q0001/z.jpg", 1), ("flickr/q0002/y.jpg", 0)],
        "val_filelist.txt": [("val000001.jpg", 2), ("val000002.jpg", 1), ("val000003.jpg", 0)],
    }
    for name, entries in lists.items():
        (root / "info" / name).write_text("".join(f"{file} {label}\n" for file, label in entries))
        for number, (file, _) in enumerate(entries):
            write.image(root / ("val_images_256" if name.startswith("val") else "") / file, seed=number, size=(32, 32))
    return root


def test_webvision_takes_the_first_classes(webvision):
    data = load("webvision(classes=2, size=32)")
    assert data.classes == ("tench, Tinca tinca", "goldfish")
    assert data.labels.tolist() == [0, 1]
    assert data.inputs.names == ("google/q0001/a.jpg", "google/q0003/c d.jpg")
    assert data.test.labels.tolist() == [1, 0]
    assert data.test.inputs.names == ("val_images_256/val000002.jpg", "val_images_256/val000003.jpg")
    assert data.inputs[:].shape == (2, 3, 32, 32)
    assert load("webvision(classes=4)").labels.tolist() == [0, 3, 1, 2]
    assert load("webvision(classes=4)").classes[3] == "n01491361"
    assert load('webvision(classes=2, source="flickr")').labels.tolist() == [1, 0]


def test_webvision_refuses(webvision, refused):
    for classes in (0, 1, 5, 2.5, True):
        assert "from 2 to 4" in refused(load, "webvision", classes=classes)
    assert "source" in refused(load, 'webvision(source="bing")')
    (webvision / "info/val_filelist.txt").write_text("val000001.jpg 4\n")
    assert "label 4 at index 0" in refused(load, "webvision(classes=2)")
    (webvision / "info/val_filelist.txt").unlink()
    assert "val_filelist.txt is missing" in refused(load, "webvision(classes=2)")


def test_lazy_images_read_what_is_asked(webvision):
    images = load("webvision(classes=4, size=32)").inputs
    all_of_them = images[:]
    np.testing.assert_array_equal(images[np.array([2, 0])], all_of_them[[2, 0]])
    np.testing.assert_array_equal(images[3], all_of_them[3])


def test_classes_of_one_name_are_told_apart(webvision):
    path = webvision / "info/synsets.txt"
    path.write_text("n1 crane\nn2 crane\nn3 goldfish\nn4\n")
    assert load("webvision(classes=4)").classes == ("crane n1", "crane n2", "goldfish", "n4")


def test_a_category_that_comes_twice_is_refused(clothing, refused):
    path = clothing / "category_names_eng.txt"
    path.write_text(path.read_text().replace("Vest", "Shirt"))
    assert "two classes are called 'Shirt'" in refused(load, "clothing1m")
