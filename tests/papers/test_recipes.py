"""The recipes of the papers: complete, consistent, and runnable at their own settings."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.data import DATASETS, Dataset
from pyrite.losses import loss
from pyrite.papers import CLAIMS, RECIPES, PaperRecipe
from pyrite.papers.cells import Cell
from pyrite.papers.claims import Results, evaluate
from pyrite.papers.exact import EXACT
from pyrite.training import resolve

TRAINED = [name for name in RECIPES if not PaperRecipe.load(name).is_exact]
CLASSES = {"cifar10": 10, "cifar100": 100, "cifar10n": 10, "cifar100n": 100, "clothing1m": 14, "mnist": 10, "mars": 9}


def test_every_table_and_figure_has_a_recipe() -> None:
    wanted = {f"imae_table{n}" for n in range(1, 10)} | {f"imae_figure{n}" for n in range(1, 11)}
    wanted |= {f"curriculum_table{n}" for n in (1, 2, 3, 4, 5, 7, 9, 10, 11)} | {"imae_rebuttal_tableA"}
    wanted |= {f"curriculum_figure{n}" for n in range(1, 11)} | {f"gold_table{n}" for n in (1, 2, 3)}
    assert wanted | {"gold_figure1", "gold_figure2"} <= set(RECIPES)


def test_every_claim_has_a_recipe() -> None:
    claimed = {claim.id for name in RECIPES for claim in PaperRecipe.load(name).claims}
    computed = {claim for name in RECIPES for claim in PaperRecipe.load(name).compute}
    assert claimed | computed == {*CLAIMS, "over-confidence", "guarantee", "contrast"}  # the last three are our own
    assert computed == set(EXACT)


@pytest.mark.parametrize("name", RECIPES)
def test_labels_and_claims_fit_the_axes(name: str) -> None:
    recipe = PaperRecipe.load(name)
    if recipe.is_exact:
        assert recipe.compute or recipe.figure
        for spec in recipe.figure.losses if recipe.figure and recipe.figure.kind in ("curves", "areas") else ():
            loss(spec)
        return
    assert {"paper"} <= set(recipe.scales())
    for scale in recipe.scales():
        axes = recipe.axis_labels(scale)
        labels = [label for values in axes.values() for label in values]
        assert len(labels) == len(set(labels)), "selectors need labels that are different on all axes"
        for claim in recipe.claims:
            evaluate(claim, Results(axes, {}, recipe.all_labels()), scale)  # a selector that fits nothing raises
        assert set(recipe.rows) | ({recipe.across} if recipe.across else set()) <= set(axes)
    for block in recipe.published:
        assert all(len(row) == len(block.across) for row in block.rows.values())
        assert set(block.rows) | set(filter(None, block.across)) <= recipe.all_labels()


def test_a_reduction_follows_from_the_settings() -> None:
    recipe = PaperRecipe.load("imae_table6")
    far = [one.words for one in recipe.differences("small") if one.is_far]
    assert far == [
        "images of 8 pixels in place of 32",
        "4,000 of 50,000 samples (8 %)",
        "960 of 100,000 steps (0.96 %)",
        "model resnet20(width=8) in place of resnet20, resnet56",
        "augment none in place of crop_flip(pad=4, flip='random')",
    ]
    assert "clip 1.0 in place of 0.0" in [one.words for one in recipe.differences("tiny") if not one.is_far]
    assert recipe.differences("paper") == []
    # A quarter of the length, a fifth of the images and half of their side are near enough to test a claim.
    near = RECIPE_16.format(epochs=64, samples=50000, size=16)
    for text, words in {
        near: [],
        near.replace("epochs = 64", "epochs = 63"): ["24,633 of 100,096 steps (25 %)"],
        near.replace("samples = 50000", "samples = 9900"): [
            "9,900 of 50,000 samples (20 %)",
            "4,992 of 100,096 steps (5 %)",
        ],
        near.replace("size=16", "size=15"): ["images of 15 pixels in place of 32"],
    }.items():
        assert [one.words for one in PaperRecipe.parse(text, "x").differences("small") if one.is_far] == words


RECIPE_16 = """
title = "a"
article = "IMAE"
shows = "b"
[settings]
data = "cifar10"
model = "resnet20"
batch_size = 128
epochs = 256
[axes.loss]
"x" = {{ method = "erm(ce)" }}
[paper]
[small]
settings = {{ data = "reduced(cifar10, size={size})", samples = {samples}, epochs = {epochs} }}
"""


@cache
def synthetic(spec: str) -> Dataset:
    """Small images in the format and with the classes of a data set, in place of the data set itself."""
    name, _, rest = spec.partition("(")
    if name in ("reduced", "digits", "blobs"):
        raise AssertionError(f"{spec} is not the paper's data")
    assert name in DATASETS
    classes = int(rest.split("classes=")[1].split(")")[0]) if name == "webvision" else CLASSES[name]
    channels, size = (1, 28) if name == "mnist" else (3, 32)
    draw = np.random.default_rng(0)

    def part(rows: int, test: Dataset | None = None) -> Dataset:
        labels = np.arange(rows) % classes
        images = draw.integers(0, 256, (rows, channels, size, size), np.uint8)
        true = (labels + 1) % classes if name.endswith("n") else None
        return Dataset(name, images, labels, tuple(map(str, range(classes))), test, true=true)

    return part(max(2 * classes, 1100), part(classes))  # a meta set of 1,000 has to fit


def paper_cells(names: Sequence[str] = TRAINED) -> Iterator[tuple[str, Cell]]:
    """Of every recipe, cells in which every label of every axis occurs, at the paper's scale."""
    for name in names:
        recipe = PaperRecipe.load(name)
        if recipe.cells:
            continue
        seen: set[str] = set()
        for (labels, seed), cell in recipe.grid("paper").items():
            if seed == 0 and not set(labels) <= seen:
                seen |= set(labels)
                yield f"{name}: {' '.join(labels)}", cell


