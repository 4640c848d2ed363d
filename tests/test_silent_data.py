"""Data that were once read wrong without a word: by position, by part, from a cache, or with another meaning."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import pyrite
from pyrite.auditing import numbered, open_shards
from pyrite.cli.app import main
from pyrite.data import describe, load, read_like
from pyrite.files import read_bytes, write, write_or_refuse
from pyrite.npz_files import read_npz

LARGE = 2**60


def test_options_of_images_in_parquet_are_not_ignored(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    columns = {"image": [Image.new("L", (4, 4), 9 * row) for row in range(8)], "label": [0, 1] * 4, "who": [0] * 8}
    data = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    data.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(pyrite.PyriteError, match="leave out group"):
        load(tmp_path / "a.parquet", group="who")


def test_parquet_of_the_same_time_is_read_again(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    for value in (10, 200):
        data = datasets.Dataset.from_dict({"image": [Image.new("L", (4, 4), value)] * 8, "label": [0, 1] * 4})
        data.cast_column("image", datasets.Image()).to_parquet(tmp_path / "a.parquet")
        os.utime(tmp_path / "a.parquet", (1e9, 1e9))
        assert load(tmp_path / "a.parquet").inputs.max() == value


def test_a_loader_of_the_user_reads_the_images(tmp_path: Path) -> None:
    class Folder:  # as torchvision's
        classes, class_to_idx, transform = ["a", "b"], {"a": 0, "b": 1}, None

        def __init__(self, loader: Any) -> None:
            self.samples, self.loader = [(str(tmp_path / f"{row}.png"), row % 2) for row in range(4)], loader

        def __len__(self) -> int:
            return 4

        def __getitem__(self, row: int) -> Any:
            return self.loader(self.samples[row][0]), self.samples[row][1]

    Folder.__module__ = "torchvision.datasets"
    for row in range(4):
        Image.new("L", (4, 4), 50).save(tmp_path / f"{row}.png")
    assert load(Folder(lambda path: Image.open(path).point(lambda pixel: 255 - pixel))).inputs.max() == 205


def test_row_numbers_of_pandas_are_no_feature(tmp_path: Path) -> None:
    """In a table sorted by class, those of a random part give the class away."""
    frame = pd.DataFrame({"x": np.arange(40) % 7 / 2, "y": np.arange(40) % 5 / 2, "label": np.repeat(["a", "b"], 20)})
    some = frame.sample(30, random_state=0)
    some.to_parquet(tmp_path / "a.parquet")
    some.to_csv(tmp_path / "a.csv")
    pd.read_csv(tmp_path / "a.csv").to_csv(tmp_path / "b.csv")
    for name in ("a.parquet", "a.csv", "b.csv"):
        data = load(tmp_path / name)
        assert data.columns == ("x", "y")
        assert any("numbers the rows" in note for note in data.notes)


def test_loaded_tables_keep_the_units_and_decimals_of_training(tmp_path: Path) -> None:
    def written(name: str, cells: list[str]) -> Path:
        (tmp_path / name).write_text(
            "w;label\n" + "".join(f"{cell};{'ab'[row % 2]}\n" for row, cell in enumerate(cells))
        )
        return tmp_path / name

    kilograms = describe(load(written("kg.csv", ["70 kg", "80 kg"])))
    with pytest.raises(pyrite.PyriteError, match="the unit is 'lb', but was 'kg'"):
        read_like(load(written("lb.csv", ["154 lb", "170 lb"])), kilograms)
    comma = describe(load(written("comma.csv", ["3.888,51", "1,5"])))
    unclear = written("unclear.csv", ["5.400", "7"])
    with pytest.raises(pyrite.PyriteError, match=r"numbers such as 5\.400 may have decimals or thousands"):
        read_like(load(unclear), comma)
    assert read_like(load(unclear, decimal=","), comma).inputs.tolist() == [[5400], [7]]
    for cells in (["5.4", "7.400"], ["5", "7"], ["5,4", "7.400"]):  # which leave no doubt
        path = written("clear.csv", cells)
        assert read_like(load(path), comma).inputs.tolist() == read_like(path, comma).inputs.tolist()


def test_class_numbers_in_features_are_matched_by_name() -> None:
    datasets = pytest.importorskip("datasets")

    def part(names: list[str]) -> Any:
        colours = datasets.Value("string"), datasets.ClassLabel(names=names)
        data = datasets.Dataset.from_dict(
            {"colour": ["red", "blue"] * 20, "x": np.arange(40) / 2, "label": ["a", "b"] * 20}
        )
        return data.cast(datasets.Features(data.features | {"colour": colours[1]}))

    data = load({"train": part(["red", "blue"]), "test": part(["blue", "red"])}, label="label")
    assert data.test is not None
    assert data.inputs.cells(0) == data.test.inputs.cells(0) == ("red", "0")


def test_gaps_that_training_did_not_have_are_reported() -> None:
    frame = pd.DataFrame({"city": ["NA", "Oslo"] * 20, "x": np.arange(40) / 2, "label": ["a", "b"] * 20})
    data = load(frame, label="label")
    features = pyrite.FEATURES["table"]().fit(data.inputs, np.arange(40))
    other = read_like(frame.assign(city=[None, "Oslo"] * 20, x=[np.nan, *frame.x[1:]]), describe(data)).inputs
    assert features.unfamiliar(data.inputs) == ()
    city, x = features.unfamiliar(other)
    assert "'city' is missing in 20 of 40 rows" in city
    assert "'x' is missing in 1 of 40 rows" in x


@pytest.mark.parametrize("rows", [list, lambda rows: [np.array(row) for row in rows]])
def test_large_integers_in_items_are_exact(rows: Any) -> None:
    values = [[LARGE + row, row % 3] for row in range(60)]
    labels = [row % 2 for row in range(60)]
    with pytest.raises(pyrite.PyriteError, match=f"from {LARGE} to {LARGE + 59}, differ by less"):
        load((rows(values), labels))
    wide = [[row * LARGE // 100, row] for row in range(60)]
    assert load((rows(wide), labels)).inputs[:, 0].tolist() == [float(row[0]) for row in wide]
    for X in (values, np.array(values, object)):  # noqa: N806
        with pytest.raises(pyrite.PyriteError, match="differ by less"):
            pyrite.RobustClassifier().fit(X, labels)


def test_columns_called_by_numbers_in_another_order() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)))  # noqa: N806
    classifier = pyrite.RobustClassifier(folds=0, members=1, epochs=1).fit(X, X[0] > 0)
    with pytest.raises(pyrite.PyriteError, match="columns in another order than in fit"):
        classifier.predict(X[[1, 0]])
    assert len(classifier.predict(X.to_numpy())) == len(classifier.predict(X)) == 60


def test_columns_that_are_no_annotators(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(40) / 2, "one": ["a", "b"] * 20, "two": ["a"] * 40, "who": ["me", "you"] * 20})
    assert load(frame, label="one,two").classes == ("a", "b")
    with pytest.raises(pyrite.PyriteError, match="no label in common with the others in 'who'"):
        load(frame, label="one,two,who")
    numbers = frame.assign(one=[0, 1] * 20, two=[0, -1, 1, 1] * 10)
    with pytest.raises(pyrite.PyriteError, match="-1 may be a class or a missing label"):
        load(numbers, label="one,two")


def test_class_names_that_end_like_a_number() -> None:
    assert numbered(np.array(["v1", "v1.0"], object), ["v1", "v1.0"]).tolist() == [0, 1]


def test_shards_that_were_written_again(tmp_path: Path) -> None:
    for value in (0.0, 1.0):
        pd.DataFrame({"a": [value], "b": [-value]}).to_parquet(tmp_path / "s-0.parquet", index=False)
        shards = open_shards(tmp_path / "s-*.parquet")
        assert shards is not None
        assert shards[:].tolist() == [[value, -value]]


def test_scores_that_were_overwritten(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels, scores = np.arange(90) % 3, random.normal(size=(90, 3))
    scores[np.arange(90), labels] += 2
    audit, same = (pyrite.audit(labels, scores=scores, kind="logits") for _ in range(2))
    assert same.posterior.shape == (90, 3)
    scores[:] = random.normal(size=(90, 3))  # as a buffer of the next model
    with pytest.raises(pyrite.PyriteError, match="the scores have changed since they were audited"):
        _ = audit.posterior


@pytest.mark.parametrize("shape", [(60, 3), (60, 1, 4, 4)])
def test_masked_values_are_no_values(shape: tuple[int, ...], tmp_path: Path) -> None:
    values, labels = np.random.default_rng(0).normal(size=shape), np.arange(60) % 2
    masked = np.ma.masked_greater(values, 1.5)
    assert masked.mask.any()
    run = pyrite.train((np.ma.array(values), labels), model="linear", epochs=1, out=tmp_path / "run", progress=False)
    for attempt in (lambda: load((masked, labels)), lambda: load((list(masked), labels)), lambda: run.predict(masked)):
        with pytest.raises(pyrite.PyriteError, match="masked array with masked values"):
            attempt()


def test_dask_hides_no_masks_and_is_no_frame() -> None:
    array, frames = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    labels, scores = np.arange(90) % 3, np.random.default_rng(0).normal(size=(90, 3))
    scores[70, 1] = 9.0
    masked = array.ma.masked_greater(array.from_array(scores, chunks=(40, 3)), 8.0)
    with pytest.raises(pyrite.PyriteError, match="scores are masked in row 70"):
        pyrite.audit(labels, scores=masked, kind="logits")
    with pytest.raises(pyrite.PyriteError, match=r"pass frame\.compute\(\)"):
        pyrite.audit(labels, scores=frames.from_pandas(pd.DataFrame(scores), npartitions=2), kind="logits")


def test_stretched_images_are_stretched_in_prediction(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 16, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "0.png")
    images = pyrite.data.LazyImages(tmp_path, ["0.png"] * 4, 8, warp=True)
    described = describe(pyrite.Dataset("stretched", images, np.arange(4) % 2, ("a", "b")))
    with Image.open(tmp_path / "0.png") as image:
        for new in (tmp_path, [image]):
            np.testing.assert_array_equal(read_like(new, described).inputs[[0]], images[[0]])


@pytest.fixture
def owned() -> Iterator[Path]:
    """A folder of a user whom permission bits concern."""
    folder, user = Path(tempfile.mkdtemp()), os.geteuid()
    if user == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_permission_bits(owned: Path) -> None:
    path = owned / "a.csv"
    write(path, b"old").chmod(0o400)
    with pytest.raises(pyrite.PyriteError, match=r"cannot write .*a\.csv: Permission denied"):
        write_or_refuse(path, b"new")
    assert path.read_bytes() == b"old"
    path.chmod(0)
    for read in (read_bytes, read_npz):
        with pytest.raises(pyrite.PyriteError, match=r"a\.csv: .*Permission denied"):
            read(path)
    owned.chmod(0o600)
    for read in (read_bytes, read_npz, load):
        with pytest.raises(pyrite.PyriteError, match=r"a\.csv: cannot be read \(Permission denied\)"):
            read(path)
    assert os.listdir(owned) == ["a.csv"]


def test_a_folder_that_cannot_be_entered_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def refuse() -> None:
        raise PermissionError(13, "Permission denied", "run/recipe.toml")

    monkeypatch.setattr("pyrite.cli.app.app", refuse)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == "pyrite: run/recipe.toml: Permission denied\n"


def test_links_and_devices_are_not_replaced(tmp_path: Path) -> None:
    link, own = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("file")
    assert write(link, b"text") == link
    assert (link.is_symlink(), (tmp_path / "file").read_bytes()) == (True, b"text")
    os.mkfifo(own)
    reader = os.open(own, os.O_RDONLY | os.O_NONBLOCK)
    write(own, b"text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    assert own.is_fifo()
