"""The registry of features, and which of them suit which samples."""

import numpy as np

from pyrite.data import Inputs, Numeric, Records, kind_of
from pyrite.features.contract import Encoder
from pyrite.features.embedding import EfficientnetLite0
from pyrite.features.hugging_face import HF
from pyrite.features.table import Table
from pyrite.features.texts import Tfidf, Wordllama
from pyrite.spec import Registry

FEATURES: Registry[Encoder] = Registry(
    "features",
    {"table": Table, "tfidf": Tfidf, "wordllama": Wordllama, "efficientnet_lite0": EfficientnetLite0, "hf": HF},
    Encoder,
    "tfidf",
)


def encoder(spec: str | Encoder) -> Encoder | None:
    """The encoder described by ``spec``; None for ``"none"``: the samples are trained on as they are.

    >>> encoder("tfidf(size=100)")
    Tfidf(size=100)
    """
    return None if spec == "none" else FEATURES.read(spec)


def default_features(inputs: Inputs) -> Encoder | None:
    """What suits the samples: ``table`` for tables, ``tfidf`` for texts, None for images and plain numbers."""
    kind = kind_of(inputs)
    return Table() if kind == "table" else Tfidf() if kind == "text" else None


def as_numbers(inputs: Inputs) -> Numeric:
    """Images and numbers unchanged; records by the features that suit them, fitted to all rows, as noise uses them."""
    if not isinstance(inputs, Records):
        return inputs
    described = default_features(inputs)
    assert described is not None
    return described.fit(inputs, np.arange(len(inputs))).transform(inputs)
