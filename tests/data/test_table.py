import builtins
import sys

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from pyrite.data import Statistics, load

READ = pandas.read_csv

TABLE = "height,label,weight\n1.5,cat,2\n-3e2,dog,0\n4,cat,7\n"


def test_csv(tmp_path):
    path = tmp_path / "animals.csv"
    path.write_text(TABLE)
    data = load(path)
    np.testing.assert_array_equal(data.inputs, np.array([[1.5, 2], [-300, 0], [4, 7]]))
    assert data.inputs.dtype == np.float64
    assert data.labels.tolist() == [0, 1, 0]
    assert data.classes == ("cat", "dog")
    assert data.name == "animals"


def test_another_label_column_quotes_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\ufeffkind,"x, scaled"\n"10",1\n"9",2\n', encoding="utf-8")
    data = load(f'csv("{path}", label="kind")')
    assert data.classes == ("9", "10")
    assert data.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(load(path, label="kind").inputs, [[1], [2]])


def test_classes_do_not_depend_on_the_hash_seed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,label\n1,b\n2,c\n3,a\n4,B\n")
    assert load(path).classes == ("B", "a", "b", "c")


def test_csv_with_a_test_part(tmp_path, refused):
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "b.csv").write_text("height,label,weight\n1,dog,2\n")
    data = load(tmp_path / "a.csv", test=str(tmp_path / "b.csv"))
    assert data.test.labels.tolist() == [1]
    (tmp_path / "b.csv").write_text("height,label,weight\n1,dog,2\n2,emu,2\n")
    assert "'emu' at index 1" in refused(load, tmp_path / "a.csv", test=str(tmp_path / "b.csv"))
    (tmp_path / "b.csv").write_text("weight,label,height\n1,dog,2\n")  # in another order
    np.testing.assert_array_equal(load(tmp_path / "a.csv", test=str(tmp_path / "b.csv")).test.inputs, [[2, 1]])
    (tmp_path / "b.csv").write_text("label,height\ndog,2\n")
    assert "no column is called 'weight'" in refused(load, tmp_path / "a.csv", test=str(tmp_path / "b.csv"))
    (tmp_path / "b.csv").write_text("height,label,weight\n,dog,2\n")  # a gap where training has none
    data = load(tmp_path / "a.csv", test=str(tmp_path / "b.csv"))
    assert data.inputs.kinds == data.test.inputs.kinds == ("number", "number")
    (tmp_path / "b.csv").write_text("height,label,weight\ntall,dog,2\n")
    said = refused(load, tmp_path / "a.csv", test=str(tmp_path / "b.csv"))
    assert "row 1 (line 2), column 'height': 'tall' is not a number" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("-3e2", "inf", "column 'height': 'inf'"),
        ("dog", " ", "row 2 (line 3), column 'label': the label is missing"),
        (",7\n", "\n", "row 3 (line 4): 2 cells, but 3 columns"),
        (",7\n", ",7,8\n", "4 cells"),
        ("label", "kind", "no column is called 'label'; there are 'height', 'kind', 'weight'"),
        ("weight", "height", "two columns are called 'height'"),
        ("dog", "cat", "only the class 'cat'"),
        ("dog", "nan", "the label at index 1 is missing ('nan')"),
        ("dog", "<NA>", "the label at index 1 is missing ('<NA>')"),
        ("-3e2", "1e309", "column 'height': '1e309' is not a number"),
        (TABLE, "", "empty"),
        (TABLE, "label,x\n", "no rows"),
        (TABLE, "label\na\nb\n", "no column beside"),
        (TABLE, 'x,label\n"1,a\n', "not a CSV file"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, refused, old, new, said):
    path = tmp_path / "a.csv"
    path.write_text(TABLE.replace(old, new))
    message = refused(load, path)
    assert said in message
    assert str(path) in message


def test_not_text(tmp_path, refused):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,label\n\xff\xfe,1\n")
    assert "not a CSV file" in refused(load, path)
    assert "no data set, file or folder" in refused(load, tmp_path / "none.csv")
    assert "cannot be read" in refused(load, f'csv("{tmp_path}")')


