"""Texts as numbers: ``tfidf``, the words and character n-grams, and ``wordllama``, the mean of token vectors."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import Count
from pyrite.data import InputKind, Inputs, Records
from pyrite.errors import PyriteError
from pyrite.features.contract import Encoder, Features, State
from pyrite.features.embedding import NetEncoder
from pyrite.files import pack_texts, unpack_texts

Float16 = npt.NDArray[np.float16]  # of which 300 directions of 20,000 terms take 12 MB in a run's folder
Float32 = npt.NDArray[np.float32]

_TERMS: Final = 10_000  # the most words, and the most n-grams; the rarer ones are left out
_BLOCK: Final = 4096  # texts at a time, so that the sparse matrix of all never exists at prediction
_VECTORISERS: Final[dict[str, dict[str, Any]]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"},
    "characters": {"analyzer": "char_wb", "ngram_range": (2, 4)},
}
# The package's own loader looks for the tokenizer in another folder than the wheel has it in, and then on the network.
_WORDLLAMA: Final = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")


@final
@dataclass(frozen=True, repr=False)
class Tfidf(Encoder):
    """TF-IDF of words, pairs of words and character n-grams, reduced to at most ``size`` numbers by a truncated SVD."""

    takes: ClassVar[frozenset[InputKind]] = frozenset({"text"})
    model: ClassVar[str] = "linear"  # docs/data.md has the comparison

    size: Count = 300

    def fit(self, inputs: Inputs, rows: npt.NDArray[np.int64], progress: bool = False) -> "TextFeatures":
        assert isinstance(inputs, Records)
        return fit_texts(inputs[rows].texts(), self.size, "the texts")

    def restore(self, state: State) -> "TextFeatures":
        return restore_texts(state.arrays, "the features")


@final
class TextFeatures(Features):
    """The vocabulary with its inverse document frequencies, and the directions that texts are projected onto."""

    # Divided each by its own deviation, the least of 300 directions, which is noise, would count as much as the first.
    one_scale = True

    def __init__(self, terms: dict[str, list[str]], idf: dict[str, npt.NDArray[Any]], components: Float16) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.terms, self.idf = terms, idf
        self._saved, self.components = components, components.astype(np.float32)
        self._vectorisers = []
        for name, options in _VECTORISERS.items():
            if not terms[name]:
                continue
            vectoriser = TfidfVectorizer(**options, sublinear_tf=True, dtype=np.float32, vocabulary=terms[name])
            vectoriser.idf_ = idf[name]
            self._vectorisers.append(vectoriser)

    def transform(self, inputs: Inputs, progress: bool = False) -> Float32:
        assert isinstance(inputs, Records)
        return self.transform_texts(inputs.texts())

    def transform_texts(self, texts: Sequence[str]) -> Float32:
        """One row of unit length per text, or of zeros for a text without known terms."""
        from scipy.sparse import hstack

        rows = np.empty((len(texts), len(self.components)), np.float32)
        for start in range(0, len(texts), _BLOCK):
            parts = [vectoriser.transform(texts[start : start + _BLOCK]) for vectoriser in self._vectorisers]
            rows[start : start + _BLOCK] = hstack(parts, format="csr") @ self.components.T
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(length > 0, length, 1)
        return rows

    def state(self) -> State:
        return State(self.arrays(), {})

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Its state."""
        found: dict[str, npt.NDArray[Any]] = {"components": self._saved}
        for name, terms in self.terms.items():
            found |= {name: pack_texts(terms), f"{name}_idf": self.idf[name]}
        return found


def fit_texts(texts: Sequence[str], size: int, what: str) -> TextFeatures:
    """Features of at most ``size`` numbers, fitted to these texts."""
    from scipy.sparse import hstack
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    terms: dict[str, list[str]] = {}
    idf: dict[str, npt.NDArray[Any]] = {}
    weights: list[Any] = []
    for name, options in _VECTORISERS.items():
        terms[name], idf[name] = [], np.zeros(0)
        for least in (2, 1):  # a term of one text does not occur in others, but few short texts may have no others
            found = TfidfVectorizer(**options, sublinear_tf=True, dtype=np.float32, min_df=least, max_features=_TERMS)
            with suppress(ValueError):  # an empty vocabulary
                weights.append(found.fit_transform(texts))
                terms[name], idf[name] = found.get_feature_names_out().tolist(), np.asarray(found.idf_, np.float64)
                break
    if not weights:
        raise PyriteError(f"{what} contain no words to learn from")
    matrix = hstack(weights, format="csr")
    most = min(size, min(matrix.shape) - 1)
    if most < 1 or matrix.shape[1] <= size:
        return TextFeatures(terms, idf, np.eye(matrix.shape[1], dtype=np.float16))
    components = TruncatedSVD(most, random_state=0).fit(matrix).components_
    return TextFeatures(terms, idf, np.asarray(components, np.float16))


def restore_texts(arrays: Any, what: str) -> TextFeatures:
    """The features whose ``arrays`` these were."""
    try:
        terms = {name: unpack_texts(arrays[name]) for name in _VECTORISERS}
        idf = {name: np.asarray(arrays[f"{name}_idf"], np.float64) for name in _VECTORISERS}
        components = np.asarray(arrays["components"], np.float16)
        fits = all(idf[name].shape == (len(terms[name]),) for name in terms)
        if not fits or components.ndim != 2 or components.shape[1] != sum(map(len, terms.values())):
            raise PyriteError("other lengths")
        return TextFeatures(terms, idf, components)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise PyriteError(f"{what} are damaged: they are not those of a text ({error})") from None


@final
@dataclass(frozen=True, repr=False)
class Wordllama(NetEncoder):
    """The mean of the 256-dimensional vectors of the tokens, from the package wordllama, without download."""

    takes: ClassVar[frozenset[InputKind]] = frozenset({"text"})
    model: ClassVar[str] = "linear"
    learning_rate: ClassVar[float | None] = None
    one_scale: ClassVar[bool] = True
    cached: ClassVar[bool] = False

    @property
    def weights(self) -> str:
        return sha256(_load()[0].tobytes()).hexdigest()

    def embed(self, samples: npt.NDArray[Any] | list[str]) -> Float32:
        vectors, tokenizer = _load()
        rows = np.zeros((len(samples), vectors.shape[1]), np.float32)
        for row, tokens in enumerate(tokenizer.encode_batch(list(samples), add_special_tokens=False)):
            if tokens.ids:  # an empty text is a row of zeros
                rows[row] = vectors[np.minimum(tokens.ids, len(vectors) - 1)].mean(0)
        return rows


@cache
def _load() -> tuple[npt.NDArray[np.float32], Any]:
    """The vectors of all tokens, and what cuts a text into tokens."""
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise PyriteError(
            "features is wordllama, which requires the package wordllama: pip install 'pyrite-labels[wordllama]'"
        )
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    root = Path(found.submodule_search_locations[0])
    try:
        (vectors,) = load_file(root / _WORDLLAMA[0]).values()
        tokenizer = Tokenizer.from_file(str(root / _WORDLLAMA[1]))
    except Exception as error:  # either library raises types of its own
        raise PyriteError(f"the files of wordllama in {root} cannot be read ({error}): install it again") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return np.asarray(vectors, np.float32), tokenizer