def test_paper_settings_resolve() -> None:
    """Every spec is read, every net fits its images, every default is filled in."""
    cells = {
        tuple(map(cell.settings.get, ("data", "model", "augment"))): (words, cell) for words, cell in paper_cells()
    }
    assert len(cells) > 15
    for words, cell in cells.values():
        options = dict(cell.settings)
        data = str(options.pop("data"))
        if "crop=" in str(options.get("augment")):
            options["augment"] = "none"  # the synthetic images are smaller than the crop
        recipe = resolve(data, loaded=synthetic(data), **options).config
        assert recipe.clip == cell.settings["clip"], words
        assert "epochs" not in cell.settings or recipe.epochs == cell.settings["epochs"], words


def train_two_steps(cell: Cell, model: str, size: int, folder: Path) -> pyrite.Run:
    options = dict(cell.settings)
    data = synthetic(str(options.pop("data")))
    if "crop=" in str(options.get("augment")):
        options["augment"] = "none" if model.startswith("mlp") else "crop_flip(pad=0, crop=24)"
    steps = count(1)
    options |= {"model": model, "batch_size": size, "out": folder, "progress": False}
    return pyrite.train(data, stop=lambda: next(steps) >= 2, **options)


def test_paper_methods_make_steps(tmp_path: Path) -> None:
    """Two steps of every method under every kind of noise; heavy nets are replaced by a light one."""
    done: set[object] = set()
    for words, cell in paper_cells():
        settings = cell.settings
        numbers = re.compile(r"[\d.]+")
        kind = (
            numbers.sub("", str(settings["method"])),
            str(settings.get("optimiser")).partition("(")[0],
            # Labels that are wrong already take no other noise.
            settings.get("noise") if str(settings["data"]).partition("(")[0].endswith("n") else "any",
        )
        if kind not in done:
            done.add(kind)
            run = train_two_steps(cell, "mlp(hidden=[4])", 8, tmp_path / cell.key)
            assert (run.path / "state").exists(), words
    assert len(done) > 25


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_paper_nets_make_steps(name: str, tmp_path: Path) -> None:
    """Two steps of every label with the paper's own net, on images of 32 x 32 and batches of 8."""
    for words, cell in paper_cells([name]):
        run = train_two_steps(cell, str(cell.settings["model"]), 8, tmp_path / cell.key)
        assert (run.path / "state").exists(), words


def test_recipes_that_are_wrong() -> None:
    for text, message in {
        "title = 3": "recipe mine: title is 3",
        'title = "a"\narticle = "own"\nshows = "b"\nmore = 1': "more is 1",
        'title = "a': "recipe mine: ",
    }.items():
        with pytest.raises(ValueError, match=message):
            PaperRecipe.parse(text, "mine")
    with pytest.raises(ValueError, match="there is no recipe 'imae_tabel1': did you mean 'imae_table1'"):
        PaperRecipe.load("imae_tabel1")
    with pytest.raises(ValueError, match=r"there is no recipe 'xyz': see 'pyrite list recipes'$"):
        PaperRecipe.load("xyz")
    with pytest.raises(ValueError, match="cannot read nowhere"):
        PaperRecipe.load("nowhere.toml")
    with pytest.raises(ValueError, match="has no scale 'tiny': choose paper"):
        PaperRecipe.load("imae_table9").grid("tiny")


def test_variables_are_filled_in() -> None:
    grid = PaperRecipe.load("curriculum_table3").grid("paper")
    methods = {labels: str(cell.settings["method"]) for (labels, seed), cell in grid.items() if seed == 0}
    assert methods["MAE shift", "symmetric 0.4"] == "erm(unit(shift(mae, tau=3.0, classes=100)))"
    assert methods["MAE scale", "symmetric 0.8"] == "erm(unit(scale(mae, tau=4.0, classes=100)))"
    recipe = PaperRecipe.parse(PARSED.format(method="erm(scale(mae, tau=$tau, classes=10))"), "mine")
    with pytest.raises(ValueError, match=r"nothing sets \$tau"):
        recipe.grid("tiny")


PARSED = """
title = "a"
article = "own"
shows = "b"
[settings]
data = "digits"
[axes.loss]
"x" = {{ method = "{method}" }}
[tiny]
seeds = 1
"""


def test_tables_share_cells() -> None:
    first = {cell.key for cell in PaperRecipe.load("imae_table6").grid("small").values()}
    for name in ("imae_table1", "imae_figure4"):
        assert {cell.key for cell in PaperRecipe.load(name).grid("small").values()} < first
    by_rate = {cell.key for cell in PaperRecipe.load("imae_figure6").grid("small").values()}
    assert len(first & by_rate) == 6  # T = 8 with noise and 0.5 without, three seeds
