"""The demo as a newcomer runs it, but shorter."""

import base64
import html
import io
import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from pyrite.demonstration import DEMO_METHODS
from pyrite.report.page import check_audit
from tests.children import run

EPOCHS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("somewhere")


class Done(NamedTuple):
    code: int
    output: str
    errors: str


@pytest.fixture(scope="module")
def first(folder: Path) -> Done:
    words, errors = ["demo", "--out", str(folder / "demo"), "--epochs", str(EPOCHS)], folder / "errors"
    code, output = run(*words, log=folder / "log", errors=errors)
    return Done(code, output, errors.read_text())


@pytest.fixture(scope="module")
def lines(first: Done, folder: Path) -> dict[str, list[dict[str, float]]]:
    """The histories as they are on the disk, by the names of the report; runs are in the order of their names."""
    assert first.code == 0, first.errors
    runs = [path.parent for path in sorted(folder.glob("demo/*-0/recipe.toml"))]
    assert len(runs) == len(DEMO_METHODS)
    names = [DEMO_METHODS[spec] for spec in sorted(DEMO_METHODS)]
    return {
        name: [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
        for name, run in zip(names, runs, strict=True)
    }


def expected(lines: list[dict[str, float]]) -> list[str]:
    """The numbers of a row, made from the history and nothing else."""
    last = lines[-1]
    numbers = [last["test_accuracy"], max(line["test_accuracy"] for line in lines)]
    numbers += [last[name] for name in ("clean_accuracy", "memorised", "recovered")]
    return [f"{100 * number:.2f}" for number in numbers]


def test_every_run_had_the_same_settings(lines: dict[str, list[dict[str, float]]], folder: Path) -> None:
    assert {len(history) for history in lines.values()} == {EPOCHS}
    recipes = [path.read_text().splitlines() for path in folder.glob("demo/*-0/recipe.toml")]
    shared = set(recipes[0]).intersection(*recipes)
    # All but the method, the learning rate and clipping of imae, and the labels that the default holds out.
    assert len(shared) == len(recipes[0]) - 4
    assert {'noise = "symmetric(rate=0.4)"', 'data = "digits"', "seed = 0"} <= shared


def test_what_is_printed_is_what_the_runs_have(
    first: Done, lines: dict[str, list[dict[str, float]]], folder: Path
) -> None:
    for name, history in lines.items():
        row = next(line for line in first.output.splitlines() if line.strip().startswith(name + " "))
        assert row.strip().removeprefix(name).split() == expected(history)
    assert [line for line in first.errors.splitlines() if line in lines] == list(DEMO_METHODS.values())
    report = folder / "demo" / "report.html"
    assert first.output.splitlines()[-2:] == [f"Report: {report}", f"Open {report.as_uri()} in a browser."]


def test_the_audit_is_checked_against_the_truth(first: Done, folder: Path) -> None:
    """The counts are made from the files of the run and of the audit alone."""
    assert first.code == 0
    audit = pyrite.audit(folder / "demo" / "audit")
    with np.load(folder / "demo" / "audit" / "labels.npz") as held:
        given, true = held["given"], held["true"]
    wrong, frame = given != true, audit.to_frame().set_index("index").sort_index()
    suspect = frame["suspect"].to_numpy().astype(bool)
    hits = int((wrong & suspect).sum())
    page = " ".join((folder / "demo" / "report.html").read_text().split())
    sentences = (
        f"{suspect.sum()} labels are suspects, and {hits} of them ({100 * hits / suspect.sum():.1f} %) are wrong.",
        f"{hits} of the {wrong.sum()} wrong labels ({100 * hits / wrong.sum():.1f} %) are found.",
    )
    assert all(sentence in first.output and sentence in page for sentence in sentences)
    cards = re.findall(r"<s>(\d)</s> → (\d)</b>", page)
    assert len(cards) == 12
    assert all(old != new for old, new in cards)
    assert (folder / "demo" / "audit" / "report.html").exists()


def test_the_page_has_the_same_and_needs_nothing_else(lines: dict[str, list[dict[str, float]]], folder: Path) -> None:
    page = (folder / "demo" / "report.html").read_text()
    rows = re.findall(r'<th scope="row">(.*?)</th>\s*((?:<td.*?</td>\s*)+)', page, re.DOTALL)
    found = {html.unescape(name): re.findall(r">([\d.]+)</td>", cells) for name, cells in rows}
    assert found == {name: expected(history) for name, history in lines.items()}
    assert not re.findall(r"(?:https?:)?//[a-z]", re.sub(r"data:image/png;base64,[\w+/=]+", "", page))
    assert "<script" not in page
    pictures = re.findall(r'"data:image/png;base64,([\w+/=]{9000,})"', page)
    corners = []
    for picture in pictures:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
            corners.append(sum(image.convert("RGB").getpixel((0, 0))))
    assert len(corners) == 6  # two for light and dark pages, one of them for narrow pages too
    assert max(sorted(corners)[:3]) < 200
    assert sorted(corners)[3:] == [765] * 3


def test_again_reads_the_runs_and_writes_the_report_anew(
    first: Done, lines: dict[str, list[dict[str, float]]], folder: Path
) -> None:
    assert first.code == 0
    report, models = folder / "demo" / "report.html", sorted(folder.glob("demo/*/model.safetensors"))
    report.write_text("old")
    before = [model.stat().st_mtime_ns for model in models]
    done = CliRunner().invoke(app, ["demo", "--out", str(folder / "demo"), "--epochs", str(EPOCHS), "--json"])
    assert done.exit_code == 0, done.output
    assert [model.stat().st_mtime_ns for model in models] == before
    assert len(report.read_text()) > 10_000
    found = json.loads(done.stdout)
    assert found["report"] == str(report)
    assert found["check"]["suspects"] == found["audit"]["suspects"]
    assert [row["method"] for row in found["rows"]] == list(DEMO_METHODS.values())
    for row in found["rows"]:
        assert row["memorised"] == lines[row["method"]][-1]["memorised"]
    for name, width in zip(found["pictures"], (1200, 720), strict=True):
        with Image.open(name) as image:
            assert image.width == width


def test_other_settings_in_the_same_folder_are_refused(first: Done, folder: Path) -> None:
    assert first.code == 0
    with pytest.raises(ValueError, match="audit contains a run with other epochs"):
        pyrite.demo(folder / "demo", epochs=2)


@pytest.mark.slow
def test_wrong_labels_are_found_and_only_cross_entropy_memorises_them(tmp_path: Path) -> None:
    done = pyrite.demo(tmp_path)
    check = check_audit(done.audit)
    assert min(check.hits / check.wrong, check.hits / check.suspects, check.corrected / check.hits) > 0.9
    found = {row.name: row.runs[0].history[-1] for row in done.comparison.rows}
    assert found["cross entropy"]["memorised"] > 0.9
    assert found["cross entropy"]["test_accuracy"] < 0.8
    assert found["pyrite's default"]["test_accuracy"] > 0.97
    # Generalised cross entropy lies between cross entropy and absolute error, and memorises some.
    for name, most in (("MAE", 0.15), ("GCE", 0.25), ("scaled MAE", 0.15), ("pyrite's default", 0.15)):
        assert found[name]["memorised"] < most
        assert found[name]["test_accuracy"] > 0.93
