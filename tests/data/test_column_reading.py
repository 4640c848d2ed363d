"""How columns are read: what is left out, what is said of each, and how to change it."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

from pyrite.cli.app import app
from pyrite.data import Column, load
from pyrite.data.column_reading import is_identifier, reading_sentence

ROWS = 60


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "customer_id": [f"C-{number:05}" for number in rng.permutation(ROWS)],
            "charges": [f"€ {value:,.2f}" for value in rng.uniform(100, 9000, ROWS)],
            "zip": rng.choice(["01067", "10115"], ROWS),
            "signed": [f"{day}/{month}/2020" for day, month in rng.integers(1, 12, (ROWS, 2))],
            "source": "web",
            "fax": "",
            "age": [str(age) if age > 25 else "" for age in rng.integers(20, 60, ROWS)],
            "churned": np.resize(["yes", "no"], ROWS),
        }
    )
    frame.to_csv(tmp_path / "customers.csv", index=False)
    return tmp_path / "customers.csv"


def test_every_column_is_described(table: Path) -> None:
    data = load(table, label="churned")
    assert data.columns == ("charges", "zip", "signed", "age")
    read = {one.name: one for one in data.reading}
    assert list(read) == pandas.read_csv(table, nrows=0).columns.tolist()
    assert (read["charges"].kind, read["charges"].detail) == ("number", "€")
    assert read["zip"].kind == "category"
    assert read["age"].gaps == int((pandas.read_csv(table)["age"].isna()).sum()) > 0
    assert read["signed"].detail == "dates in an unclear order"
    assert [name for name, one in read.items() if one.kind == "left out"] == ["customer_id", "source", "fax"]
    (note,) = data.notes
    assert all(name in note for name in ("'customer_id'", "'source'", "'fax'"))
    assert reading_sentence(data.reading).endswith("3 columns are left out")


def test_the_flag_of_each_column_changes_it(table: Path) -> None:
    for one in load(table, label="churned").reading:
        if not one.change.startswith("--types "):
            continue
        name, _, kind = one.change.removeprefix("--types ").partition("=")
        again = {other.name: other for other in load(table, label="churned", types=f"{name}={kind}").reading}[name]
        assert again.kind == ("date" if kind == "dmy" else kind) != one.kind


def test_check_prints_the_table_only(table: Path) -> None:
    printed = CliRunner().invoke(app, ["check", str(table), "--label", "churned"]).output
    assert "labels in 'churned': no 50 %, yes 50 %" in printed
    assert "identifier" in printed
    assert "--types signed=dmy" in printed
    found = json.loads(CliRunner().invoke(app, ["check", str(table), "--json"]).output)
    assert [one["name"] for one in found["columns"]][:2] == ["customer_id", "charges"]
    assert found["classes"] == {"no": 0.5, "yes": 0.5}


def test_a_wrong_type_is_named(table: Path, refused) -> None:
    assert "types is 'zip=code', but must be such as" in refused(load, table, types="zip=code")
    assert "no column is called 'zap'" in refused(load, table, types="zap=text")
    assert "'C-" in refused(load, table, types="customer_id=number")


@pytest.mark.parametrize(
    ("name", "values", "is_one"),
    [
        ("PassengerId", np.arange(1000.0, 1000 + ROWS), True),
        ("order", np.arange(ROWS, dtype=float), True),
        ("year", np.arange(1960.0, 1960 + ROWS), False),
        ("income", np.arange(ROWS) * 137.0, False),
        ("weight", np.arange(ROWS) / 7, False),
    ],
)
def test_numbers_that_identify(name: str, values: np.ndarray, is_one: bool) -> None:
    assert is_identifier(Column(name, "number", values)) == is_one


def test_telephone_numbers_identify() -> None:
    values = np.array([f"+49 30 {number}" for number in range(1_234_567, 1_234_567 + ROWS)], object)
    assert is_identifier(Column("contact", "text", values))
    assert not is_identifier(Column("contact", "text", np.array([f"{value} ask for Ann" for value in values], object)))


def test_an_identifier_alone_is_learned_from(tmp_path: Path) -> None:
    """A classifier of codes by their characters is what the user asks for."""
    (tmp_path / "a.csv").write_text("code,label\n" + "".join(f"{'AB'[i % 2]}{i:03},{i % 2}\n" for i in range(40)))
    assert load(tmp_path / "a.csv").columns == ("code",)
