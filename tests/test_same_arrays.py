"""The same numbers, images and texts in any container of any type give the same answer, with every command."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

import pyrite

ROWS = 64
CLASSES = ("ant", "bee")
Labels = npt.NDArray[np.int64]
Way = Callable[[Any, Labels, Path], Any]


class Items(Dataset[Any]):
    """A data set as people write them."""

    def __init__(self, inputs: Any, labels: Any) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Any:
        return self.inputs[index], self.labels[index]


def shuffled_subset(whole: Any, labels: Any) -> Any:
    """Of a data set in another order, the items in the order that is meant."""
    order = np.random.default_rng(1).permutation(len(whole))
    moved = [whole[row] for row in order] if isinstance(whole, list) else whole[order]
    return Subset(Items(moved, labels[order]), np.argsort(order).tolist())


def halves(whole: Any, labels: Any) -> Any:
    half = len(whole) // 2
    return ConcatDataset([Items(whole[:half], labels[:half]), Items(whole[half:], labels[half:])])


# What any inputs can be put into.
CONTAINERS: dict[str, Way] = {
    "Dataset": lambda x, y, folder: Items(x, y),
    "list of dicts": lambda x, y, folder: [{"data": one, "label": y[row]} for row, one in enumerate(x)],
    "Subset": lambda x, y, folder: shuffled_subset(x, y),
    "ConcatDataset": lambda x, y, folder: halves(x, y),
    "DataLoader": lambda x, y, folder: DataLoader(Items(x, y), batch_size=5, shuffle=True, drop_last=True),
    "list of items": lambda x, y, folder: [(one, int(label)) for one, label in zip(x, y, strict=True)],
}


# Numbers.


def numbers() -> npt.NDArray[np.float64]:
    """Small whole numbers, which every type holds exactly."""
    return np.random.default_rng(0).integers(-20, 20, (ROWS, 4)).astype(np.float64)


def as_tensor(x: npt.NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x.astype(x.dtype.newbyteorder("="))))


def frame(x: npt.NDArray[Any], y: Labels) -> pd.DataFrame:
    native = x.astype(x.dtype.newbyteorder("="))
    return pd.DataFrame({f"column {place}": native[:, place] for place in range(x.shape[1])}).assign(label=y)


def written(way: str) -> Way:
    def write(x: Any, y: Labels, folder: Path) -> Path:
        path, table = folder / f"t.{way}", frame(x, y)
        table = table.astype({name: "float32" for name in table if table[name].dtype == "float16"})
        table.to_csv(path, index=False) if way == "csv" else table.to_parquet(path)
        return path

    return write


def write_npz(x: Any, y: Labels, folder: Path) -> Path:
    np.savez(folder / "t.npz", x=x, y=y)
    return folder / "t.npz"


def hub(x: Any, y: Labels, folder: Path) -> Any:
    return datasets.Dataset.from_dict({"features": x.astype(x.dtype.newbyteorder("=")).tolist(), "label": y.tolist()})


def hub_columns(x: Any, y: Labels, folder: Path) -> Any:
    table = frame(x, y)
    return datasets.Dataset.from_pandas(
        table.astype({name: "float32" for name in table if table[name].dtype == "float16"})
    )


NUMBERS: dict[str, Way] = CONTAINERS | {
    "arrays": lambda x, y, folder: (x, y),
    "tensors": lambda x, y, folder: (as_tensor(x), torch.from_numpy(y)),
    "TensorDataset": lambda x, y, folder: TensorDataset(as_tensor(x), torch.from_numpy(y)),
    "DataLoader of tensors": lambda x, y, folder: DataLoader(TensorDataset(as_tensor(x), torch.from_numpy(y)), 7),
    "npz": write_npz,
    "csv": written("csv"),
    "parquet": written("parquet"),
    "pandas": lambda x, y, folder: frame(x, y),
    "pandas in another order of its index": lambda x, y, folder: frame(x, y).set_index(np.arange(len(y))[::-1]),
    "polars": lambda x, y, folder: polars.from_pandas(frame(x, y).astype({"label": "int32"}).astype("float32")),
    "datasets": hub,
    "datasets for torch": lambda x, y, folder: hub(x, y, folder).with_format("torch"),
    "datasets of columns": hub_columns,
    "datasets in parts": lambda x, y, folder: datasets.DatasetDict({"train": hub(x, y, folder)}),
}

TYPES: dict[str, Callable[[Any], Any]] = {
    **{name: (lambda x, name=name: x.astype(name)) for name in ("f8", "f4", "f2", "i8", "i2", "i1", ">f8", ">i4")},
    "by columns": np.asfortranarray,
    "every second of more": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
}


# Images.


def pictures() -> npt.NDArray[np.uint8]:
    """Sorted by class, as a folder is."""
    drawn = np.random.default_rng(0).integers(0, 200, (ROWS, 3, 8, 8)).astype(np.uint8)
    drawn[ROWS // 2 :, 0] += 50
    return drawn


def opened(x: npt.NDArray[np.uint8]) -> list[Image.Image]:
    return [Image.fromarray(one.transpose(1, 2, 0)) for one in x]


def files(x: Any, y: Labels, folder: Path) -> Path:
    for row, (image, label) in enumerate(zip(opened(x), y, strict=True)):
        (folder / "photos" / str(label)).mkdir(parents=True, exist_ok=True)
        image.save(folder / "photos" / str(label) / f"{row:03}.png")
    return folder / "photos"


def hub_images(x: Any, y: Labels, folder: Path) -> Any:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["0", "1"])})
    return datasets.Dataset.from_dict({"image": opened(x), "label": y.tolist()}, features=features)


def within(way: Way, convert: Callable[[Any], Any]) -> Way:
    return lambda x, y, folder: way(convert(x), y, folder)


IMAGES: dict[str, Way] = {
    **{f"{name} of Pillow": within(way, opened) for name, way in CONTAINERS.items()},
    **{f"{name} of tensors": within(way, torch.from_numpy) for name, way in CONTAINERS.items()},
    "arrays": lambda x, y, folder: (x, y),
    "arrays, channels last": lambda x, y, folder: (x.transpose(0, 2, 3, 1), y),
    "tensors": lambda x, y, folder: (torch.from_numpy(x), torch.from_numpy(y)),
    "npz": write_npz,
    "folder": files,
    "datasets": hub_images,
    "datasets for torch": lambda x, y, folder: hub_images(x, y, folder).with_format("torch"),
}


# Texts.


def sentences() -> list[str]:
    random = np.random.default_rng(0)
    words = ["a", "bee,", "ant;", "'both'", "of", '"them"', "näher", "dran"]
    return [" ".join([*random.choice(words, 6), f"no {row}"]) for row in range(ROWS)]


def text_files(x: list[str], y: Labels, folder: Path) -> Path:
    for row, (text, label) in enumerate(zip(x, y, strict=True)):
        (folder / "texts" / str(label)).mkdir(parents=True, exist_ok=True)
        (folder / "texts" / str(label) / f"{row:03}.txt").write_text(text, encoding="utf-8")
    return folder / "texts"


def text_table(x: list[str], y: Labels, folder: Path) -> Path:
    pd.DataFrame({"text": x, "label": y}).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


TEXTS: dict[str, Way] = CONTAINERS | {
    "lists": lambda x, y, folder: (x, y.tolist()),
    "array": lambda x, y, folder: (np.array(x), y),
    "csv": text_table,
    "folder": text_files,
    "pandas": lambda x, y, folder: pd.DataFrame({"text": x, "label": y}),
    "polars": lambda x, y, folder: polars.DataFrame({"text": x, "label": y}),
    "datasets": lambda x, y, folder: datasets.Dataset.from_dict({"text": x, "label": y.tolist()}),
}


class Family(NamedTuple):
    """Samples, the ways to pass them, and changes of their type that do not change them."""

    inputs: Callable[[], Any]
    ways: Mapping[str, Way]
    changes: Mapping[str, Callable[[Any], Any]]


SAME: dict[str, Callable[[Any], Any]] = {"as it is": lambda x: x}
FAMILIES = {
    "numbers": Family(numbers, NUMBERS, SAME | TYPES),
    "images": Family(pictures, IMAGES, SAME),
    "texts": Family(sentences, TEXTS, SAME),
}
FIRST = {"numbers": "arrays", "images": "arrays", "texts": "lists"}
QUICK = {"DataLoader", "DataLoader of tensors", "datasets"}  # to be exported: the others take a minute
NAMED = {"csv", "parquet", "pandas", "pandas in another order of its index", "polars", "datasets of columns"}
OPTIONS: dict[str, Any] = {"epochs": 1, "model": "mlp(hidden=[4])", "progress": False}
# Every way as it is, and every change by the ways that keep the type.
CASES = [(name, way, "as it is") for name, family in FAMILIES.items() for way in family.ways]
CASES += [("numbers", way, change) for way, change in product(("arrays", "tensors", "Dataset", "npz"), TYPES)]


def labels() -> Labels:
    return np.arange(ROWS) // (ROWS // 2)


def options(family: str) -> dict[str, Any]:
    return OPTIONS | ({"features": "none"} if family == "images" else {})


def source(family: str, way: str, change: str, folder: Path, rows: Any = None) -> Any:
    """Samples in a container; ``rows`` are some of them, in any order."""
    inputs, given = FAMILIES[family].inputs(), labels()
    if rows is not None:
        inputs, given = ([inputs[row] for row in rows] if isinstance(inputs, list) else inputs[rows]), given[rows]
    return FAMILIES[family].ways[way](FAMILIES[family].changes[change](inputs), given, folder)


Expected = Callable[[str, str], pyrite.Audit]
"""The audit of a family, of arrays or of columns with names, and its run."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    @cache
    def audit(family: str, way: str) -> pyrite.Audit:
        folder = tmp_path_factory.mktemp(family)
        return pyrite.audit(source(family, way, "as it is", folder), out=folder / "run", **options(family))

    return lambda family, way: audit(family, "pandas" if way in NAMED and family == "numbers" else FIRST[family])


