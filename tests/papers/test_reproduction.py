"""``reproduce``: from a recipe to tables, verdicts, a figure and a page; and the results that are committed."""

import json
import lzma
import re
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.container import BarContainer
from typer.testing import CliRunner

from benchmarks.claims import BEGIN, END, front_page
from pyrite import comparing
from pyrite.cli.app import app
from pyrite.data import load
from pyrite.papers import CLAIMS, RECIPES, PaperRecipe, read_reproduction, reproduce
from pyrite.papers.cells import CellFolder
from pyrite.papers.page import reproduction_figure, write_reproduction
from tests.children import FORKS

RESULTS = Path(__file__).parents[2] / "docs/results"
RECIPE = """
title = "Two losses"
article = "own"
shows = "Labels are followed."
rows = ["loss"]
across = "noise"
columns = ["final_test_accuracy", "diff"]
[settings]
data = "digits"
samples = 150
epochs = 2
model = "mlp(hidden=[8])"
[axes.loss]
"CE" = { method = "erm(ce)" }
"MAE" = { method = "erm(unit(mae))" }
[axes.noise]
"none" = { noise = "clean" }
"40 %" = { noise = "symmetric(0.4)" }
[tiny]
seeds = 2
[[published]]
across = ["none", "40 %"]
[published.rows]
"CE" = [91.5, "-"]
[[claims]]
id = "mine"
checks = [{ more = "CE", than = -1.0 }]
[figure]
kind = "history"
columns = ["test_accuracy", "memorised"]
panels = "noise"
"""


def test_the_papers_numbers_are_on_the_page_where_the_data_are_others(tmp_path: Path) -> None:
    found = read_reproduction("gold_table1", "tiny", RESULTS / "cells")
    paper = found.published()
    assert paper is not None
    assert paper.headings[:3] == ("data", "method", "uniform 0 %")
    assert paper.rows[0][:3] == ("CIFAR-10", "MW-Net*", "95.15")
    assert {row[1] for row in paper.rows} == {row[0] for row in found.table().rows}
    write_reproduction(found, tmp_path)
    page = (tmp_path / "gold_table1-tiny.html").read_text()
    assert page.index(">In the paper<") < page.index("95.15") < page.index(">Conditions<")
    assert "in brackets" not in page


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduced")
    (folder / "mine.toml").write_text(RECIPE)
    return folder


def test_it_trains_compares_and_draws(path: Path) -> None:
    told: list[tuple[int, int, float]] = []
    left: list[float] = []
    found = reproduce(
        str(path / "mine.toml"),
        out=path,
        estimate=lambda *numbers: told.append(numbers),
        finished=lambda words, seconds, rest: left.append(rest),
    )
    assert told[0][:2] == (8, 8)
    assert told[0][2] > 0  # although nothing is finished
    assert len(left) == 8
    assert left[-1] == 0
    assert found.finished
    table = found.table()
    assert table.headings == ("loss", "none final", "none diff", "40 % final", "40 % diff")
    values = found.results.values({"loss": "CE", "noise": "none"}, "final_test_accuracy") if found.results else []
    mean = 100 * sum(values) / 2
    assert table.rows[0][1].startswith(f"{mean:.1f} ± ")
    assert table.rows[0][1].endswith(" (91.5)")
    assert "(" not in table.rows[1][1]
    assert [(verdict.claim, verdict.status) for verdict in found.verdicts()] == [("mine", "holds")]
    names = sorted(file.name for file in write_reproduction(found, path))
    assert names == ["mine-tiny.html", "mine-tiny.png", "mine-tiny.svg"]
    page = (path / "mine-tiny.html").read_text()
    order = ["<figure", ">Measured<", "in brackets", "(91.5)", ">Conditions<", f"<code>{found.command}</code>"]
    assert [page.index(part) for part in order] == sorted(page.index(part) for part in order)
    assert found.published() is None
    assert json.loads((path / "mine-tiny.json").read_text())["claims"][0]["status"] == "holds"
    assert not list((path / "runs").iterdir())


