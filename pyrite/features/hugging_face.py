"""Embeddings of any image or text model of Hugging Face, by its name or from a folder."""

import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, final
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.checks import require
from pyrite.data import InputKind
from pyrite.errors import PyriteError
from pyrite.features.embedding import NetEncoder, checksum, in_batches

Files = tuple[tuple[str, int, int], ...]

_AT_ONCE: Final = 16
_NAME: Final = "the name of a model or a folder"
_LONGEST: Final = 512  # tokens of a text; what is longer is cut off


@final
@dataclass(frozen=True, repr=False)
class HF(NetEncoder):
    """The embeddings of an image or text model of Hugging Face.

    Args:
        name: of a model on the hub, which is downloaded once, or a folder that ``save_pretrained`` wrote. It must have
            safetensors weights, and no code of its own is run.
        pooling: ``"mean"``, over all tokens or positions; ``"cls"``, the first token.

    >>> str(HF("openai/clip-vit-base-patch32"))
    "hf(name='openai/clip-vit-base-patch32', pooling='mean')"
    """

    takes: ClassVar[frozenset[InputKind]] = frozenset({"images", "text"})

    name: str
    pooling: Literal["mean", "cls"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(isinstance(self.name, str) and bool(self.name.strip()), "name", self.name, _NAME)
        if os.path.isdir(os.path.expanduser(self.name)):  # the run may be read from another folder
            object.__setattr__(self, "name", os.path.abspath(os.path.expanduser(self.name)))

    @property
    def weights(self) -> str:
        """Of all that decides the embeddings: in a folder also how texts and images are prepared."""
        return _weights(self.name, _files(self.name))

    def embed(self, samples: npt.NDArray[Any] | list[str]) -> npt.NDArray[np.float32]:
        is_text = isinstance(samples, list)
        files = _files(self.name)
        prepare, whole = _reader(self.name, files, is_text), _model(self.name, files)
        # A model of both images and texts, such as CLIP, has a part for each.
        net: nn.Module = getattr(whole, "text_model" if is_text else "vision_model", whole)
        return in_batches(lambda some: self._pooled(net, prepare(some)), samples, _AT_ONCE)

    def _pooled(self, net: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        out: Tensor = net(**inputs).last_hidden_state
        if out.ndim == 4:  # a convolutional net: channels come first
            out = out.flatten(2).transpose(1, 2)
        if self.pooling == "cls":
            return out[:, 0]
        mask = inputs.get("attention_mask")
        if mask is None:
            return out.mean(1)
        weight = mask[:, :, None].to(out.dtype)
        return (out * weight).sum(1) / weight.sum(1).clamp(min=1)


def _files(name: str) -> Files:
    """The files of a folder with their sizes and times: a model may be saved again during a session."""
    found = ((path.name, path.stat()) for path in sorted(Path(name).glob("*")))
    return tuple((file, stat.st_size, stat.st_mtime_ns) for file, stat in found)


@lru_cache(maxsize=4)
def _weights(name: str, files: Files) -> str:
    hashed = hashlib.sha256(checksum(_model(name, files)).encode())
    for path in sorted(Path(name).glob("*")):  # none if the model is on the hub
        if path.suffix in (".json", ".txt", ".model"):
            hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()


@lru_cache(maxsize=4)
def _model(name: str, files: Files) -> nn.Module:
    from transformers import AutoModel

    with _quiet(name, "a model with safetensors weights"):
        net: nn.Module = AutoModel.from_pretrained(name, use_safetensors=True, dtype=torch.float32, **_options())
    return net.eval()


@lru_cache(maxsize=4)
def _reader(name: str, files: Files, is_text: bool) -> Callable[[Any], dict[str, Tensor]]:
    """What turns texts or images into the inputs of the model."""
    from transformers import AutoImageProcessor, AutoTokenizer

    with _quiet(name, "a model of texts" if is_text else "a model of images"):
        if is_text:
            tokenizer = AutoTokenizer.from_pretrained(name, **_options())
        else:
            # Pillow's: it is there always, and gives the same numbers with and without torchvision.
            processor = AutoImageProcessor.from_pretrained(name, backend="pil", **_options())

    def read_texts(texts: list[str]) -> dict[str, Tensor]:
        longest = min(int(tokenizer.model_max_length), _LONGEST)
        return dict(tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt"))

    def read_images(images: npt.NDArray[np.uint8]) -> dict[str, Tensor]:
        coloured = np.repeat(images, 3, 1) if images.shape[1] == 1 else images
        return dict(processor(images=list(coloured), return_tensors="pt", input_data_format="channels_first"))

    return read_texts if is_text else read_images


def _options() -> dict[str, bool]:
    """Without ``trust_remote_code=False``, transformers asks on the terminal whether to run the code of a model."""
    return {"local_files_only": _is_offline(), "trust_remote_code": False}


@cache
def _is_offline() -> bool:
    """Whether the hub has no address: requests to it would be repeated for half a minute, even for a model at hand."""
    from huggingface_hub.constants import ENDPOINT

    if getproxies():  # a proxy may know the address
        return False
    try:
        socket.getaddrinfo(urlsplit(ENDPOINT).hostname, 443)
    except OSError:
        return True
    return False


@contextmanager
def _quiet(name: str, what: str) -> Iterator[None]:
    """No progress bars of transformers, and its many errors as one sentence."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0] or type(error).__name__
        raise PyriteError(f"hf({name!r}) is not {what} on this machine, and cannot be downloaded: {reason}") from None
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
