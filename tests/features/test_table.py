"""The columns of a table as numbers, against scikit-learn and pandas."""

import unicodedata
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from pyrite.data import Column, Records, load
from pyrite.features import encoder
from tests.features.examples import make_table

TRAIN = np.arange(0, 60, 2)


@pytest.fixture(scope="module")
def encoded():
    table = make_table()
    features = encoder("table").fit(table, TRAIN)
    return table, features.names, features.transform(table)


def test_gaps_are_the_median_of_the_training_rows_and_marked(encoded):
    table, names, numbers = encoded
    for name in ("size", "open"):
        values = table.column(name).values[:, None]
        expected = SimpleImputer(strategy="median", add_indicator=True).fit(values[TRAIN]).transform(values)
        np.testing.assert_array_equal(numbers[:, [names.index(name), names.index(f"{name} is missing")]], expected)


def test_categories_are_one_hot_and_rare_ones_together(encoded):
    table, names, numbers = encoded
    values = table.column("city").values[:, None]
    theirs = OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist", sparse_output=False).fit(
        values[TRAIN]
    )
    expected = dict(zip(theirs.get_feature_names_out(), theirs.transform(values).T, strict=True))
    ours = {"x0_Oslo": "city=Oslo", "x0_": "city is missing"}
    for theirs_name, name in ours.items():
        np.testing.assert_array_equal(numbers[:, names.index(name)], expected[theirs_name])
    one_hot = numbers[:, [place for place, name in enumerate(names) if name.startswith("city")]]
    assert (one_hot.sum(1) <= 1).all()


def test_unseen_categories_are_rare_ones_or_nothing():
    def column(*cells):
        return Records([Column("x", "category", np.array(cells, object))])

    with_rare = encoder("table").fit(column(*"aaabbbc"), np.arange(7))
    assert with_rare.names == ("x=a", "x=b", "x, other")
    assert with_rare.transform(column("b", "c", "new")).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    without = encoder("table").fit(column(*"aaabbb"), np.arange(6))
    assert without.transform(column("a", "new")).tolist() == [[1, 0], [0, 0]]
    assert with_rare.unfamiliar(column("b", "c")) == ()
    again = encoder("table").restore(with_rare.state())
    for features in (with_rare, without, again):
        (said,) = features.unfamiliar(column("new", "a", "newer"))
        assert said == "the category 'new' of 'x' and others, in 2 of 3 rows, was not in the training part"
    few = encoder("table(categories=1)").fit(column(*"aaaabbb"), np.arange(7))
    assert few.names == ("x=a", "x, other")


def test_dates_are_the_parts_that_pandas_finds(encoded):
    table, names, numbers = encoded
    known = ~table.column("when").missing
    series = pandas.Series(table.column("when").values[known])
    parts = {
        "month": series.dt.month, "day of the month": series.dt.day, "weekday": series.dt.day_of_week + 1,
        "hour": series.dt.hour,
        "days since 1970": (series - pandas.Timestamp(0)) / pandas.Timedelta(days=1),
    }  # fmt: skip
    for name, expected in parts.items():
        np.testing.assert_allclose(numbers[known, names.index(f"when, {name}")], expected, rtol=1e-12)
    assert "when is missing" not in names  # the only gap is not in a training row


def test_constant_parts_of_dates_are_left_out():
    days = np.array(["2020-01-06", "2020-01-13", "2020-01-20"], "M8[us]")
    features = encoder("table").fit(Records([Column("d", "date", days)]), np.arange(3))
    assert features.names == ("d, days since 1970", "d, day of the month")


def test_times_within_a_second_differ(tmp_path: Path) -> None:
    """In a file, and in the types of pandas; a millisecond is 1e-8 of a day, of which there were 18,262 since 1970."""
    moments = pandas.Series(pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.arange(40), unit="ms"))
    frame = pandas.DataFrame({"when": moments, "y": np.arange(40) % 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for same in (frame, frame.astype({"when": object}), tmp_path / "t.csv"):
        data = load(same, label="y")
        features = encoder("table").fit(data.inputs, np.arange(40))
        assert features.names == ("when, days since 1970",)
        days = features.transform(data.inputs)[:, 0] - 18_262
        np.testing.assert_allclose(86_400_000 * days, np.arange(40), atol=1e-3)


def test_large_numbers_keep_their_digits(encoded):
    table, names, numbers = encoded
    known = ~table.column("size").missing
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers[known, names.index("size")], table.column("size").values[known])


def test_empty_columns_say_nothing():
    empty = Records([Column("x", "text", np.array(["", ""], object))])
    with pytest.raises(ValueError, match="all columns of the table are empty"):
        encoder("table").fit(empty, np.arange(2))


def test_a_gap_or_two_get_no_number_of_their_own() -> None:
    """Standardised, the mark of two gaps in 344 rows is 13, and outweighs everything else that is known of the row."""
    values = np.arange(40.0)
    for gaps, marked in ((2, False), (3, True)):
        numbers = np.where(np.arange(40) < gaps, np.nan, values)
        fitted = encoder("table").fit(Records((Column("mass", "number", numbers),)), np.arange(40))
        assert ("mass is missing" in fitted.names) == marked
        assert np.isfinite(fitted.transform(Records((Column("mass", "number", numbers),)))).all()


@pytest.mark.parametrize("kind", ["category", "text"])
def test_spellings_that_look_the_same_are_the_same(kind: str) -> None:
    """é of one character or two, as macOS writes it in names, and spaces around a category."""
    words = ["Café am See", "Käse und Öl", "Oslo", "Rome"] * 5

    def records(form: str) -> Records:
        texts = [unicodedata.normalize(form, word) for word in words]
        return Records([Column("x", kind, np.array(texts, object)), Column("y", "number", np.arange(20.0))])

    features = encoder("table").fit(records("NFC"), np.arange(20))
    np.testing.assert_array_equal(features.transform(records("NFD")), features.transform(records("NFC")))
    assert features.unfamiliar(records("NFD")) == ()
    half = Records([Column("x", kind, np.array([unicodedata.normalize(form, f" {word} ") for word, form in
                    zip(words, ["NFC", "NFD"] * 10, strict=True)], object)), records("NFC").columns[1]])  # fmt: skip
    assert len(np.unique(encoder("table").fit(half, np.arange(20)).transform(half)[:, :-1].round(6), axis=0)) == 4
    if kind == "text":
        texts = [Records(records(form).columns[:1]) for form in ("NFC", "NFD")]
        plain = encoder("tfidf").fit(texts[0], np.arange(20))
        np.testing.assert_array_equal(*map(plain.transform, texts))
