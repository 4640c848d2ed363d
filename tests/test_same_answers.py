"""The same data in any form give the same answer: every way in, by every change that does not change the data."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest

import pyrite

ROWS = 60
OPTIONS: dict[str, Any] = {"label": "label", "epochs": 1, "model": "mlp(hidden=[4])", "progress": False}
Change = Callable[[pd.DataFrame], pd.DataFrame]


def original() -> pd.DataFrame:
    """A column of every kind, most of them with a gap."""
    random = np.random.default_rng(0)
    price = np.round(random.normal(3000, 1000, ROWS), 2)
    count = pd.array(random.integers(0, 90, ROWS), "Int64")
    count[3] = pd.NA
    when = pd.Series(pd.date_range("2024-03-30 22:30", periods=ROWS, freq="7h", tz="Europe/Berlin"))
    when[5] = pd.NaT
    return pd.DataFrame({
        "price": price,
        "count": count,
        "city": random.choice(["Oslo", "Köln", "São Paulo"], ROWS),
        "member": random.random(ROWS) < 0.5,
        "when": when,
        "remark": [f"remark {row} with a comma, and a semicolon; {price[row]:.0f}" for row in range(ROWS)],
        "label": np.where(price + random.normal(0, 500, ROWS) > 3000, "dear", "cheap"),
    })  # fmt: skip


CHANGES: dict[str, Change] = {
    "as it is": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda frame: frame.astype(dict.fromkeys(("count", "member", "city"), object)),
    "floats": lambda frame: frame.astype({"count": "Float64"}),
    "categories": lambda frame: frame.astype({"city": "category", "label": "category"}),
    "in UTC": lambda frame: frame.assign(when=frame.when.dt.tz_convert("UTC")),
    "in Tokyo": lambda frame: frame.assign(when=frame.when.dt.tz_convert("Asia/Tokyo")),
    "without a zone": lambda frame: frame.assign(when=frame.when.dt.tz_convert("UTC").dt.tz_localize(None)),
    "in seconds": lambda frame: frame.assign(when=frame.when.dt.as_unit("s")),
}
ORDERS: dict[str, Change] = {
    "reversed": lambda frame: frame[frame.columns[::-1]],
    "with others": lambda frame: frame.assign(extra=1.25)[["extra", *frame.columns[2:], *frame.columns[:2]]],
}


def write_csv(**options: Any) -> Callable[[pd.DataFrame, Path], Path]:
    def write(frame: pd.DataFrame, folder: Path) -> Path:
        frame.to_csv(folder / "t.csv", index=False, **options)
        return folder / "t.csv"

    return write


def write_parquet(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


WAYS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda frame, folder: frame,
    "polars": lambda frame, folder: polars.from_pandas(frame),
    "parquet": write_parquet,
    "csv": write_csv(),
    "csv of a German Excel": write_csv(sep=";", decimal=",", encoding="utf-8-sig"),
    "csv with tabs in UTF-16": write_csv(sep="\t", encoding="utf-16"),
}
# Of the ways that are text, types are gone: the original is enough.
CASES = [
    (way, change)
    for way, change in product(WAYS, CHANGES)
    if "csv" not in way or change in ("as it is", "in Tokyo", "without a zone")
]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Audit:
    return pyrite.audit(original(), out=tmp_path_factory.mktemp("expected") / "run", **OPTIONS)


@pytest.mark.parametrize(("way", "change"), CASES)
def test_training_and_audit(way: str, change: str, expected: pyrite.Audit, tmp_path: Path) -> None:
    source = WAYS[way](CHANGES[change](original()), tmp_path)
    found = pyrite.audit(source, out=tmp_path / "run", **OPTIONS)
    assert found.run is not None
    assert expected.run is not None
    for name in ("model.safetensors", "samples.npz", "features.npz"):
        assert (found.run.path / name).read_bytes() == (expected.run.path / name).read_bytes(), name
    np.testing.assert_array_equal(found.wrong_probability, expected.wrong_probability)


@pytest.mark.parametrize(("way", "change"), [*CASES, *product(WAYS, ORDERS)])
def test_prediction(way: str, change: str, expected: pyrite.Audit, tmp_path: Path) -> None:
    run = expected.run
    assert run is not None
    source = WAYS[way]((CHANGES | ORDERS)[change](original()), tmp_path)
    answer = run.predict(original()).probabilities
    np.testing.assert_array_equal(run.predict(source).probabilities, answer)
    np.testing.assert_array_equal(run.predict(pyrite.data.load(source, label="label")).probabilities, answer)
