"""Classes, labels and files are matched by what they mean, and not by numbers and positions that happen to fit."""

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets as hub
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
import torch
from PIL import Image
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, Dataset, Subset, SubsetRandomSampler

import pyrite
from pyrite.auditing import with_metadata
from pyrite.data import Column
from pyrite.data.table import as_groups

ROWS = 40
X = np.random.default_rng(0).normal(size=(ROWS, 3))
TWO = ["a", "b"] * (ROWS // 2)


class ImageFolder(Dataset[Any]):
    """What torchvision's class of this name has."""

    target_transform: Callable[[int], int] | None = None

    def __init__(self, root: Path) -> None:
        self.root, self.classes = str(root), sorted(path.name for path in root.iterdir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = [(str(path), self.class_to_idx[path.parent.name]) for path in sorted(root.glob("*/*"))]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        path, label = self.samples[index]
        with Image.open(path) as image:
            image.load()
        return image, label if self.target_transform is None else self.target_transform(label)


ImageFolder.__module__ = "torchvision.datasets.folder"


class Noisy(ImageFolder):
    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, 1 - label


class NoisySubset(Subset[Any]):
    def __getitem__(self, index: Any) -> Any:
        image, label = super().__getitem__(index)
        return image, 1 - label

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def images(root: Path, classes: Sequence[str], each: int = 3) -> Path:
    random = np.random.default_rng(0)
    for label in classes:
        (root / label).mkdir(parents=True)
        for number in range(each):
            Image.fromarray(random.integers(0, 255, (8, 8, 3)).astype(np.uint8)).save(root / label / f"{number}.png")
    return root


def pictures(names: Sequence[str], labels: Sequence[int]) -> hub.Dataset:
    features = hub.Features({"image": hub.Image(), "label": hub.ClassLabel(names=list(names))})
    drawn = [Image.fromarray(np.full((8, 8), 9 * number, np.uint8)) for number in range(len(labels))]
    return hub.Dataset.from_dict({"image": drawn, "label": list(labels)}, features=features)


def test_a_part_has_its_own_classes(tmp_path: Path) -> None:
    """A test part without the class ``ant`` numbers the others from 0."""
    train, test = images(tmp_path / "train", ["ant", "bee", "cow"]), images(tmp_path / "test", ["bee", "cow"])
    data = pyrite.data.load({"train": ImageFolder(train), "test": ImageFolder(test)})
    assert data.test is not None
    assert data.test.labels.tolist() == [1, 1, 1, 2, 2, 2]
    parts = {"train": pictures(["ant", "bee"], [0, 1] * 9), "test": pictures(["bee", "ant"], [0, 0, 1])}
    data = pyrite.data.load(hub.DatasetDict(parts))
    assert data.test is not None
    assert data.test.labels.tolist() == [1, 1, 0]
    with pytest.raises(pyrite.PyriteError, match="'dog' at index 0 is not among the classes"):
        pyrite.data.load({"train": parts["train"], "test": pictures(["dog", "ant"], [0, 1])})


def test_parts_that_are_joined_have_the_same_classes(tmp_path: Path) -> None:
    one, two = images(tmp_path / "one", ["ant", "bee"]), images(tmp_path / "two", ["bee", "cow"])
    assert pyrite.data.load(ConcatDataset([ImageFolder(one), ImageFolder(one)])).classes == ("ant", "bee")
    with pytest.raises(pyrite.PyriteError, match="different classes, 'ant', 'bee' and 'bee', 'cow'"):
        pyrite.data.load(ConcatDataset([ImageFolder(one), ImageFolder(two)]))


def test_labels_of_items_and_not_of_files(tmp_path: Path) -> None:
    root = images(tmp_path / "set", ["ant", "bee"])
    changed = ImageFolder(root)
    changed.target_transform = lambda label: 1 - label
    data = pyrite.data.load(changed)
    assert data.labels.tolist() == [1, 1, 1, 0, 0, 0]
    assert data.classes == ("0", "1")  # 0 is no longer ant
    assert pyrite.data.load(ImageFolder(root)).labels.tolist() == [0, 0, 0, 1, 1, 1]
    for own in (Noisy(root), NoisySubset(ImageFolder(root), range(6))):
        assert pyrite.data.load(own).labels.tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("names", [("Train", "Test"), ("train", "valid", "test"), ("training", "testing"), ("TRAIN",)])
def test_parts_are_no_classes(names: Sequence[str], tmp_path: Path) -> None:
    for name in names:
        images(tmp_path / name, ["ant", "bee"])
    data = pyrite.data.load(tmp_path)
    assert data.classes == ("ant", "bee")
    assert (data.test is not None) == (len(names) > 1)
    assert (data.validation is not None) == (len(names) > 2)
    if len(names) > 1:
        (tmp_path / "extra").mkdir()
        with pytest.raises(pyrite.PyriteError, match="and 'extra': move those elsewhere"):
            pyrite.data.load(tmp_path)


def test_train_may_be_a_class(tmp_path: Path) -> None:
    assert pyrite.data.load(images(tmp_path, ["bus", "train", "test"])).classes == ("bus", "test", "train")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (["0.png", "1.png"], "several files are called '0.png': write their paths"),
        (["one/0.png", "two/0.png", "two/9.png", "9.png"], "'two/9.png' and '9.png' are one file"),
    ],
)
def test_files_of_one_name(files: list[str], problem: str, tmp_path: Path) -> None:
    root = images(tmp_path / "set", ["one", "two"])
    (root / "two" / "2.png").rename(root / "two" / "9.png")
    pd.DataFrame({"file": files, "label": TWO[: len(files)]}).to_csv(tmp_path / "labels.csv", index=False)
    with pytest.raises(pyrite.PyriteError, match=problem):
        pyrite.data.load(root, label=str(tmp_path / "labels.csv"))
    good = pd.DataFrame({"file": ["two/0.png", "9.png", "one/0.png"], "label": ["b", "a", "a"]})
    good.to_csv(tmp_path / "labels.csv", index=False)
    data = pyrite.data.load(root, label=str(tmp_path / "labels.csv"))
    assert dict(zip(data.paths, data.labels.tolist(), strict=True)) == {"one/0.png": 0, "two/0.png": 1, "two/9.png": 0}


