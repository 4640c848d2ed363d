"""The demo as a newcomer runs it, but shorter."""

import base64
import io
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from pyrite.comparing.comparison import DEMO_LOSSES, DEMO_SETTINGS
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
    """The histories as they are on the disk, by the loss that each recipe names."""
    assert first.code == 0, first.errors
    found = {}
    for recipe in folder.glob("demo/*/recipe.toml"):
        method = re.search(r'^method = "erm\((.*)\)"$', recipe.read_text(), re.MULTILINE)
        assert method
        history = recipe.with_name("history.jsonl").read_text().splitlines()
        found[method[1]] = [json.loads(line) for line in history]
    return found


def expected(lines: list[dict[str, float]]) -> list[str]:
    """The numbers of a row, made from the history and nothing else."""
    last = lines[-1]
    numbers = [last["test_accuracy"], max(line["test_accuracy"] for line in lines)]
    numbers += [last[name] for name in ("clean_accuracy", "memorised", "recovered")]
    return [f"{100 * number:.2f}" for number in numbers]


def test_every_loss_ran_with_the_same_settings(lines: dict[str, list[dict[str, float]]], folder: Path) -> None:
    assert set(lines) == {str(pyrite.loss(name)) for name in DEMO_LOSSES}
    assert {len(history) for history in lines.values()} == {EPOCHS}
    recipes = [path.read_text().splitlines() for path in folder.glob("demo/*/recipe.toml")]
    shared = set(recipes[0]).intersection(*recipes)
    assert len(shared) == len(recipes[0]) - 3  # all but the method, and the learning rate and clipping of imae
    assert {'noise = "symmetric(rate=0.4)"', 'data = "digits"', "seed = 0"} <= shared


def test_the_table_says_what_the_runs_say(first: Done, lines: dict[str, list[dict[str, float]]], folder: Path) -> None:
    for name in DEMO_LOSSES:
        row = next(line for line in first.output.splitlines() if line.strip().startswith(name + " "))
        assert row.strip().removeprefix(name).split() == expected(lines[str(pyrite.loss(name))])
    assert [line for line in first.errors.splitlines() if line in DEMO_LOSSES] == list(DEMO_LOSSES)
    report = folder / "demo" / "report.html"
    assert first.output.splitlines()[-2:] == [f"wrote {report}", f"Open {report.as_uri()} in a browser."]


def test_the_page_says_the_same_and_needs_nothing_else(lines: dict[str, list[dict[str, float]]], folder: Path) -> None:
    page = (folder / "demo" / "report.html").read_text()
    rows = re.findall(r'<th scope="row"><code>(.*?)</code></th>\s*((?:<td.*?</td>\s*)+)', page, re.DOTALL)
    found = {name: re.findall(r">([\d.]+)</td>", cells) for name, cells in rows}
    assert found == {name: expected(lines[str(pyrite.loss(name))]) for name in DEMO_LOSSES}
    assert not re.findall(r"(?:https?:)?//[a-z]", re.sub(r"data:image/png;base64,[\w+/=]+", "", page))
    assert "<script" not in page
    pictures = re.findall(r'"data:image/png;base64,([\w+/=]+)"', page)
    assert len(pictures) == 4  # two, for light and for dark pages
    corners = []
    for picture in pictures:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
            corners.append(image.convert("RGB").getpixel((0, 0)))
    assert sorted(map(sum, corners))[:2] < [200, 200]
    assert sorted(map(sum, corners))[2:] == [765, 765]


def test_the_page_counts_the_wrong_labels(first: Done, folder: Path) -> None:
    assert first.code == 0
    import numpy as np

    with np.load(folder / "demo" / "ce-0" / "labels.npz") as held:
        wrong = int((held["given"] != held["true"]).sum())
    page = (folder / "demo" / "report.html").read_text()
    assert re.search(rf"{wrong} of 1,437 training labels\s+\({100 * wrong / 1437:.1f} %\)", page)


def test_again_reads_the_runs_and_writes_the_report_anew(
    first: Done, lines: dict[str, list[dict[str, float]]], folder: Path
) -> None:
    assert first.code == 0
    report, model = folder / "demo" / "report.html", folder / "demo" / "ce-0" / "model.safetensors"
    report.write_text("old")
    before = model.stat().st_mtime_ns
    done = CliRunner().invoke(app, ["demo", "--out", str(folder / "demo"), "--epochs", str(EPOCHS), "--json"])
    assert done.exit_code == 0, done.output
    assert model.stat().st_mtime_ns == before
    assert len(report.read_text()) > 10_000
    found = json.loads(done.stdout)
    assert found["report"] == str(report)
    assert [row["method"] for row in found["rows"]] == list(DEMO_LOSSES)
    for row in found["rows"]:
        last = lines[str(pyrite.loss(row["method"]))][-1]
        assert (row["final_test_accuracy"], row["memorised"]) == (last["test_accuracy"], last["memorised"])
    for name in found["pictures"]:
        with Image.open(name) as image:
            assert image.width == 720


def test_other_settings_in_the_same_folder_are_refused(first: Done, folder: Path) -> None:
    assert first.code == 0
    with pytest.raises(ValueError, match="ce-0 holds a run with other epochs"):
        pyrite.demo(folder / "demo", epochs=2)


def test_what_is_promised() -> None:
    """40 % symmetric noise, and the five losses."""
    assert DEMO_SETTINGS["noise"] == "symmetric(0.4)"
    kinds = [name.split("(")[0] for name in DEMO_LOSSES]
    assert kinds == ["ce", "mae", "gce", "imae", "unit"]


@pytest.mark.slow
def test_cross_entropy_memorises_and_the_robust_losses_do_not(tmp_path: Path) -> None:
    found = {row.name: row.runs[0].history[-1] for row in pyrite.demo(tmp_path).rows}
    assert found["ce"]["memorised"] > 0.9
    assert found["ce"]["test_accuracy"] < 0.8
    # Generalised cross entropy lies between cross entropy and absolute error, and memorises some.
    for name, most in (("mae", 0.15), ("gce(q=0.7)", 0.25), (DEMO_LOSSES[-1], 0.15)):
        assert found[name]["memorised"] < most
        assert found[name]["test_accuracy"] > 0.93
