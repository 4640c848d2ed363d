"""What a cell and a column of texts hold."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pyrite
from pyrite.data.columns import category_or_text, decimal_mark, number, text_column


@pytest.mark.parametrize(
    ("cell", "decimal", "value"),
    [
        ("1.5", ".", 1.5), (" -3e2 ", ".", -300), ("1,234", ".", 1234), ("1,234,567.5", ".", 1234567.5),
        ("1,5", ",", 1.5), ("1.234,5", ",", 1234.5), ("1.234", ",", 1234), ("-0,25", ",", -0.25), ("1.5", ",", 1.5),
    ],
)  # fmt: skip
def test_numbers(cell, decimal, value):
    assert number(cell, decimal) == value


@pytest.mark.parametrize("cell", ["", "1_000", "0x10", "12 kg", "1,5,3", "1.2.3"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_what_is_no_number(cell, decimal):
    with pytest.raises(ValueError):
        number(cell, decimal)


@pytest.mark.parametrize(
    ("columns", "mark"),
    [
        ([["1.5", "2"]], "."), ([["1,5", "2"]], ","), ([["1,50", "1,234"]], ","), ([["1,234"]], None),
        ([["1,234"], ["0.5"]], "."), ([["1,234"], ["0,5"]], ","), ([["1.234,5"]], ","), ([["1,234.5"]], "."),
        ([["a, b", "c"]], "."), ([["1", "2"]], "."), ([["", "1,5", "NA"]], ","), ([["1,5"], ["1.5"]], "."),
    ],
)  # fmt: skip
def test_the_decimal_mark_is_what_leaves_no_doubt(columns, mark):
    assert decimal_mark(columns) == mark


@pytest.mark.parametrize(
    ("cells", "kind", "second"),
    [
        (["true", "False", ""], "boolean", 0.0),
        (["0.764", "6,55", "NA", "5.400"], "number", 6.55),  # a decimal mark of each kind
        (["1.234,5", "1,234.5", "7"], "number", 1234.5),
        (["1.234,5", "1,234.5", "1,234"], "category", "1,234.5"),  # thousands or decimals?
        (["71.5 kg", "80,25 kg"], "number", 80.25),
        (["71.5", "80 kg"], "number", 80.0),
        (["71.5 kg", "80 lb"], "category", "80 lb"),
        (["+49 137314696", "+49 30123456"], "category", "+49 30123456"),  # no thousands
        (["2020-02-03", "2021-12-31", "NA"], "date", np.datetime64("2021-12-31")),
        (["2020-02-03 04:05:06", "2021-12-31T00:00:00"], "date", np.datetime64("2021-12-31")),
        (["2020-02-03T04:05:06+02:00", "2021-12-31 23:00 -01:00"], "date", np.datetime64("2022-01-01")),
        (["03.02.2020", "31.12.2021 10:30"], "date", np.datetime64("2021-12-31T10:30")),
        (["3.2.2020", "4.5.2021"], "date", np.datetime64("2021-05-04")),  # points: the day comes first
        (["3/2/2020", "31/12/2021"], "date", np.datetime64("2021-12-31")),
        (["3/2/2020", "12/31/2021"], "date", np.datetime64("2021-12-31")),
        (["3/2/2020", "4/5/2021"], "category", "4/5/2021"),  # day or month?
        (["3/2/20", "31/12/21"], "category", "31/12/21"),  # which century?
        (["2020-02-30", "2021-12-31"], "category", "2021-12-31"),
        (["yes", "no", "yes"], "category", "no"),
        (["It was a fine day.", "We saw no one at all."], "text", "We saw no one at all."),
    ],
)
def test_what_a_column_of_texts_is(cells, kind, second):
    column, _ = text_column("x", np.array(cells, object), str)
    assert column.kind == kind
    assert column.values[1] == second
    assert column.missing.tolist() == [cell in ("", "NA") for cell in cells]


def test_many_different_texts_are_no_categories():
    names = np.array([f"name {number}" for number in range(41)] * 10, object)
    assert category_or_text(names) == "text"
    assert category_or_text(names[:-1][:40]) == "category"


@pytest.mark.parametrize("place", [0, 2])
def test_times_with_and_without_a_zone_in_one_column(place: int, tmp_path: Path) -> None:
    """Which instants those without one are is a guess."""
    times: list[Any] = [datetime(2020, 1, day, 12, tzinfo=UTC) for day in range(1, 5)]
    times[place] = times[place].replace(tzinfo=None)
    frame = pd.DataFrame({"seen": pd.Series(times, dtype=object), "label": list("abab")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, str(tmp_path / "a.csv")):
        with pytest.raises(pyrite.PyriteError, match=f"row {place + 1}.* the time has no time zone, but others"):
            pyrite.data.load(source)


@pytest.mark.parametrize("column", ["x", "label"])
def test_truth_values_among_numbers(column: str) -> None:
    """They were categories, and two classes: True and 1."""
    frame = pd.DataFrame({"x": range(4), "label": range(4)}, dtype=object)
    frame.loc[2, column] = True
    with pytest.raises(pyrite.PyriteError, match=rf"row 3, column '{column}': True is a truth value, but others"):
        pyrite.data.load(frame)
