"""The registry of features, and which of them suit which samples."""

from typing import Final

import numpy as np

from pyrite.data import Inputs, Numeric, Records, kind_of
from pyrite.features.contract import Encoder
from pyrite.features.embedding import EfficientnetLite0, EfficientnetLite2
from pyrite.features.hugging_face import HF
from pyrite.features.table import Table
from pyrite.features.texts import Tfidf, Wordllama
from pyrite.spec import Registry, named

FEW: Final = 20_000  # images below which embeddings are ahead (docs/embeddings.md)
PHOTOGRAPHS: Final = EfficientnetLite2()  # python -m benchmarks.pretrained
_SIDE: Final = 64  # pixels; smaller images are often drawn or cropped, and are quick to train on

FEATURES: Registry[Encoder] = Registry(
    "features", named(Table, Tfidf, Wordllama, EfficientnetLite0, EfficientnetLite2, HF), Encoder, "tfidf"
)


def encoder(spec: str | Encoder) -> Encoder | None:
    """The encoder described by ``spec``; None for ``"none"``: the samples are trained on as they are.

    >>> encoder("tfidf(size=100)")
    Tfidf(size=100)
    """
    return None if spec == "none" else FEATURES.read(spec)


def default_features(inputs: Inputs, count: int | None = None) -> Encoder | None:
    """What suits the samples: ``table`` for tables, ``tfidf`` for texts, None for most images and plain numbers.

    If ``count``, the number of samples in use, is given, few photographs are embedded by a pretrained net, if that is
    installed.
    """
    kind = kind_of(inputs)
    few = count is not None and count < FEW
    if kind == "images" and few and are_photographs(inputs) and PHOTOGRAPHS.net.source.installed:
        return PHOTOGRAPHS
    return Table() if kind == "table" else Tfidf() if kind == "text" else None


def are_photographs(inputs: Inputs, side: int = _SIDE) -> bool:
    """Whether images have three channels of bytes and a size at which little is gained by training from scratch."""
    return not isinstance(inputs, Records) and (
        inputs.ndim == 4 and inputs.shape[1] == 3 and min(inputs.shape[2:]) >= side and inputs.dtype == np.uint8
    )


def as_numbers(inputs: Inputs) -> Numeric:
    """Images and numbers unchanged; records by the features that suit them, fitted to all rows, as noise uses them."""
    if not isinstance(inputs, Records):
        return inputs
    described = default_features(inputs)
    assert described is not None
    return described.fit(inputs, np.arange(len(inputs))).transform(inputs)
