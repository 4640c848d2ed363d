"""Every line of the tables "you have, you type" is typed, with files that other programs wrote."""

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import webdataset
from PIL import Image
from sklearn.datasets import load_wine
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app

PAGES = [Path(__file__).parents[1] / name for name in ("README.md", "docs/start.md")]
ROWS = 60
SHORT = ("--epochs", "1", "--model", "mlp(hidden=[8])")
# The files of CIFAR-10 may not be here, and embeddings of small images are quicker.
STANDS_FOR = {"cifar10": "blobs(samples=60)", "efficientnet_lite2": "efficientnet_lite2(size=32)"}


def typed() -> list[str]:
    """What the second column of the tables has in code font; ``.parquet`` is the last command with such a file."""
    sections = [page.read_text(encoding="utf-8").partition("## You have, you type\n")[2] for page in PAGES]
    found: list[str] = []
    for line in [line for section in sections for line in section.partition("\n## ")[0].splitlines()[3:]]:
        if not line.startswith("|"):
            continue
        cell = line.strip("| ").split(" | ")[-1]
        for code in re.findall(r"`([^`]+)`", cell):
            found.append(found[-1].replace(".csv", code) if code.startswith(".") else code)
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of every name in the table."""
    folder = tmp_path_factory.mktemp("have")
    frame = customers()
    # As Excel writes it where the decimal mark is a comma, and as pandas writes types that have a missing value.
    frame.to_csv(
        folder / "customers.csv", sep=";", decimal=",", encoding="utf-8-sig", index=False, date_format="%d.%m.%Y"
    )
    frame.convert_dtypes().to_parquet(folder / "customers.parquet")
    pd.DataFrame({"review": texts(), "stars": stars()}).to_csv(folder / "reviews.csv")
    for row in range(ROWS):
        mail, photos = (folder / kind / "ab"[row % 2] for kind in ("mail", "photos"))
        mail.mkdir(parents=True, exist_ok=True)
        photos.mkdir(parents=True, exist_ok=True)
        (mail / f"{row}.txt").write_text(texts()[row], encoding="utf-8")
        Image.new("RGB", (20 + row % 3, 24), (4 * row, 90 * (row % 2), 50)).save(photos / f"{row}.jpg")
    for number in range(2):
        with webdataset.TarWriter(str(folder / f"photos-{number:03d}.tar")) as writer:
            for row in range(number, ROWS, 2):
                image = Image.new("RGB", (24, 24), (4 * row, 90 * (row % 3), 50))
                writer.write({"__key__": str(row), "png": np.asarray(image), "cls": row % 3})
    import datasets

    images = [Image.new("RGB", (24, 24), (4 * row, 90 * (row % 2), 50)) for row in range(ROWS)]
    columns = datasets.Dataset.from_dict({"image": images, "label": ["ab"[row % 2] for row in range(ROWS)]})
    columns.to_parquet(str(folder / "train-00000-of-00001.parquet"))
    x, y = load_wine(return_X_y=True)
    np.savez(folder / "arrays.npz", x=x, y=y)
    np.save(folder / "scores.npy", np.random.default_rng(0).normal(size=(ROWS, 3)))
    np.save(folder / "labels.npy", np.arange(ROWS) % 3)
    scores = np.random.default_rng(0).normal(size=(ROWS, 2))
    pd.DataFrame(scores, columns=["no", "yes"]).to_csv(folder / "scores.csv", index=False)
    shots = pd.DataFrame({"file": [f"{row}.jpg" for row in range(ROWS)], "shop": ["x", "y"] * (ROWS // 2)})
    shots.to_csv(folder / "shots.csv", index=False)
    return folder


def customers() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": np.arange(ROWS) + 1000,
            "household": np.arange(ROWS) // 2,
            "spent": np.where(np.arange(ROWS) % 9 == 0, np.nan, rng.normal(50, 9, ROWS).round(2)),
            "city": [("Oslo", "Rome", None)[row % 3] for row in range(ROWS)],
            "active": pd.array([(True, False, None)[row % 3] for row in range(ROWS)], "boolean"),
            "since": pd.Timestamp("2024-02-29") + pd.to_timedelta(rng.integers(0, 700, ROWS), unit="D"),
            "churned": ["no" if row % 2 else "yes" for row in range(ROWS)],
        }
    )


def texts() -> list[str]:
    return [f"{('good', 'bad')[row % 2]} film, no. {row}; “{'é' * (row % 3)}”" for row in range(ROWS)]


def stars() -> list[int]:
    return [5 - 4 * (row % 2) for row in range(ROWS)]


def objects(folder: Path) -> dict[str, Any]:
    """What the expressions of the table name."""
    import datasets
    from torch import tensor
    from torch.utils.data import DataLoader, Dataset, TensorDataset

    class ImageFolder(Dataset[Any]):
        """What torchvision's class has."""

        def __init__(self) -> None:
            self.classes, self.class_to_idx, self.samples = ["a", "b"], {"a": 0, "b": 1}, []
            for row in range(ROWS):
                path = folder / f"{row}.png"
                Image.new("RGB", (20, 24), (4 * row, 90 * (row % 2), 50)).save(path)
                self.samples.append((str(path), row % 2))

    columns = datasets.Dataset.from_dict({"review": texts(), "stars": stars()})
    dataset = TensorDataset(tensor(load_wine().data[:ROWS]), tensor(stars()))
    return {
        "frame": customers(),
        "texts": texts(),
        "labels": stars(),
        "dataset": dataset,
        "loader": DataLoader(dataset, batch_size=16, shuffle=True),
        "image_folder": ImageFolder(),
        "hf_dataset": columns.rename_column("stars", "label"),
        "dataset_dict": datasets.DatasetDict(train=columns, test=columns),
    }


