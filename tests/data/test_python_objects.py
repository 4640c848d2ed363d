"""Data that are passed in Python: every kind gives the same data set, and the same trained bytes, as arrays."""

import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import pyrite
from pyrite.data import LazyImages, load

hub = pytest.importorskip("datasets", reason="the package datasets is not installed")

COUNT = 60
Y = np.arange(COUNT) % 3
X = np.random.default_rng(0).normal(size=(COUNT, 4)) + Y[:, None]
PIXELS = np.random.default_rng(1).integers(0, 256, (COUNT, 3, 8, 10), dtype=np.uint8)
FLOATS = np.random.default_rng(2).normal(size=(COUNT, 5, 8, 10)).astype(np.float32)
TEXTS = [f"{('good', 'fair', 'bad')[row % 3]} film of many words, the one with number {row}" for row in range(COUNT)]
NAMES = ("zebra", "ape", "emu")
CLASSES = hub.ClassLabel(names=list(NAMES))
SHORT: dict[str, Any] = {"epochs": 1, "model": "mlp(hidden=[4])", "progress": False}


class Items(Dataset[Any]):
    """A map-style data set of what a function makes of each number."""

    def __init__(self, item: Callable[[int], Any], count: int = COUNT) -> None:
        self.item, self.count = item, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.item(index)


class Named(Items):
    classes = NAMES


class ImageFolder(Dataset[Any]):
    """What torchvision's class of this name has."""

    def __init__(self, root: Path, transform: Callable[[Any], Any] | None = None) -> None:
        self.root, self.transform = str(root), transform
        self.classes = sorted(os.listdir(root))
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = self.imgs = [
            (str(path), self.class_to_idx[name]) for name in self.classes for path in sorted((root / name).iterdir())
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        image = Image.open(self.samples[index][0]).convert("RGB")
        return image if self.transform is None else self.transform(image), self.samples[index][1]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


def picture(index: int) -> Image.Image:
    return Image.fromarray(PIXELS[index].transpose(1, 2, 0))


def table(**columns: Any) -> Any:
    kinds = {"label": CLASSES, "text": hub.Value("string"), "image": hub.Image()}
    features = {name: kinds[name] for name in columns if name in kinds}
    features |= {name: hub.Value("int64") for name in columns if name not in kinds}
    return hub.Dataset.from_dict(columns, features=hub.Features(features))


def tensors(inputs: Any = X) -> TensorDataset:
    return TensorDataset(torch.tensor(inputs), torch.tensor(Y))


NUMBERS = {
    "tensors": lambda: (torch.tensor(X), torch.tensor(Y)),
    "lists": lambda: (X.tolist(), Y.tolist()),
    "TensorDataset": tensors,
    "ConcatDataset": lambda: ConcatDataset([Subset(tensors(), range(9)), Subset(tensors(), range(9, COUNT))]),
    "Subset of Subset": lambda: Subset(Subset(ConcatDataset([tensors(), tensors()]), range(COUNT)), range(COUNT)),
    "DataLoader": lambda: DataLoader(tensors(), batch_size=7, shuffle=True),
    "map-style": lambda: Items(lambda index: (torch.tensor(X[index]), int(Y[index]))),
    "dicts": lambda: [{"id": row, "inputs": X[row], "labels": torch.tensor(Y[row])} for row in range(COUNT)],
    "items in a list": lambda: [(list(X[row]), Y[row]) for row in range(COUNT)],
    "Hugging Face": lambda: hub.Dataset.from_dict({"embedding": X.tolist(), "label": Y.tolist()}),
    "its transform": lambda: hub.Dataset.from_dict({"row": list(range(COUNT))}).with_transform(
        lambda batch: {"x": [X[row] for row in batch["row"]], "label": [Y[row] for row in batch["row"]]}
    ),
}
IMAGES = {
    "tensors": lambda: (torch.tensor(PIXELS), torch.tensor(Y)),
    "channels last": lambda: (PIXELS.transpose(0, 2, 3, 1), Y),
    "pictures": lambda: Items(lambda index: (picture(index), Y[index])),
    "list of pictures": lambda: ([picture(index) for index in range(COUNT)], Y),
    "map-style, channels last": lambda: Items(lambda index: (PIXELS[index].transpose(1, 2, 0), Y[index])),
}
FLOATING = {
    "tensors": lambda: tensors(FLOATS),
    "channels last": lambda: DataLoader(tensors(FLOATS.transpose(0, 2, 3, 1))),
    "float64": lambda: (FLOATS.astype(np.float64), Y),
    "map-style": lambda: Items(lambda index: {"image": torch.tensor(FLOATS[index]), "label": Y[index]}),
    "map-style, channels last": lambda: Items(lambda index: (FLOATS[index].transpose(1, 2, 0), Y[index])),
}
SAME = [
    *(pytest.param(make, X, id=f"numbers: {name}") for name, make in NUMBERS.items()),
    *(pytest.param(make, PIXELS, id=f"images: {name}") for name, make in IMAGES.items()),
    *(pytest.param(make, FLOATS, id=f"floating: {name}") for name, make in FLOATING.items()),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Any, bytes]]:
    """A run and the bytes of its weights; those of arrays are trained once."""
    known: dict[int, tuple[Any, bytes]] = {}

    def train(*data: Any, key: int = 0, **settings: Any) -> tuple[Any, bytes]:
        if key not in known:
            run = pyrite.train(*data, out=tmp_path_factory.mktemp("run") / "a", **SHORT | settings)
            found = run, (run.path / "model.safetensors").read_bytes()
            if not key:
                return found
            known[key] = found
        return known[key]

    return train