def test_finished_cells_are_not_trained_again(path: Path) -> None:
    before = {file.name: file.stat().st_mtime_ns for file in (path / "cells").iterdir()}
    done = CliRunner().invoke(app, ["reproduce", str(path / "mine.toml"), "--out", str(path), "--seeds", "2"])
    assert done.exit_code == 0, done.output
    assert {file.name: file.stat().st_mtime_ns for file in (path / "cells").iterdir()} == before
    assert "mine holds: Labels are followed." in done.output
    # A cell that is missing is trained again, alone; how long it takes is known from the others.
    kept = path / "cells" / "mine.jsonl.xz"
    lines = lzma.decompress(kept.read_bytes()).splitlines(keepends=True)
    kept.write_bytes(lzma.compress(b"".join(lines[1:])))
    seconds = [result.facts["seconds"] for result in CellFolder(path / "cells").results().values()]
    told: list[tuple[int, int, float]] = []
    reproduce(str(path / "mine.toml"), out=path, estimate=lambda *numbers: told.append(numbers))
    assert told == [(1, 8, pytest.approx(sum(seconds) / 7))]
    again = lzma.decompress(kept.read_bytes()).splitlines(keepends=True)
    assert again[1:] == lines[1:]
    assert json.loads(again[0])["final"] == json.loads(lines[0])["final"]