def run_of(audit: pyrite.Audit) -> pyrite.Run:
    assert audit.run is not None
    return pyrite.Run.load(audit.run.path)


def exported(run: pyrite.Run, family: str, folder: Path) -> torch.Tensor:
    """The scores of the exported model, for what it takes."""
    inputs = FAMILIES[family].inputs()
    if run.features is not None:
        inputs = run.features.transform(pyrite.data.texts(inputs)).astype(np.float64)
    pyrite.export(run, folder / "model.pt2")
    scores: torch.Tensor = torch.export.load(folder / "model.pt2").module()(torch.as_tensor(inputs))
    return scores


@pytest.mark.parametrize(("family", "way", "change"), CASES)
def test_training_and_audit(family: str, way: str, change: str, expected: Expected, tmp_path: Path) -> None:
    answer = expected(family, "")
    found = pyrite.audit(source(family, way, change, tmp_path), out=tmp_path / "run", **options(family))
    assert found.classes == answer.classes
    run, known = run_of(found), run_of(answer)
    for name in ("model.safetensors", "samples.npz"):
        assert (run.path / name).read_bytes() == (known.path / name).read_bytes(), name
    np.testing.assert_array_equal(found.wrong_probability, answer.wrong_probability)


@pytest.mark.parametrize(
    ("family", "way"),
    [
        pytest.param(family, way, marks=() if way in QUICK else pytest.mark.slow)
        for family, way, change in CASES
        if change == "as it is"
    ],
)
def test_export(family: str, way: str, expected: Expected, tmp_path: Path) -> None:
    run = pyrite.train(source(family, way, "as it is", tmp_path), out=tmp_path / "run", **options(family))
    known = pyrite.train(source(family, FIRST[family], "as it is", tmp_path), out=tmp_path / "known", **options(family))
    assert torch.equal(exported(run, family, tmp_path), exported(known, family, tmp_path))