@pytest.mark.parametrize(("make", "inputs"), SAME)
def test_the_same_as_arrays(make: Callable[[], Any], inputs: Any, trained: Any) -> None:
    data = load(make())
    np.testing.assert_array_equal(data.inputs, inputs)
    assert (data.labels.tolist(), data.classes, data.notes) == (Y.tolist(), ("0", "1", "2"), ())
    run, weights = trained(make())
    assert weights == trained(inputs, Y, key=id(inputs))[1]
    np.testing.assert_array_equal(run.predict(make()).labels, run.predict(inputs).labels)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Named(lambda index: (X[index], int(Y[index]))),
        lambda: Named(lambda index: (X[index], NAMES[Y[index]])),
        lambda: DataLoader(Subset(Named(lambda index: (X[index], int(Y[index]))), range(COUNT))),
        lambda: ConcatDataset([Named(lambda index: (X[index], int(Y[index])))]),
        lambda: table(label=Y.tolist(), text=TEXTS),
        lambda: table(label=Y.tolist(), image=[picture(index) for index in range(COUNT)]),
    ],
)
def test_names_of_classes_are_kept(make: Callable[[], Any]) -> None:
    data = load(make())
    assert (data.labels.tolist(), data.classes) == (Y.tolist(), NAMES)


def test_texts(trained: Any) -> None:
    frame = pd.DataFrame({"text": TEXTS, "label": Y})
    expected, weights = trained(frame, text="text")
    pairs = [(text, int(label)) for text, label in zip(TEXTS, Y, strict=True)]
    for data in ((TEXTS, Y), pairs, Items(lambda index: pairs[index]), hub.Dataset.from_pandas(frame)):
        run, same = trained(data)
        assert same == weights
        assert run.predict(TEXTS).labels.tolist() == expected.predict(frame).labels.tolist()
    wide = hub.Dataset.from_pandas(frame.assign(id=range(COUNT)))
    assert load(wide).notes[0].startswith("the texts in the column 'text' are learned from, and 'id' left out")
    assert trained(wide)[1] == weights


