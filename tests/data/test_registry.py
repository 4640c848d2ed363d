import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.data import DATASETS, Dataset, load

DOCS = Path(__file__).parents[2] / "docs"
CARDS = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("data.md", "datasets.md"))


def test_the_registry_is_public():
    assert pyrite.DATASETS is DATASETS
    assert pyrite.data.load is load
    assert isinstance(DATASETS, dict)


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_has_a_card(name):
    assert re.search(rf"^### `{name}`$", CARDS, re.MULTILINE)


def test_every_card_has_a_data_set():
    assert set(re.findall(r"^### `(\w+)`$", CARDS, re.MULTILINE)) == set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_described_in_one_line(name):
    assert DATASETS[name].__doc__.splitlines()[0].endswith(".")
    assert name == DATASETS[name].__name__


@pytest.mark.parametrize(("name", "length"), [("npz", 100), ("parquet", 2)])
def test_the_examples_in_the_cards_run(name, length, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    card = CARDS.split(f"### `{name}`\n")[1].split("\n### ")[0]
    names = {"pyrite": pyrite}
    exec(re.search(r"```python\n(.*?)```", card, re.DOTALL)[1], names)
    assert len(names["data"]) == length


def test_names_specs_options_and_data_sets():
    data = load("blobs(classes=5, samples=20)")
    assert load(data) is data
    np.testing.assert_array_equal(load("blobs", classes=5, samples=20).inputs, data.inputs)


@pytest.mark.parametrize(
    ("asked", "options", "said"),
    [
        ("cifar11", {}, "did you mean 'cifar10"),
        ("blob(classes=3)", {}, "did you mean 'blobs'"),
        ("blobs(clases=3)", {}, "clases"),
        ("blobs", {"clases": 3}, "clases"),
        ("blobs(classes=__import__('os'))", {}, "__import__"),
        ("webvison(path='/a/b')", {}, "did you mean 'webvision'"),
        ("./nothing", {}, "no data set, file or folder 'nothing'"),
        ("nothing.npz", {}, "no data set, file or folder"),
        (Path("mnist"), {}, "no data set, file or folder"),
        (" ", {}, "data is empty"),
        (3, {}, "a name or a path"),
        ("x" * 5000, {}, "unknown data set"),
        ("/" + "x" * 5000, {}, "no data set, file or folder"),
        ("~nobody-of-this-name/a", {}, "no data set, file or folder"),
        ("mnist(path=3)", {}, "3 is not a path"),
        ("csv(3)", {}, "3 is not a path"),
        ("npz('')", {}, "'' is not a path"),
        ("folder([1])", {}, "[1] is not a path"),
    ],
)
def test_what_is_refused(refused, asked, options, said):
    assert said in refused(load, asked, **options)


def test_a_file_with_a_similar_name_is_named(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    Path("customers.csv").touch()
    assert "'custmers.csv': did you mean 'customers.csv'?" in refused(load, "custmers.csv")
    assert "did you mean" not in refused(load, "other.csv")
    assert "there is no data set 'customers': did you mean 'customers.csv'?" in refused(load, "customers")


def test_a_name_comes_before_a_folder(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    for label in "ab":
        write.image(tmp_path / "digits" / label / "1.png")
    assert len(load("digits")) == 1437
    assert len(load("./digits")) == 2
    assert len(load(Path("digits"))) == 2
    write.image(tmp_path / "folder" / "photos" / "a" / "1.png")
    write.image(tmp_path / "folder" / "photos" / "b" / "1.png")
    assert len(load("folder/photos")) == 2
    (tmp_path / "digits.csv").write_text("x,label\n1,a\n2,b\n3,a\n")
    assert len(load("digits.csv", label="label")) == 3
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ValueError, match=r"ends in \.csv"):
        load("a.txt")


def test_a_data_set_checks_itself(refused):
    images, labels = np.zeros((2, 3, 4, 4), np.uint8), np.array([0, 1])
    Dataset("a", images, labels, ("x", "y"))
    assert "2 inputs but 1" in refused(Dataset, "a", images, labels[:1], ("x", "y"))
    assert "label 1 at index 1" in refused(Dataset, "a", images, labels, ("x",))
    assert "int64" in refused(Dataset, "a", images, labels.astype(np.int32), ("x", "y"))
    assert "float64" in refused(Dataset, "a", images / 255, labels, ("x", "y"))
    assert "no samples" in refused(Dataset, "a", images[:0], labels[:0], ("x", "y"))
    assert "true of a" in refused(Dataset, "a", images, labels, ("x", "y"), true=labels + 1)


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "pyrite", *arguments], capture_output=True, text=True, check=False)


def test_list_data():
    shown = run("list", "data", "--json")
    assert [row["name"] for row in json.loads(shown.stdout)] == list(DATASETS)


def test_reading_data_does_not_load_torch():
    code = "import sys, pyrite; pyrite.data.load('digits'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_with_a_hyphen_is_told_the_right_one() -> None:
    with pytest.raises(ValueError, match=r"there is no data set 'fashion-mnist'.*fashion_mnist"):
        load("fashion-mnist")
