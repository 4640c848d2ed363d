"""Tables as people have them: gaps, categories, dates, texts, files of Excel, pandas and polars."""

from pathlib import Path

import numpy as np
import pandas
import polars
import pytest

import pyrite
from pyrite.data import Records, load

ROWS = 40


@pytest.fixture(scope="module")
def frame():
    """A frame of nullable types, as pandas's own tools write it."""
    rng = np.random.default_rng(0)
    gap = rng.random(ROWS) < 0.2
    return pandas.DataFrame(
        {
            "age": pandas.array(np.where(gap, None, rng.integers(20, 60, ROWS)), dtype="Int64"),
            "income": np.round(rng.normal(1000, 300, ROWS), 2),
            "city": rng.choice(["Köln", "Oslo"], ROWS),
            "member": pandas.array(np.where(gap, None, rng.random(ROWS) < 0.5), dtype="boolean"),
            "since": pandas.Timestamp("2020-01-31") + pandas.to_timedelta(rng.integers(0, 900, ROWS), "D"),
            "remark": [f"remark no. {number}; with a semicolon, and a comma" for number in range(ROWS)],
            "plan": np.where(np.arange(ROWS) % 2, "a", "b"),
        }
    )


KINDS = ("number", "number", "category", "boolean", "date", "text")
WRITERS = {
    "comma.csv": lambda frame, path: frame.to_csv(path, index=False),
    "excel.csv": lambda frame, path: frame.to_csv(
        path, index=False, sep=";", decimal=",", encoding="utf-8-sig", date_format="%d.%m.%Y"
    ),
    "tab.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t", encoding="utf-16"),
    "bar.csv": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "sep.csv": lambda frame, path: path.write_text("sep=;\n" + frame.to_csv(index=False, sep=";")),
    "crlf.csv": lambda frame, path: path.write_bytes(frame.to_csv(index=False, lineterminator="\r\n").encode()),
    "a.parquet": lambda frame, path: frame.to_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_records(tmp_path, frame, name):
    WRITERS[name](frame, tmp_path / name)
    data = load(tmp_path / name, label="plan")
    assert isinstance(data.inputs, Records)
    assert data.inputs.kinds == KINDS
    assert data.columns == tuple(frame.columns[:-1])
    same_as(data.inputs, frame)
    assert data.classes == ("a", "b")


def same_as(records, frame):
    age, income, city, member, since, remark = (column.values for column in records.columns)
    np.testing.assert_array_equal(age, frame.age.to_numpy(float, na_value=np.nan))
    np.testing.assert_array_equal(income, frame.income)
    assert city.tolist() == frame.city.tolist()
    np.testing.assert_array_equal(member, frame.member.to_numpy(float, na_value=np.nan))
    np.testing.assert_array_equal(since, frame.since.to_numpy("M8[s]"))
    assert remark.tolist() == frame.remark.tolist()


@pytest.mark.parametrize(
    "make", [lambda frame: frame, polars.from_pandas, lambda frame: frame.astype({"city": "category"})]
)
def test_frames(frame, make):
    data = load(make(frame), label="plan")
    assert data.inputs.kinds == KINDS
    same_as(data.inputs, frame)
    labelled = load(
        make(frame).drop("plan", **({} if make is polars.from_pandas else {"axis": 1})), label=frame.plan.tolist()
    )
    assert labelled.labels.tolist() == data.labels.tolist()


def test_a_frame_of_numbers_stays_plain_numbers(frame):
    data = load(frame[["income", "plan"]], label="plan")
    np.testing.assert_array_equal(data.inputs[:, 0], frame.income)


def test_lists_of_texts_and_arrays(refused):
    data = load(["one text", "another"], label=["a", "b"])
    assert data.inputs.is_text
    assert data.inputs.texts() == ["one text", "another"]
    assert load(np.arange(6).reshape(3, 2), label=[0, 1, 1]).inputs.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert "2 labels, but there are 1 samples" in refused(load, ["one text"], label=["a", "b"])
    assert "text is 3 at index 1, but must be a text" in refused(load, ["one text", 3], label=["a", "b"])
    assert "label is missing" in refused(load, ["one text"])


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_the_label_is_guessed_and_said(tmp_path, refused):
    rows = "".join(f"{number},{number % 3}\n" for number in range(30))
    for name, note in (("label", ""), ("Target", "'Target'"), ("y", "'y'"), ("species", "the last column, 'species'")):
        data = load(write(tmp_path / "a.csv", f"x,{name}\n{rows}"))
        assert (data.label, len(data.classes)) == (name, 3)
        assert all(note in sentence for sentence in data.notes)
        assert bool(data.notes) == bool(note)
    assert "name the label column with --label" in refused(load, write(tmp_path / "a.csv", f"class,y\n{rows}"))
    decimals = "".join(f"{number},{number % 3}.5\n" for number in range(30))
    assert "name the label column with --label" in refused(load, write(tmp_path / "a.csv", f"x,price\n{decimals}"))
    assert "did you mean 'species'" in refused(load, write(tmp_path / "a.csv", f"x,species\n{rows}"), label="specie")


def test_columns_are_ignored_and_name_samples(tmp_path, refused):
    path = write(tmp_path / "a.csv", "id,url,x,label\n" + "".join(f"n{i},http://{i},{i},{i % 2}\n" for i in range(9)))
    data = load(path, ignore="url", name="id")
    assert (data.columns, data.paths[:2]) == (("x",), ("n0", "n1"))
    np.testing.assert_array_equal(data.inputs[:, 0], np.arange(9))
    assert "no column is called 'urls'; did you mean 'url'" in refused(load, path, ignore="urls")
    assert "the column 'label' contains the labels" in refused(load, path, ignore="label", label="label")