def test_columns_of_hugging_face(refused: Any) -> None:
    mixed = {"city": ["Oslo", "Rome"] * (COUNT // 2), "spent": X[:, 0].tolist(), "label": Y.tolist()}
    data = load(hub.Dataset.from_dict(mixed))
    assert data.inputs.kinds == ("category", "number")
    two = hub.Dataset.from_dict({"x": X.tolist(), "y": Y.tolist(), "target": Y[::-1].tolist()})
    assert "name the label column, as in label='stars', or y='stars' for RobustClassifier" in refused(load, two)
    assert load(two, label="target").label == "target"
    assert "no column 'nope'" in refused(load, two, label="nope")
    ragged = hub.Dataset.from_dict({"tokens": [[1] * (row % 3 + 1) for row in range(COUNT)], "label": Y.tolist()})
    assert "not numbers of one length" in refused(load, ragged)
    images = table(image=[picture(row) for row in range(COUNT)], label=Y.tolist(), id=Y.tolist())
    assert load(images.with_format("torch")).notes[0].endswith("'image' are learned from, and 'id' left out")
    np.testing.assert_array_equal(load(images).inputs, PIXELS)


def test_parts() -> None:
    whole = table(text=TEXTS, label=Y.tolist())
    few, hidden = whole.select(range(6)), whole.select(range(4)).cast_column("label", hub.Value("int64"))
    hidden = hidden.map(lambda row: {"label": -1}).cast_column("label", CLASSES)
    data = load(hub.DatasetDict(train=whole, test=few, validation=few.select(range(3)), unsupervised=hidden))
    assert data.test is not None
    assert data.validation is not None
    assert (len(data.test), len(data.validation), data.test.labels.tolist()) == (6, 3, Y[:6].tolist())
    assert data.notes == ("parts of the data that are not read: 'unsupervised'",)
    data = load(hub.DatasetDict(train=whole, test=hidden))
    assert (data.test, data.notes) == (None, ("the part 'test' has no labels, and is left out",))
    loaders = load({"train": DataLoader(tensors()), "val": DataLoader(tensors())})
    assert loaders.test is not None
    np.testing.assert_array_equal(loaders.test.inputs, X)
    images = table(image=[picture(row) for row in range(COUNT)], label=Y.tolist())
    smaller = table(image=[picture(row).resize((5, 4)) for row in range(COUNT)], label=Y.tolist())
    read = load(hub.DatasetDict(train=images, test=smaller))
    assert read.test is not None
    assert read.test.inputs.shape == read.inputs.shape


def test_image_folders_are_read_from_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Any) -> None:
    for row in range(COUNT):
        (tmp_path / NAMES[Y[row]]).mkdir(exist_ok=True)
        picture(row).save(tmp_path / NAMES[Y[row]] / f"{row:02}.png")
    expected, data = load(tmp_path), load(ImageFolder(tmp_path))
    np.testing.assert_array_equal(data.inputs, expected.inputs)
    assert (data.classes, data.paths) == (expected.classes, expected.paths)
    run, weights = trained(ImageFolder(tmp_path))
    assert weights == trained(tmp_path)[1]
    same = [run.predict(each).labels.tolist() for each in (tmp_path, ImageFolder(tmp_path), expected)]
    assert same[0] == same[1] == same[2]
    some = load(Subset(ImageFolder(tmp_path), [29, 3]))
    np.testing.assert_array_equal(some.inputs, expected.inputs[[29, 3]])
    changed = ImageFolder(tmp_path, lambda image: torch.tensor(np.asarray(image) / 255))
    assert "without the transform of the data set" in load(changed).notes[0]
    floating = [changed[row] for row in range(COUNT)]
    np.testing.assert_allclose(load(floating).inputs, expected.inputs / np.float32(255), rtol=1e-6)
    with pytest.raises(ValueError, match="trained on images of floating-point numbers"):
        trained(floating)[0].predict(tmp_path)
    monkeypatch.setattr("pyrite.data.folders.IN_MEMORY", 100)
    assert isinstance(load(ImageFolder(tmp_path)).inputs, LazyImages)


def test_pictures_of_several_sizes_are_scaled() -> None:
    data = load(Items(lambda index: (picture(index).resize((10 + index % 3, 12)), Y[index])))
    assert data.inputs.shape == (COUNT, 3, 11, 11)
    assert data.notes == ("images are scaled to cover 11 x 11 pixels and cropped in the middle",)
    grey = load(Items(lambda index: (picture(index).convert("L"), Y[index])))
    assert grey.inputs.shape == (COUNT, 1, 8, 10)


@pytest.mark.parametrize("draw", [random.random, lambda: np.random.random(), lambda: float(torch.rand(()))])  # noqa: NPY002
def test_random_transforms_are_drawn_once(draw: Callable[[], float]) -> None:
    items = Items(lambda index: (np.append(X[index], draw()), Y[index]))
    torch.manual_seed(3)
    before = random.getstate(), torch.get_rng_state()
    one = load(items)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    draw()
    np.testing.assert_array_equal(load(items).inputs, one.inputs)
    assert len(np.unique(one.inputs[:, -1])) == COUNT
    assert "each item was read once, with a fixed seed" in one.notes[0]


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(tensors(), **options)


def test_what_a_loader_does_besides_is_a_note() -> None:
    weighted = loader(sampler=WeightedRandomSampler([1.0] * COUNT, COUNT), collate_fn=list)
    assert load(weighted).notes == (
        "the WeightedRandomSampler of the DataLoader is not used: every item of its data set is read once",
        "the collate_fn of the DataLoader is not used: items are read from its data set",
    )
    assert load(loader(batch_sampler=BatchSampler(RandomSampler(Y), 4, drop_last=True))).notes == ()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (Stream(), "an IterableDataset, whose items have neither number nor index: pass list(data)"),
        (DataLoader(Stream()), "pass list(data), if it fits into memory, or a Dataset with __len__"),
        (hub.Dataset.from_dict({"x": [1]}).to_iterable_dataset(), "pass load_dataset(..., streaming=False)"),
        (hub.IterableDatasetDict(train=hub.Dataset.from_dict({"x": [1]}).to_iterable_dataset()), "streaming=False"),
        (iter([1]), "pass list(data)"),
        (
            loader(sampler=SubsetRandomSampler([1, 2])),
            "pass torch.utils.data.Subset(loader.dataset, list(loader.sampler",
        ),
        (loader(sampler=range(3)), f"sampler selects 3 of the {COUNT} items of its data set"),
        (TensorDataset(torch.tensor(X)), "label is missing: pass the labels"),
        (torch.tensor(X), "label is missing"),
        (TensorDataset(*[torch.tensor(Y)] * 3), "data has 3 tensors, but must have two: pass TensorDataset(X, y)"),
        ([(X[0], 0, 1)], "item 0 has 3 parts, but must be (input, label)"),
        ([{"a": X[0], "b": X[0], "label": 0}], "dicts with the keys 'a', 'b', 'label'"),
        ([(X[0], 0), (X[0, :3], 1)], "item 1 has the shape (3,), but item 0 has (4,): use one shape for all"),
        ([(PIXELS[0], 0), (FLOATS[0, :3], 1)], "item 1 holds float32, but item 0 holds uint8"),
        ([(picture(0), 0), (PIXELS[0], 1)], "item 1 is a ndarray, but item 0 is of another type"),
        ([(3.0, 0), (2.0, 1)], "item 0 is a float, but an input must be an image, an array"),
        (Items(lambda index: X[COUNT]), "item 0 of the data cannot be read: IndexError: index 60 is out of bounds"),
        (Items(lambda index: X[0], count=0), "data is an empty Items"),
        ((X[:, 0], Y), "data has samples of shape (): features are (F,)"),
        ((np.zeros((COUNT, 2, 3, 4, 5)), Y), "use flatten(1), or reshape them"),
        ((np.where(FLOATS > 3, np.nan, FLOATS), Y), "nan is not a finite number"),
        ((X, np.eye(3)[Y]), "label look one-hot, but must be one number or text per sample: pass the argmax(1)"),
        ((X, Y[:, None]), "one annotator"),
        (TensorDataset(torch.tensor(X), torch.eye(3)[Y]), "argmax(1) makes numbers of one-hot rows"),
        ((X, Y + 0.5), "label is 0.5 at index 0, but labels are classes: put the numbers into ranges first"),
        ((X, Y[:4]), "label has 4 labels, but there are 60 samples"),
        ((X, [Y[0], X[0], *Y[2:]]), "label holds values of several shapes"),
        (Named(lambda index: (X[index], 7)), "label 7 at index 0, but there are 3 classes, 0 to 2"),
        ({"x": X, "y": Y}, "with the keys 'x', 'y', but must have the data set 'train' and maybe 'test': pass (X, y)"),
        ({"a": tensors(), "b": tensors()}, "but not 'train': pass one, as data['a']"),
        (table(text=TEXTS, label=[-1] * COUNT), "pass data.filter(lambda row: row['label'] >= 0)"),
    ],
)
def test_what_is_refused(data: Any, said: str, refused: Any) -> None:
    assert said in refused(load, data)


