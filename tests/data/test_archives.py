"""Images in the shards of WebDataset, and in Parquet files as Hugging Face writes them."""

import io
import tarfile
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pytest
import webdataset
from PIL import Image
from webdataset.tariterators import group_by_keys, tar_file_expander

import pyrite
from pyrite.data import LazyImages, load

COUNT = 40
PIXELS = np.random.default_rng(0).integers(256, size=(COUNT, 9, 8, 3), dtype=np.uint8)
FIRST = PIXELS.transpose(0, 3, 1, 2)
NAMES = ["cat", "dog", "emu"]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """By the package itself: photos-000.tar to photos-002.tar."""
    with webdataset.ShardWriter(str(tmp_path / "photos-%03d.tar"), maxcount=15, verbose=0) as writer:
        for row, image in enumerate(PIXELS):
            label = {"cls": row % 3, "json": {"name": NAMES[row % 3]}}
            writer.write({"__key__": f"sample{row:03d}", "png": image, **label})
    return tmp_path


def by_webdataset(path: Path) -> list[dict[str, bytes]]:
    with path.open("rb") as file:
        return list(group_by_keys(tar_file_expander([{"url": str(path), "stream": file}])))


@pytest.mark.parametrize("pattern", ["photos-{000..002}.tar", "photos-*.tar"])
def test_shards_are_those_of_webdataset(pattern: str, shards: Path) -> None:
    data = load(str(shards / pattern))
    samples = [sample for path in sorted(shards.glob("*.tar")) for sample in by_webdataset(path)]
    images = [np.asarray(Image.open(io.BytesIO(sample["png"]))) for sample in samples]
    np.testing.assert_array_equal(data.inputs, np.stack(images).transpose(0, 3, 1, 2))
    assert [data.classes[label].encode() for label in data.labels] == [sample["cls"] for sample in samples]
    assert data.paths[15] == "photos-001.tar/sample015.png"
    named = load(str(shards / pattern), label="name", lazy=True)
    assert (named.classes, named.labels.tolist()) == (tuple(NAMES), data.labels.tolist())
    assert isinstance(named.inputs, LazyImages)
    np.testing.assert_array_equal(named.inputs[:], data.inputs)


def test_training_resumes_from_another_folder(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shards)
    monkeypatch.setattr("pyrite.data.folders.IN_MEMORY", 0)
    half = pyrite.train(
        "photos-{000..001}.tar", model="mlp(hidden=[4])", epochs=2, out="run", progress=False, stop=lambda: True
    )  # fmt: skip
    assert len(half.history) == 0
    monkeypatch.chdir("/")
    run = pyrite.train(resume=shards / "run", progress=False)
    assert len(run.history) == 2
    found = run.predict(str(shards / "photos-002.tar"))
    assert len(found) == COUNT - 30
    assert found.names[0] == "photos-002.tar/sample030.png"


def test_shards_that_cannot_be_read(shards: Path, tmp_path: Path) -> None:
    def refused(path: Path, **options: str) -> str:
        with pytest.raises(pyrite.PyriteError) as error:
            load(str(path), **options)
        return str(error.value).replace(str(tmp_path), "")

    assert refused(shards / "photos-{000..003}.tar") == "/photos-003.tar is missing"
    assert "no image has a label" in refused(shards / "photos-000.tar", label="class")
    (shards / "photos-001.tar").rename(shards / "photos-003.tar")
    assert refused(shards / "photos-*.tar") == "/photos-001.tar is missing, but /photos-002.tar exists"
    whole = (shards / "photos-000.tar").read_bytes()
    (shards / "cut.tar").write_bytes(whole[:3000])
    assert refused(shards / "cut.tar").startswith("/cut.tar: not a complete tar archive")
    with tarfile.open(shards / "empty.tar", "w"):
        pass
    assert refused(shards / "empty.tar") == "/empty.tar: there is no image in the archive"


def test_parquet_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    columns = {"image": [Image.fromarray(each) for each in PIXELS], "label": [row % 3 for row in range(COUNT)]}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    written = datasets.Dataset.from_dict(columns, features=features)
    written.select(range(25)).to_parquet(str(tmp_path / "train-00000-of-00002.parquet"))
    written.select(range(25, COUNT)).to_parquet(str(tmp_path / "train-00001-of-00002.parquet"))
    data = load(str(tmp_path / "train-*.parquet"))
    np.testing.assert_array_equal(data.inputs, FIRST)
    assert (data.classes, data.labels.tolist()) == (tuple(NAMES), columns["label"])
    plain = {
        "image": [{"bytes": png(each), "path": None} for each in PIXELS],
        "kind": [NAMES[row % 3] for row in range(COUNT)],
    }
    pd.DataFrame(plain).to_parquet(tmp_path / "plain.parquet")
    other = load(str(tmp_path / "plain.parquet"), label="kind")
    np.testing.assert_array_equal(other.inputs, FIRST)
    assert (other.classes, other.labels.tolist()) == (data.classes, data.labels.tolist())


def png(pixels: np.ndarray) -> bytes:
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    return written.getvalue()