def test_a_comma_in_a_name(tmp_path):
    path = write(tmp_path / "a.csv", '"x, y",z,label\n1,2,a\n3,4,b\n')
    assert load(path, ignore="x, y").columns == ("z",)


def test_the_index_that_pandas_writes_is_left_out(tmp_path, frame):
    frame[["income", "plan"]].to_csv(tmp_path / "a.csv")
    data = load(tmp_path / "a.csv")
    assert data.columns == ("income",)
    assert any("numbers the rows" in note for note in data.notes)


def test_text_columns(tmp_path, refused):
    path = write(tmp_path / "a.csv", 'title,body,label\nA,"one, two\nthree",x\nB,,y\n')
    assert load(path, text="body").inputs.texts() == ["one, two\nthree", ""]
    assert load(path, text="title,body").inputs.texts() == ["A\none, two\nthree", "B"]
    empty = write(tmp_path / "b.csv", "body,label\n,x\n,y\n")
    assert "the column 'body' is empty: there is nothing to learn from" in refused(load, empty, text="body")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,x,label\n1,2,a\n3,4,b\n", "two columns are called 'x'"),
        (",,label\n1,2,a\n3,4,b\n", "two columns are without a name"),
        ("x;label\n1,234;a\n5,678;b\n", "may have decimals or thousands: specify decimal"),
        ("x,label\n" + "1,a\n" * 30 + "1 pc,b\n", "row 31 (line 32), column 'x': '1 pc' is not a number, but 30 of 31"),
        ("x,label\n1,0.25\n2,0.5\n3,0.75\n4,1.5\n", "'label' holds 4 different numbers, but labels are classes"),
        ("x,label\n1,a\n2\n", "row 2 (line 3): 1 cells, but 2 columns"),
        ('x,label\n1,"a, b"\n2\n3,b\n', "row 2 (line 3): 1 cells, but 2 columns"),
        ("x,label\n1,a,c\n2\n3,b\n", "row 1 (line 2): 3 cells, but 2 columns"),
    ],
)  # fmt: skip
def test_what_is_refused_in_one_sentence(tmp_path, refused, text, said):
    assert said in refused(load, write(tmp_path / "a.csv", text))


def test_decimals_thousands_and_encodings_can_be_said(tmp_path, refused):
    path = write(tmp_path / "a.csv", "x;label\n1,234;a\n5,678;b\n")
    assert load(path, decimal=",").inputs.tolist() == [[1.234], [5.678]]
    assert load(f"csv('{path}', decimal='.')").inputs.tolist() == [[1234], [5678]]
    path.write_bytes("größe,label\n1,a\n2,b\n".encode("cp1252"))
    assert "save it as UTF-8, or name its encoding" in refused(load, path)
    assert load(path, encoding="cp1252").columns == ("größe",)
    for option in ({"encoding": "latin-99"}, {"decimal": ";"}, {"delimiter": ",,"}):
        assert f"{next(iter(option))} is" in refused(load, path, **option)


def test_spreadsheets_are_named(tmp_path, refused):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    assert "save the sheet as CSV first" in refused(load, tmp_path / "a.xlsx")


def test_a_folder_of_texts(tmp_path, refused):
    for label, words in (("ham", "see you at noon"), ("spam", "cheap pills")):
        for number in range(3):
            (tmp_path / "mail" / label).mkdir(parents=True, exist_ok=True)
            write(tmp_path / "mail" / label / f"{number}.txt", f"\ufeff{words} {number}")
    data = load(tmp_path / "mail")
    assert (data.classes, data.labels.tolist()) == (("ham", "spam"), [0, 0, 0, 1, 1, 1])
    assert data.inputs.texts()[3] == "cheap pills 0"
    assert data.paths[0] == "ham/0.txt"
    (tmp_path / "mail" / "ham" / "0.txt").write_bytes(b"caf\xe9")
    assert "0.txt: not a text in UTF-8" in refused(load, tmp_path / "mail")


def test_units_and_marks_are_read_by_column(tmp_path: Path) -> None:
    """Currencies, per cent and both decimal marks in one table are numbers; two units in one column are not."""
    values = np.random.default_rng(0).uniform(1, 9999, 60).round(2)
    german = [f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in values]
    frame = pandas.DataFrame(
        {
            "euro": [f"€ {value:,.2f}" for value in values],
            "dollar": [f"${value:,.2f}" for value in values],
            "percent": [f"{value:.2f} %" for value in values],
            "comma": [f"{value:.2f}".replace(".", ",") for value in values],
            "german": [f"{text} EUR" for text in german],
            "gaps": [f"{value:,.2f}".replace(",", "\u202f") for value in values],
            "small": [f"0.{number:03}" for number in range(60)],
            "two": [f"{'€$'[number % 2]}{value}" for number, value in enumerate(values)],
            "code": [f"SKU {number}" for number in range(60)],
            "label": np.resize(["yes", "no"], 60),
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load(str(tmp_path / "t.csv"))
    assert isinstance(data.inputs, Records)
    for name in ("euro", "dollar", "percent", "comma", "german", "gaps"):
        np.testing.assert_array_equal(data.inputs.column(name).values, values, err_msg=name)
    np.testing.assert_array_equal(data.inputs.column("small").values, np.arange(60) / 1000)
    assert {data.inputs.column(name).kind for name in ("two", "code")} == {"text"}
    run = pyrite.train(str(tmp_path / "t.csv"), epochs=1, out=tmp_path / "run", progress=False)
    frame[:7].drop(columns="label").to_csv(tmp_path / "u.csv", index=False)
    whole, some = (run.predict(str(tmp_path / name)).probabilities for name in ("t.csv", "u.csv"))
    np.testing.assert_allclose(some, whole[:7], rtol=1e-5)  # the last digits depend on the batch