def test_labels_are_given_once(refused: Any) -> None:
    assert "given twice" in refused(load, (X, Y), label=Y)
    assert "which has its own: leave out the labels" in refused(pyrite.train, "digits", Y)
    assert "not rows of a table: leave out text" in refused(load, (X, Y), text="a")


def test_too_much_for_the_memory(refused: Any) -> None:
    large = Items(lambda index: (np.zeros((1, 10**5)), 0), count=10**9)
    assert "1,000,000,000 items of shape (1, 1, 100000)" in refused(load, large)


def test_predictions_of_other_samples_are_refused(trained: Any, refused: Any) -> None:
    run = trained(X, Y, key=id(X))[0]
    for wrong in (X[:, :3], torch.tensor(X[:, :3]), tensors(X[:, :3]), load((X[:, :3], Y))):
        assert "has samples of shape (3,), but the model expects (4,)" in refused(run.predict, wrong)
    assert "samples of shape (3,), but the model expects (4,)" in refused(run.scores, X[:, :3])
    assert "trained on 4 numbers per sample" in refused(run.predict, TEXTS)
    assert "with the parts 'train': pass one, as data['train']" in refused(run.predict, {"train": tensors()})
    assert "item 0 has samples of shape (3,)" in refused(run.predict, [{"x": X[0, :3]}])
    images = trained(PIXELS, Y, key=id(PIXELS))[0]
    said = "has images of float32, but the model was trained on images of bytes from 0 to 255 (uint8)"
    assert said in refused(images.predict, torch.tensor(PIXELS / 255))
    assert "of floating-point numbers" in refused(
        trained(FLOATS, Y, key=id(FLOATS))[0].predict, (FLOATS * 9).astype("u1")
    )
    assert len(images.predict([picture(0).resize((40, 20))])) == 1