COMMANDS = [code for code in typed() if code.startswith("pyrite ")]
EXPRESSIONS = [code for code in typed() if not code.startswith("pyrite ")]


def test_the_table_is_found() -> None:
    assert len(COMMANDS) >= 9
    assert len(EXPRESSIONS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    words = [STANDS_FOR.get(word, word) for word in shlex.split(command)[1:]]
    if words[0] == "check":
        printed = CliRunner().invoke(app, words, catch_exceptions=False).output
        assert all(name in printed for name in ("spent", "since", "--types"))
        return
    trained = () if "--scores" in words else SHORT
    done = CliRunner().invoke(app, [*words, *trained, "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    if words[0] == "train":
        assert len((tmp_path / "run" / "history.jsonl").read_text().splitlines()) == 1
        return
    assert (tmp_path / "run" / "label_studio.json").exists() == ("--label-studio" in words)
    rows = pd.read_csv(tmp_path / "run" / "suspects.csv")
    assert len(rows) == ROWS
    classes = {"customers": ["no", "yes"], "reviews": [1, 5], "photos/": ["a", "b"], "mail/": ["a", "b"]}
    classes["train-*"] = ["a", "b"]
    file = "customers" if "scores.csv" in words else words[1].partition(".")[0]
    assert set(rows["given"]) == set(classes.get(file, [0, 1, 2]))
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("spent", "since") if words[1].startswith("customers"))
    assert 'id="card"' in page


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = load_wine(return_X_y=True)
    from torch import nn, tensor

    names = {"pyrite": pyrite, "X": x, "y": y, "nn": nn, **objects(tmp_path)}
    trained = re.match(r"pyrite\.(audit|train)\(", expression)
    short = re.sub(r"\)$", f", epochs=1, out={str(tmp_path / 'run')!r})", expression) if trained else expression
    made = eval(short, names)
    if trained:
        labels = made.labels if trained[1] == "audit" else made.labels["given"]
        assert len(labels) == (len(y) if "(X" in expression else ROWS)
    elif isinstance(made, nn.Module):
        assert float(made(tensor([[2.0, 0.0]]), tensor([0]))) > 0
    else:
        assert made.score(x, y) > 0.9
