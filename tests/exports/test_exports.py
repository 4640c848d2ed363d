"""Exported models against the runs they are of, in onnxruntime and in torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
import torch
from torch import nn

import pyrite
from pyrite.exports import export, model_card, whole

SMALL: dict[str, Any] = {"model": "mlp(hidden=[16])", "epochs": 2, "samples": 200}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Run:
    """Two nets, and of each the mean over an image and its mirror image."""
    out = tmp_path_factory.mktemp("digits") / "run"
    return pyrite.train("digits", noise="symmetric(0.4)", method="co_teaching", mirror=True, out=out, **SMALL)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Run:
    """Columns in units that float32 does not resolve."""
    data = pyrite.data.load("blobs")
    far = np.asarray(data.inputs, np.float64) * 40 + 1.7e9
    other = pyrite.Dataset("times", far, data.labels, ("early", "late, or never", "noon"))
    return pyrite.train(other, out=tmp_path_factory.mktemp("times") / "run", **SMALL | {"precision": "float64"})


def inputs_of(run: pyrite.Run, count: int) -> npt.NDArray[Any]:
    if run.facts["inputs"]["kind"] == "images":
        return np.asarray(pyrite.data.load("digits").inputs[:count])
    return np.random.default_rng(0).normal(1.7e9, 300, (count, *run.facts["inputs"]["shape"]))


@pytest.mark.parametrize("name", ["digits", "table"])
def test_onnxruntime_gives_the_scores_of_the_run(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run: pyrite.Run = request.getfixturevalue(name)
    written = export(run, tmp_path / "model.onnx")
    assert not written.left_out
    session = onnxruntime.InferenceSession(written.path)
    for count in (1, 7):  # any number of samples
        samples = inputs_of(run, count)
        (scores,) = session.run(["scores"], {"inputs": samples})
        assert np.allclose(scores, run.scores(samples), atol=1e-5)
    if name == "digits":
        (mirrored,) = session.run(["scores"], {"inputs": np.ascontiguousarray(samples[..., ::-1])})
        assert np.allclose(scores, mirrored, atol=1e-5)
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list(run.classes)
    assert facts["inputs"] == written.inputs


def test_torch_gives_the_scores_of_the_run(digits: pyrite.Run, tmp_path: Path) -> None:
    written = export(digits.path, tmp_path / "model.pt2")
    extra = {"classes.json": ""}
    program = torch.export.load(str(written.path), extra_files=extra)
    samples = inputs_of(digits, 5)
    scores = program.module()(torch.from_numpy(samples)).numpy(force=True)
    assert np.allclose(scores, digits.scores(samples), atol=1e-5)
    assert json.loads(extra["classes.json"]) == list(digits.classes)


@pytest.mark.parametrize(
    "options",
    [
        {"features": "efficientnet_lite0(size=32)"},
        {"model": "efficientnet_lite0(size=32, pretrained=True)", "batch_size": 50, "samples": 50, "epochs": 1},
        {"model": "fast_cnn(widths=[8])"},
    ],
)
def test_what_comes_before_the_model_is_inside(options: dict[str, Any], tmp_path: Path) -> None:
    run = pyrite.train("digits", out=tmp_path / "run", **SMALL | options)
    samples = inputs_of(run, 5)
    model = whole(run)
    assert model.example.shape == (2, 1, 8, 8)
    with torch.inference_mode():
        scores = model.module.eval()(torch.from_numpy(samples)).numpy()
    assert np.allclose(scores, run.scores(samples), atol=1e-4)


@pytest.mark.slow
def test_embeddings_in_onnxruntime(tmp_path: Path) -> None:
    run = pyrite.train("digits", out=tmp_path / "run", **SMALL | {"features": "efficientnet_lite0(size=64)"})
    samples = inputs_of(run, 5)
    session = onnxruntime.InferenceSession(export(run, tmp_path / "model.onnx").path)
    (scores,) = session.run(["scores"], {"inputs": samples})
    assert np.allclose(scores, run.scores(samples), atol=1e-4)


def test_features_that_are_left_out_are_named(tmp_path: Path) -> None:
    run = pyrite.train("digits", out=tmp_path / "run", **SMALL | {"features": nn.Flatten()})
    model = whole(run)
    assert model.left_out == "Flatten"
    assert model.example.shape == (2, 64)
    pixels = inputs_of(run, 3)
    rows = torch.from_numpy(pixels.reshape(3, 64) / 255)
    with torch.inference_mode():
        assert model.module(rows).shape == (3, 10)


def test_a_model_card_says_what_the_run_knows(digits: pyrite.Run, tmp_path: Path) -> None:
    card = export(digits, tmp_path / "card.md").path.read_text()
    assert card == model_card(digits)
    used = digits.labels["part"] != 2
    wrong = np.mean(digits.labels["given"][used] != digits.labels["true"][used])
    for said in (
        "| samples | 200 trained on, 0 held out |",
        "| classes | 10: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 |",
        f"| labels known to be wrong | {100 * wrong:.1f} % |",
        f"| test accuracy of the saved model | {100 * digits.table['final_test_accuracy']:.2f} % |",
        "The labels were not audited",
        'noise = "symmetric(rate=0.4)"',
    ):
        assert said in card


@pytest.mark.parametrize(
    ("validation", "said"), [(0.2, "measured on held-out given labels"), (0.0, "is not known: none were kept aside")]
)
def test_a_model_card_names_what_the_accuracy_is_of(validation: float, said: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    data = pyrite.Dataset("points", random.normal(size=(60, 2)), np.arange(60) % 2, ("a", "b"))
    run = pyrite.train(data, loss="ce", epochs=1, validation=validation, model="linear", out=tmp_path, progress=False)
    assert said in model_card(run)


def test_a_model_card_of_an_audit(tmp_path: Path) -> None:
    audit = pyrite.audit("digits", noise="symmetric(0.4)", model="mlp", epochs=3, samples=600, out=tmp_path / "run")
    assert audit.run is not None
    audit.to_json(tmp_path / "run" / "audit.json")
    card = model_card(audit.run)
    assert f"| audit of the labels | {audit.sentence} |" in card
    assert "of 600 labels look wrong" in card
    assert "were not audited" not in card


def test_what_is_refused(digits: pyrite.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"must end in \.onnx, \.pt2 or \.md"):
        export(digits, tmp_path / "model.h5")
    (tmp_path / "file").write_text("where a folder should be")
    with pytest.raises(ValueError, match="cannot write"):
        export(digits, tmp_path / "file" / "card.md")
    unfinished = pyrite.train("digits", out=tmp_path / "run", stop=lambda: True, **SMALL)
    with pytest.raises(ValueError, match="is unfinished"):
        export(unfinished, tmp_path / "model.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'pyrite-labels\[export\]'"):
        export(digits, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
