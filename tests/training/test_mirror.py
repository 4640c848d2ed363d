"""Mirrored prediction: against means of probabilities computed by hand, and in every place where a run predicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

import pyrite
from pyrite.data import Dataset
from pyrite.models import Mirrored, embed
from pyrite.training import resolve

OPTIONS: dict[str, Any] = {"model": "fast_cnn(widths=[4, 4, 4])", "epochs": 2, "batch_size": 20, "progress": False}


def images() -> Dataset:
    """Three classes whose colours are on the left or on the right, so that the mirror image is another image."""
    rows = np.random.default_rng(0)

    def part(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rows.integers(3, size=count)
        pixels = rows.integers(120, size=(count, 3, 16, 16), dtype=np.uint8)
        pixels[np.arange(count), labels, :, :8] += 80
        return pixels, labels

    names = ("red", "green", "blue")
    return Dataset("images", *part(80), names, test=Dataset("test", *part(60), names))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Run:
    """Two nets, of which each judges an image and its mirror image."""
    out = tmp_path_factory.mktemp("mirror") / "run"
    return pyrite.train(images(), method="cross_fit(erm(ce))", validation=0.25, out=out, **OPTIONS)


def by_hand(run: pyrite.Run, inputs: np.ndarray, mirror: bool = True) -> np.ndarray:
    """The mean probabilities over nets and views, from numpy."""
    mean, std = (np.array(run.facts[name]).reshape(3, 1, 1) for name in ("mean", "std"))
    views = [inputs, inputs[..., ::-1]] if mirror else [inputs]
    net = run.model.net if isinstance(run.model, Mirrored) else run.model
    with torch.inference_mode():
        each = [one(torch.from_numpy((v / 255 - mean) / std).float()).numpy() for one in net.nets for v in views]
    return np.mean([softmax(scores.astype(float), 1) for scores in each], 0)


def test_a_module_by_hand() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 5)).double()
    inputs = torch.randn(7, 3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    swapped = inputs[..., [1, 0]]
    expected = (net(inputs).softmax(1) + net(swapped).softmax(1)) / 2
    assert torch.allclose(Mirrored(net)(inputs).exp(), expected, rtol=1e-12)
    assert torch.equal(Mirrored(net)(inputs), Mirrored(net)(swapped))
    assert not torch.allclose(net(inputs), net(swapped))


def test_every_prediction_of_a_run_is_mirrored(run: pyrite.Run) -> None:
    data, line = images(), run.history[run.epoch - 1]
    assert data.test is not None
    assert run.config.mirror is True
    expected = by_hand(run, data.test.inputs)
    found = run.predict(data.test.inputs)
    assert np.allclose(found.probabilities, expected, atol=1e-6)
    assert not np.allclose(found.probabilities, by_hand(run, data.test.inputs, mirror=False), atol=1e-3)
    assert line["test_accuracy"] == np.mean(expected.argmax(1) == data.test.labels)
    held, trained = (np.flatnonzero(run.labels["part"] == part) for part in (1, 0))
    chances = by_hand(run, data.inputs[held])[np.arange(len(held)), data.labels[held]]
    assert line["validation_ce"] == pytest.approx(-np.log(chances).mean(), rel=1e-5)
    right = by_hand(run, data.inputs[trained]).argmax(1) == data.labels[trained]
    assert run.table["final_train_accuracy"] == right.mean()


def test_the_side_of_an_image_does_not_matter(run: pyrite.Run) -> None:
    inputs = images().inputs
    assert np.array_equal(run.scores(inputs), run.scores(np.ascontiguousarray(inputs[..., ::-1])))


def test_a_run_that_is_loaded_predicts_the_same_bytes(run: pyrite.Run) -> None:
    inputs = images().inputs
    again = pyrite.Run.load(run.path)
    assert again.scores(inputs).tobytes() == run.scores(inputs).tobytes()


def test_training_and_the_evidence_of_an_audit_are_not(run: pyrite.Run, tmp_path: Path) -> None:
    """The weights are the same, and so are the margins of samples by the net that was not trained on them."""
    options = OPTIONS | {"keep": "last", "method": "cross_fit(erm(ce))"}
    runs = [pyrite.train(images(), mirror=mirror, out=tmp_path / str(mirror), **options) for mirror in (False, True)]
    names = ["model.safetensors", "samples.npz"]
    assert all(runs[0].path.joinpath(name).read_bytes() == runs[1].path.joinpath(name).read_bytes() for name in names)
    plain = runs[0]
    assert not isinstance(plain.model, Mirrored)
    data = images().test
    assert data is not None
    assert np.allclose(softmax(plain.scores(data.inputs), 1), by_hand(plain, data.inputs, mirror=False), atol=1e-6)


def test_embeddings_are_those_of_the_net() -> None:
    net = pyrite.build_model("fast_cnn(widths=[4, 4, 4])", (3, 16, 16), classes=3, seed=0).eval()
    inputs = torch.zeros(2, 3, 16, 16)
    assert torch.equal(embed(Mirrored(net), inputs), embed(net, inputs))


@pytest.mark.parametrize(
    ("options", "mirror"),
    [
        ({}, True),
        ({"augment": "none"}, False),
        ({"augment": "crop_flip(pad=1, flip='none')"}, False),
        ({"augment": "crop_flip(pad=1, flip='random')"}, True),
        ({"augment": "none", "mirror": True}, True),
        ({"mirror": False}, False),
    ],
)
def test_the_default_is_that_of_training(options: dict[str, Any], mirror: bool) -> None:
    config = resolve(images(), **options).config
    assert config.mirror is mirror


def test_what_is_no_image_is_not_mirrored() -> None:
    assert resolve("digits").config.mirror is False  # they are grey
    assert resolve("blobs").config.mirror is False
    with pytest.raises(ValueError, match="mirror is True, but the inputs of the net are not images"):
        resolve("blobs", mirror=True)
