"""Embeddings of Hugging Face models, which the tests make with random weights: nothing is downloaded."""

import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import pyrite
from pyrite.features import encoder, hugging_face

transformers = pytest.importorskip("transformers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "good", "bad", "film", "book"]
TEXTS = ["a good film", "bad", "a bad book a bad film"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def bert(folder: Path) -> Path:
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=8).save_pretrained(folder / "bert")
    sizes = {"vocab_size": len(WORDS), "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(hidden_size=16, **sizes)).save_pretrained(folder / "bert")
    return folder / "bert"


@pytest.fixture(scope="module")
def vit(folder: Path) -> Path:
    sizes: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    net = transformers.ViTModel(transformers.ViTConfig(hidden_size=16, image_size=16, patch_size=8, **sizes))
    net.save_pretrained(folder / "vit")
    size = {"height": 16, "width": 16}
    transformers.ViTImageProcessorPil(size=size).save_pretrained(folder / "vit")
    return folder / "vit"


def embedded(spec: str, inputs: Any) -> npt.NDArray[Any]:
    described = encoder(spec)
    assert described is not None
    return described.fit(inputs, np.arange(len(inputs))).transform(inputs)


def test_texts_are_averaged_over_their_own_tokens(bert: Path) -> None:
    net, tokenizer = (
        transformers.BertModel.from_pretrained(bert).eval(),
        transformers.BertTokenizer.from_pretrained(bert),
    )
    found = {
        pooling: embedded(f"hf({str(bert)!r}, pooling={pooling!r})", pyrite.data.texts(TEXTS))
        for pooling in ("mean", "cls")
    }
    for place, text in enumerate(TEXTS):  # one at a time, so that nothing is padded
        with torch.inference_mode():
            tokens = net(**tokenizer(text, return_tensors="pt", truncation=True)).last_hidden_state[0]
        assert np.allclose(found["mean"][place], tokens.mean(0).numpy(), atol=1e-5)
        assert np.allclose(found["cls"][place], tokens[0].numpy(), atol=1e-5)


def test_a_model_that_is_saved_again_in_a_session(bert: Path, tmp_path: Path) -> None:
    shutil.copytree(bert, tmp_path / "bert")
    spec, texts = f"hf({str(tmp_path / 'bert')!r})", pyrite.data.texts(TEXTS)
    before, net = embedded(spec, texts), transformers.BertModel.from_pretrained(bert)
    described = encoder(spec)
    known = described.weights  # type: ignore[attr-defined]
    with torch.no_grad():
        net.embeddings.word_embeddings.weight.neg_()
    net.save_pretrained(tmp_path / "bert")
    assert not np.allclose(embedded(spec, texts), before)
    assert described.weights != known  # type: ignore[attr-defined]  # else: other embeddings in the cache
    assert np.array_equal(embedded(f"hf({str(bert)!r})", texts), before)


def test_images_are_prepared_as_the_model_expects(vit: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 20, 24)).astype(np.uint8)
    net, prepare = (
        transformers.ViTModel.from_pretrained(vit).eval(),
        transformers.ViTImageProcessorPil.from_pretrained(vit),
    )
    with torch.inference_mode():
        tokens = net(**prepare(images=list(pixels.transpose(0, 2, 3, 1)), return_tensors="pt")).last_hidden_state
    assert np.allclose(embedded(f"hf({str(vit)!r})", pixels), tokens.mean(1).numpy(), atol=1e-5)
    grey = embedded(f"hf({str(vit)!r})", pixels[:, :1])
    assert np.allclose(grey, embedded(f"hf({str(vit)!r})", np.repeat(pixels[:, :1], 3, 1)))


def test_a_folder_is_found_from_elsewhere(vit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(vit.parent)
    assert str(encoder("hf('vit')")) == f"hf(name={str(vit)!r}, pooling='mean')"


@pytest.mark.parametrize(
    ("model", "data", "words"),
    [
        ("nobody/nothing", "digits", "hf('nobody/nothing') is not a model with safetensors weights on this machine"),
        ("BERT", "digits", "is not a model of images on this machine"),
        ("VIT", "TEXTS", "is not a model of texts on this machine"),
        ("VIT", "blobs", "requires images or text, but blobs has plain numbers"),
    ],
)
def test_models_that_are_not_there(
    model: str, data: str, words: str, bert: Path, vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    name = {"BERT": str(bert), "VIT": str(vit)}.get(model, model)
    source: Any = data
    if data == "TEXTS":
        source = pyrite.Dataset("texts", pyrite.data.texts(["a", "b"] * 20), np.arange(40) % 2, ("no", "yes"))
    with pytest.raises(ValueError) as caught:
        pyrite.train(source, features=f"hf({name!r})", out=tmp_path / "run")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_run_on_texts(bert: Path, tmp_path: Path) -> None:
    texts = ["a good film", "a bad film", "good book", "bad book"] * 20
    data = pyrite.Dataset("reviews", pyrite.data.texts(texts), np.arange(80) % 2, ("good", "bad"))
    options: dict[str, Any] = {"model": "mlp(hidden=[16])", "epochs": 10, "batch_size": 20, "loss": "ce"}
    run = pyrite.train(data, features=f"hf({str(bert)!r})", out=tmp_path / "run", **options)
    scores = pyrite.Run.load(tmp_path / "run").scores(pyrite.data.texts(texts[:4]))
    assert scores.argmax(1).tolist() == [0, 1, 0, 1]
    assert run.features is not None


def test_nothing_is_requested_where_the_hub_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests would be repeated for half a minute."""
    asked: list[bool] = []

    def unknown(*_: Any) -> None:
        raise socket.gaierror("Name or service not known")

    def load(name: str, local_files_only: bool, **_: Any) -> None:
        asked.append(local_files_only)
        raise OSError("not there")

    for answer in (unknown, lambda *_: []):
        hugging_face._is_offline.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(hugging_face, "getproxies", dict)
            patch.setattr(socket, "getaddrinfo", answer)
            patch.setattr(transformers.AutoModel, "from_pretrained", load)
            with pytest.raises(ValueError, match="cannot be downloaded: not there"):
                hugging_face._model("nobody/nothing", ())
    hugging_face._is_offline.cache_clear()
    assert asked == [True, False]