def write_parquet(path, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_parquet(tmp_path):
    path = write_parquet(
        tmp_path / "a.parquet", x=[1.5, 2.5, 3.5], label=["b", "a", "b"], n=[1, 2, 3], t=[True, False, True]
    )
    data = load(path, ignore="t")
    np.testing.assert_array_equal(data.inputs, np.array([[1.5, 1], [2.5, 2], [3.5, 3]]))
    assert load(path).inputs.kinds == ("number", "number", "boolean")
    assert data.inputs.dtype == np.float64
    assert (data.labels.tolist(), data.classes) == ([1, 0, 1], ("a", "b"))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": [float("inf"), 1.0], "label": [0, 1]}, "row 1, column 'x': inf is not a finite number"),
        ({"x": [[1], [2]], "label": [0, 1]}, "column 'x': ndarray is neither a number, a date nor a text"),
        ({"x": [1, 2], "label": [0, None]}, "row 2, column 'label'"),
        ({"x": [1, 2], "label": [0.5, 1.5]}, "the column 'label' holds 2 different numbers, but labels are classes"),
        ({"x": [1, 2], "label": ["a", ""]}, "row 2, column 'label': the label is missing"),
        ({"x": [2**60, 2**60 + 1], "label": [0, 1]}, "row 1, column 'x': the numbers of the column, from 11529"),
        ({"x": [1.0, 2.0, 1e39, 3.0], "label": [0, 1, 0, 1]}, "row 3, column 'x': 1e+39 is so far"),
        ({"x": [1, 2], "label": [3, 3]}, "only the class '3'"),
        ({"x": [1, 2], "z": [0, 1]}, "no column is called 'label'"),
        ({"x": [None, None], "label": [0, 1]}, "the column 'x' is empty: there is nothing to learn from"),
    ],
)
def test_wrong_parquet_is_refused(tmp_path, refused, columns, said):
    path = write_parquet(tmp_path / "a.parquet", **columns)
    assert said in refused(load, path)


def test_parquet_that_is_no_parquet(tmp_path, refused):
    path = write_parquet(tmp_path / "a.parquet", x=[1, 2], label=[0, 1])
    for content in (b"", b"PAR1", path.read_bytes()[:-20]):
        path.write_bytes(content)
        assert "not a Parquet file" in refused(load, path)


def test_without_pyarrow_one_sentence_says_what_to_install(tmp_path, refused, monkeypatch):
    path = write_parquet(tmp_path / "a.parquet", x=[1, 2], label=[0, 1])
    real = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **options)

    for name in [name for name in sys.modules if name.startswith("pyarrow")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'pyrite-labels[parquet]'" in refused(load, path)


def test_times_in_nanoseconds_are_read(tmp_path):
    times = [1_700_000_000_000_000_001 + 10**9 * second for second in range(4)]
    path = write_parquet(tmp_path / "a.parquet", t=times, label=["a", "b", "a", "b"])
    np.testing.assert_array_equal(load(path).inputs[:, 0], np.array(times, np.float64))


def test_a_cell_far_from_the_others_is_named(tmp_path, refused):
    path = tmp_path / "a.csv"
    rows = "".join(f"{number}.5,{number % 2},7\n" for number in range(20))
    path.write_text(f"height,label,weight\n{rows}1e39,1,7\n")
    message = refused(load, path)
    assert message.startswith(f"{path}, row 21 (line 22), column 'height': 1e+39 is so far from the other values")


@pytest.mark.parametrize(
    ("scale", "shift"), [(1, 0), (1e300, 0), (1e-300, 0), (1e39, 0), (1e-42, 0), (1, 1_700_000_000)]
)
def test_units_of_a_column_do_not_matter(tmp_path, scale, shift):
    path = tmp_path / "a.csv"
    heights = np.arange(-40.0, 40.0)
    path.write_text("height,label\n" + "".join(f"{h * scale + shift!r},{int(h) % 2}\n" for h in heights.tolist()))
    data = load(path)
    ready = Statistics.of(data.inputs).standardise(data.inputs)
    np.testing.assert_allclose(ready[:, 0], (heights + 0.5) / heights.std(), rtol=1e-6)
    assert len(np.unique(ready)) == 80


@pytest.mark.parametrize("cells", [["1.5", "2"], ["7", "8"], ["nan", "2"], ["007", "012"]], ids="-".join)
def test_a_file_is_not_parsed_once_per_column(tmp_path, monkeypatch, cells):
    counts = []
    for columns in (3, 60):
        path, calls = tmp_path / f"{columns}.csv", []
        rows = [",".join([*[cell] * columns, label]) for cell, label in zip(cells * 4, "abba" * 2, strict=True)]
        path.write_text("\n".join([",".join([*(f"c{place}" for place in range(columns)), "label"]), *rows]))
        monkeypatch.setattr(
            pandas, "read_csv", lambda *args, calls=calls, **more: calls.append(1) or READ(*args, **more)
        )
        assert len(load(str(path)).inputs) == 8
        counts.append(len(calls))
    assert counts[0] == counts[1] <= 3