@pytest.mark.parametrize("kind", [bool, float, int])
@pytest.mark.parametrize("classes", [2, 3])
def test_columns_of_marks_are_no_annotators(kind: type, classes: int, tmp_path: Path) -> None:
    marks = pd.get_dummies(pd.Series(np.arange(ROWS) % classes).map("class {}".format), dtype=kind)
    frame = pd.concat([pd.DataFrame({"a": X[:, 0]}), marks], axis=1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for data, label in (
        (X, marks.to_numpy()), (frame[["a"]], marks), (frame, [*marks]), (tmp_path / "t.csv", ",".join(marks)),
    ):  # fmt: skip
        with pytest.raises(pyrite.PyriteError, match="look one-hot"):
            pyrite.data.load(data, label=label)


def test_batches_of_a_part() -> None:
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.arange(ROWS) % 2)
    batches = BatchSampler(SubsetRandomSampler(range(5)), 2, False)
    with pytest.raises(pyrite.PyriteError, match="selects 5 of the 40 items"):
        pyrite.data.load(DataLoader(data, batch_sampler=batches))
    assert len(pyrite.data.load(DataLoader(data, batch_size=7, shuffle=True, drop_last=True))) == ROWS


@pytest.mark.parametrize("names", [[f"id {row}" for row in range(ROWS)], list(range(100, 100 + ROWS))])
def test_metadata_are_matched_by_the_names_of_samples(names: list[Any], tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": names, "a": X[:, 0], "label": TWO})
    data = pyrite.data.load(frame, label="label", name="id")
    more = pd.DataFrame({"id": names, "site": [f"site {row}" for row in range(ROWS)]})
    for source in (more, more.sample(frac=1, random_state=0), pd.concat([more, more.tail(1).assign(id="other")])):
        records = pyrite.data.read_records(source, "metadata")
        joined = with_metadata(None, records, data)
        assert joined is not None
        assert joined.column("site").values.tolist() == more.site.tolist()
    twice = pyrite.data.read_records(pd.concat([more, more.tail(1)]), "metadata")
    with pytest.raises(pyrite.PyriteError, match="two rows of one sample"):
        with_metadata(None, twice, data)


CODES: dict[str, Any] = {
    "whole": pd.Categorical([30, 1, 2, 2] * 10),
    "floats": pd.Categorical([30.0, 1.0, 2.0, 2.0] * 10, categories=[7.0, 30.0, 2.0, 1.0], ordered=True),
    "gaps": pd.Categorical([30, None, 2, 2] * 10),
}


@pytest.mark.parametrize("name", CODES)
def test_categories_that_are_numbers(name: str) -> None:
    """The size of a code means nothing."""
    frame = pd.DataFrame({"code": CODES[name], "a": X[:, 0], "label": TWO})
    data = pyrite.data.load(frame, label="label")
    second = "" if name == "gaps" else "1"
    assert data.inputs.column("code") is not None  # type: ignore[union-attr]
    assert data.inputs.cells(0)[0] == "30"  # type: ignore[union-attr]
    assert data.inputs.cells(1)[0] == second  # type: ignore[union-attr]
    described = pyrite.data.describe(data)
    assert described["columns"]["code"] == "category"
    for other in (frame, frame.astype({"code": float}), frame.astype({"code": "category"})):
        assert pyrite.data.read_like(other, described).inputs.cells(1)[0] == second
    plain = pyrite.data.describe(pyrite.data.load(frame, label="label", types="code=number"))
    inputs = pyrite.data.read_like(frame, plain).inputs
    assert (inputs.columns[0].values if name == "gaps" else inputs[:, 0])[0] == 30  # type: ignore[union-attr]


DAYS = pd.Series(pd.date_range("2024-02-27", periods=ROWS))
TYPED: dict[str, tuple[Any, Any]] = {
    "dates": (DAYS.dt.date.astype(pd.ArrowDtype(pyarrow.date32())), DAYS),
    "durations": (pd.Series(DAYS - DAYS[0]).astype("duration[ns][pyarrow]"), 86400.0 * np.arange(ROWS)),
    "instants": (DAYS.dt.tz_localize("Asia/Tokyo").astype("timestamp[ns, tz=Asia/Tokyo][pyarrow]"),
                 DAYS.dt.tz_localize("Asia/Tokyo").dt.tz_convert("UTC").dt.tz_localize(None)),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPED)
def test_types_of_arrow(name: str) -> None:
    given, wanted = TYPED[name]
    records = pyrite.data.read_records(pd.DataFrame({"x": given}), "metadata")
    np.testing.assert_array_equal(records.columns[0].values, np.asarray(wanted))


def test_whole_numbers_of_polars_with_128_bits() -> None:
    frame = polars.DataFrame({"x": polars.Series([1, None, 3]).cast(polars.Int128), "y": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(pyrite.data.read_records(frame, "metadata").columns[0].values, [1, np.nan, 3])


@pytest.mark.parametrize(
    ("data", "label", "problem"),
    [
        (torch.tensor(X).to_sparse(), TWO, "pass a dense one"),
        (torch.empty(ROWS, 3, device="meta"), TWO, "pass a dense one"),
        (pyarrow.table({"a": X[:, 0], "label": TWO}), "label", "data.to_pandas"),
        (X, (name for name in TWO), r"pass list\(label\)"),
        (X, [name.encode() for name in TWO], "holds bytes"),
        (X, np.array(TWO, "S"), "holds bytes"),
    ],
    ids=["sparse", "no data", "arrow", "generator", "list of bytes", "bytes"],
)
def test_odd_containers_are_one_sentence(data: Any, label: Any, problem: str) -> None:
    with pytest.raises(pyrite.PyriteError, match=problem):
        pyrite.data.load(data, label=label)


@pytest.mark.parametrize("twin", ["7.0", "7 ", "07"])
def test_groups_and_samples_that_are_one(twin: str, tmp_path: Path) -> None:
    names = [twin if row == 7 else str(row // 2) for row in range(ROWS)]
    names[14] = names[15] = "7"
    frame = pd.DataFrame({"patient": names, "a": X[:, 0], "who": ["x", "y"] * 20, "label": TWO})
    with pytest.raises(pyrite.PyriteError, match="are one group: write each group in one way"):
        pyrite.data.load(frame, label="label", group="patient")
    with pytest.raises(pyrite.PyriteError, match="are one sample: write each sample in one way"):
        pyrite.data.load(frame, label="label", sample="patient", annotator="who")


def test_one_long_cell_is_not_the_width_of_all() -> None:
    """An array of texts would take 400 MB, of numpy's four bytes per character."""
    cells = np.array(["x" * 100_000, *(f"some words {row}" for row in range(1, 1000))], object)
    columns = [Column("text", "text", cells), Column("b", "number", np.arange(1000.0) ** 2)]
    data = pyrite.Dataset("t", pyrite.data.Records(columns), np.arange(1000) % 2, ("a", "b"))
    tracemalloc.start()
    try:
        assert len(np.unique(data.copies)) == 1000
        assert len(np.unique(as_groups(cells, "group"))) == 1000
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