def test_a_run_resumes_with_the_same_object(tmp_path: Path, trained: Any, refused: Any) -> None:
    settings = SHORT | {"epochs": 2, "batch_size": 8}
    whole = pyrite.train(loader(), out=tmp_path / "whole", **settings)
    steps: list[bool] = []

    def stop() -> bool:
        steps.append(True)
        return len(steps) == 4

    pyrite.train(X, Y, out=tmp_path / "run", stop=stop, **settings)
    assert "given in Python" in refused(pyrite.train, resume=tmp_path / "run")
    run = pyrite.train(torch.tensor(X), torch.tensor(Y), resume=tmp_path / "run", progress=False)
    assert (run.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


def test_audits_comparisons_and_searches(tmp_path: Path) -> None:
    read: list[int] = []

    def item(index: int) -> tuple[Any, int]:
        read.append(index)
        return X[index], int(Y[index])

    expected = pyrite.audit(X, Y, out=tmp_path / "a", **SHORT)
    audited = pyrite.audit(DataLoader(Items(item)), out=tmp_path / "b", **SHORT)
    np.testing.assert_array_equal(audited.score, expected.score)
    read.clear()
    compared = pyrite.compare(Items(item), ["ce", "mae"], out=tmp_path / "c", **SHORT)
    assert len(compared.rows) == 2
    assert len(read) <= COUNT + 1
    read.clear()
    assert len(pyrite.tune(Items(item), ["ce"], trials=1, out=tmp_path / "d", **SHORT).trials) == 1
    assert len(read) <= COUNT + 1


def test_the_classifier() -> None:
    def fitted(*data: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pyrite.RobustClassifier(folds=0, epochs=1, members=1).fit(*data)

    expected = fitted(X, Y).predict_proba(X)
    for data in ((torch.tensor(X), torch.tensor(Y)), (tensors(),), (loader(),), ((X, Y),)):
        np.testing.assert_array_equal(fitted(*data).predict_proba(tensors()), expected)
    assert set(fitted(Named(lambda index: (X[index], int(Y[index])))).predict(torch.tensor(X))) <= set(NAMES)
    expected = fitted(FLOATS, Y).predict_proba(FLOATS)
    np.testing.assert_array_equal(fitted(tensors(FLOATS)).predict_proba(FLOATS.transpose(0, 2, 3, 1)), expected)
    texts = table(text=TEXTS, label=Y.tolist())
    assert set(fitted(texts).predict(texts)) <= set(NAMES)
    numbers = hub.Dataset.from_dict({"width": X[:, 0].tolist(), "height": X[:, 1].tolist(), "kind": Y.tolist()})
    assert set(fitted(numbers, "kind").predict(numbers)) <= {*Y}
    with pytest.raises(ValueError, match="DatasetDict with the parts 'train': pass one, as data\\['train'\\]"):
        fitted(hub.DatasetDict(train=texts))
    with pytest.raises(ValueError, match="requires y to be passed"):
        fitted(torch.tensor(X))
    with pytest.raises(ValueError, match=r"samples of shape \(3,\), but the model expects \(4,\)"):
        fitted(tensors()).predict(torch.tensor(X[:, :3]))
