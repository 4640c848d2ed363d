"""Samples of every kind, small and known."""

import numpy as np

from pyrite.data import Column, InputKind, Inputs, Records, texts

WORDS = {0: ("good", "fine", "great", "kind"), 1: ("bad", "poor", "awful", "rude")}


def make_texts(count: int = 60) -> Records:
    rng = np.random.default_rng(0)
    return texts([f"{' '.join(rng.choice(WORDS[row % 2], 4))} film no. {row % 7}" for row in range(count)])


def make_table(count: int = 60) -> Records:
    rng = np.random.default_rng(1)
    numbers = rng.normal(1e6, 1, count)
    numbers[::7] = np.nan
    dates = np.datetime64("2019-12-30T22:15:00") + (rng.integers(0, 900, count) * 3_601).astype("m8[s]")
    dates[3] = "NaT"
    cities = np.array(
        [("Oslo", "Rome", "", f"rare {row}" if row % 20 == 3 else "Bonn")[row % 4] for row in range(count)], object
    )
    return Records(
        [
            Column("size", "number", numbers),
            Column("open", "boolean", np.where(rng.random(count) < 0.3, np.nan, rng.integers(0, 2, count))),
            Column("city", "category", cities),
            Column("when", "date", dates.astype("M8[us]")),
            Column("note", "text", make_texts(count).columns[0].values),
        ]
    )


def samples(kind: InputKind) -> Inputs:
    """Samples of a kind."""
    if kind == "table":
        return make_table()
    if kind == "text":
        return make_texts()
    rng = np.random.default_rng(2)
    return rng.normal(size=(60, 3)) if kind == "numbers" else rng.integers(0, 256, (6, 3, 32, 32)).astype(np.uint8)