def test_the_time_is_estimated_from_first_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock on which every step takes a second; steps of several workers have one thread each."""
    ticks, threads, before = count(), list[int](), torch.get_num_threads()

    def clock() -> float:
        threads.append(torch.get_num_threads())
        return float(next(ticks))

    monkeypatch.setattr("pyrite.training.pace.perf_counter", clock)
    more = '"L2RW" = { method = "l2rw(size=20)" }\n[axes.noise]'
    (tmp_path / "mine.toml").write_text(RECIPE.replace("[axes.noise]", more).replace("samples = 150", "samples = 300"))
    told: list[tuple[int, int, float]] = []

    def tell(missing: int, expected: int, seconds: float) -> None:
        told.append((missing, expected, seconds))
        raise InterruptedError

    try:
        torch.set_num_threads(2)
        for workers in (1, 2):
            with pytest.raises(InterruptedError):
                reproduce(str(tmp_path / "mine.toml"), out=tmp_path, seeds=1, workers=workers, estimate=tell)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [2] * 12 + [1] * 12
    # Three batches per epoch, of 300 samples and of 280 without the meta set; all predictions in batches of 128.
    tested = 2 * len(test) if (test := load("digits").test) else 0
    one, other = (2 * 3 + (tested + trained) / 128 / 3 for trained in (300, 280))
    assert told == [(6, 6, pytest.approx(4 * one + 2 * other)), (6, 6, pytest.approx(2 * one + other))]
    assert next(ticks) == 2 * 2 * 6, "the beginning and five steps of each kind of method, whatever its loss and noise"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.toml"]


@pytest.mark.parametrize("context", [FORKS, pytest.param(get_context("spawn"), marks=pytest.mark.slow)])
def test_several_processes_train_the_same(
    context: Any, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quicker where they are forked from one that has imported torch."""
    reproduce(str(path / "mine.toml"), out=path, seeds=1)  # nothing is trained if another test has done so
    monkeypatch.setattr(comparing.multiprocessing, "get_context", lambda method: context)
    found = reproduce(str(path / "mine.toml"), out=tmp_path, workers=2, seeds=1)
    assert found.results is not None
    assert len(found.results.cells) == 4
    alone = CellFolder(path / "cells").results()
    for cell in found.results.cells.values():
        assert cell.facts["final"] == alone[cell.cell.key].facts["final"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["imae_tabel1"], "there is no recipe 'imae_tabel1': did you mean 'imae_table1'?"),
        (["imae_table1", "--scale", "huge"], "scale is 'huge'"),
        (["imae_table9"], "has no scale 'tiny': choose paper"),
        (["imae_table1", "--seeds", "0"], "seeds is 0"),
        (["imae_table7", "--workers", "0"], "workers is 0"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(words: list[str], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", *words, "--out", str(tmp_path)])
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)


def test_data_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRITE_DATA", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="clothing1m"):
        reproduce("imae_table5", "paper", out=tmp_path)


def test_what_is_computed_needs_no_cells(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", "imae_table7", "--out", str(tmp_path), "--json"])
    found = json.loads(done.output)
    assert [(claim["id"], claim["status"]) for claim in found["claims"]] == [("I9", "holds")]
    assert "354.1" in (tmp_path / "imae_table7-exact.md").read_text()


def test_a_claim_far_from_its_paper_is_not_decided(tmp_path: Path) -> None:
    words = ["reproduce", "gold_decay", "--cells", str(RESULTS / "cells"), "--out", str(tmp_path)]
    text = CliRunner().invoke(app, words).output
    assert "R12 not tested in the paper's conditions; 2 of 3 statements hold here: CE as meta loss" in text
    assert "over-confidence holds: " in text  # our own claim, about digits
    assert text.count("differs from the paper: data digits in place of cifar10; 1,437 of 50,000 samples") == 1
    page = (tmp_path / "gold_decay-tiny.html").read_text()
    assert "R12: not tested in the paper&#39;s conditions; 2 of 3 statements hold here" in page


def test_list_names_every_recipe() -> None:
    rows = json.loads(CliRunner().invoke(app, ["list", "recipes", "--json"]).output)
    assert [row["name"] for row in rows] == list(RECIPES)
    assert "I1" in next(row["claims"] for row in rows if row["name"] == "imae_table1")


def test_committed_cells_are_those_of_recipes() -> None:
    """Every cell is in the file of a recipe whose grid has it, once."""
    found = 0
    for file in sorted((RESULTS / "cells").iterdir()):
        name = file.name.removesuffix(".jsonl.xz")
        recipe = PaperRecipe.load(name)
        known = {cell.key for scale in recipe.scales() for cell in recipe.grid(scale).values()}
        assert set(CellFolder(RESULTS / "cells").results_of(name)) <= known
        found += len(CellFolder(RESULTS / "cells").results_of(name))
    assert found == len(CellFolder(RESULTS / "cells").results()) > 900


def test_committed_claims_follow_from_committed_cells() -> None:
    entries = json.loads((RESULTS / "claims.json").read_text())
    assert {entry["id"] for entry in entries} <= {*CLAIMS, "over-confidence", "guarantee", "contrast"}
    trained = [entry for entry in entries if entry["scale"] != "exact"]
    assert len(trained) > 25
    for entry in trained:
        found = read_reproduction(entry["recipe"], entry["scale"], RESULTS / "cells")
        (verdict,) = [one for one in found.verdicts() if one.claim == entry["id"]]
        assert (verdict.status, verdict.outcome) == (entry["status"], entry["outcome"])
        assert [f.to_dict() for f in verdict.findings] == entry["findings"]


def test_front_page_follows_from_committed_claims() -> None:
    entries = json.loads((RESULTS / "claims.json").read_text())
    page = (RESULTS / "claims.md").read_text()
    assert front_page(entries).strip() == page.partition(BEGIN)[2].partition(END)[0].strip()
    rows = {line.split(" | ")[0][2:]: line for line in page.splitlines() if re.match(r"\| [ICR]\d+ \|", line)}
    assert set(rows) == set(CLAIMS)
    missing = {words for entry in entries for words in entry["missing"]}
    assert not any(words in line for words in missing for line in page.splitlines())  # said once, with its setting
    for entry in entries:
        if entry["id"] in CLAIMS:
            held = sum(finding["status"] == "holds" for finding in entry["findings"])
            assert f"[{held} of {len(entry['findings'])}](papers.md#{entry['recipe']})" in rows[entry["id"]]


@pytest.mark.parametrize("name", ["curriculum_figure3", "gold_figure2", "curriculum_figure1", "gold_figure1"])
def test_figures_are_drawn_from_committed_cells(name: str) -> None:
    figure = reproduction_figure(read_reproduction(name, "tiny", RESULTS / "cells"))
    assert figure is not None
    assert all(axes.has_data() for axes in figure.axes)


def test_bars_have_one_colour_per_name_and_none_for_cells_without_the_number() -> None:
    figure = reproduction_figure(read_reproduction("gold_decay", "tiny", RESULTS / "cells"))
    assert figure is not None
    handles, names = figure.axes[0].get_legend_handles_labels()
    colours = [handle.patches[0].get_facecolor() for handle in handles if isinstance(handle, BarContainer)]
    # Plain cross entropy learns no weights.
    nets = ("MW-Net*", "MNW-Net", "RMNW-Net")
    assert names == [f"{noise} 40 % {net}" for noise in ("uniform", "flip2") for net in nets]
    assert len(set(colours)) == 6
    assert len(figure.axes[0].patches) == 18