@pytest.mark.parametrize(("family", "way", "change"), CASES)
def test_prediction(family: str, way: str, change: str, expected: Expected, tmp_path: Path) -> None:
    run = run_of(expected(family, way))
    answer = run.predict(FAMILIES[family].inputs()).probabilities
    rows = {"": None, "reversed": np.arange(ROWS)[::-1], "copies": np.repeat(np.arange(ROWS), 2)}
    for name in rows if change == "as it is" else [""]:
        (folder := tmp_path / name).mkdir(exist_ok=True)
        given = source(family, way, change, folder, rows[name])
        given = given["train"] if isinstance(given, datasets.DatasetDict) else given
        order = slice(None) if rows[name] is None or way == "folder" else rows[name]
        probabilities = run.predict(given).probabilities
        if way == "folder" and name == "copies":  # in the order of its files
            probabilities = probabilities[::2]
        if way == "folder" and name == "reversed":
            probabilities = probabilities.reshape(2, -1, 2)[:, ::-1].reshape(-1, 2)
        np.testing.assert_allclose(probabilities, answer[order], rtol=1e-6)


@pytest.mark.parametrize(("family", "way", "change"), [case for case in CASES if case[2] == "as it is"])
def test_copies_are_in_one_part(family: str, way: str, change: str, tmp_path: Path) -> None:
    rows = np.repeat(np.arange(ROWS), 2)
    given = source(family, way, change, tmp_path, rows)
    run = pyrite.train(given, out=tmp_path / "run", validation=0.25, **options(family))
    part = run.labels["part"].reshape(ROWS, 2)
    assert (part[:, 0] == part[:, 1]).all()
    assert len({*part[:, 0]}) == 2
