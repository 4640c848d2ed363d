"""``wordllama``: embeddings of texts from a table of token vectors, which a package brings along."""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.data import InputKind, Inputs, Records
from pyrite.errors import PyriteError
from pyrite.features.contract import Encoder, Features, State

__all__ = ["Wordllama"]

# The package's own loader looks for the tokenizer in another folder than the wheel has it in, and then on the network.
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_BLOCK: Final = 1024


@final
@dataclass(frozen=True, repr=False)
class Wordllama(Encoder):
    """The mean of 256-dimensional vectors of a text's tokens, from the package wordllama; needs no download."""

    takes: ClassVar[frozenset[InputKind]] = frozenset({"text"})
    model: ClassVar[str] = "linear"

    def fit(self, inputs: Inputs, rows: npt.NDArray[np.int64], progress: bool = False) -> "WordllamaFeatures":
        return WordllamaFeatures()

    def restore(self, state: State) -> "WordllamaFeatures":
        return WordllamaFeatures()


@final
class WordllamaFeatures(Features):
    """Nothing is fitted: the vectors are those of the package."""

    one_scale: ClassVar[bool] = True

    def __init__(self) -> None:
        _load()

    def transform(self, inputs: Inputs, progress: bool = False) -> npt.NDArray[np.float32]:
        assert isinstance(inputs, Records)
        vectors, tokenizer = _load()
        texts = inputs.texts()
        rows = np.zeros((len(texts), vectors.shape[1]), np.float32)
        for start in range(0, len(texts), _BLOCK):
            encoded = tokenizer.encode_batch(texts[start : start + _BLOCK], add_special_tokens=False)
            for row, tokens in enumerate(encoded, start):
                if tokens.ids:  # an empty text is a row of zeros
                    rows[row] = vectors[np.minimum(tokens.ids, len(vectors) - 1)].mean(0)
        return rows

    def state(self) -> State:
        return State({}, {})


@cache
def _load() -> tuple[npt.NDArray[np.float32], Any]:
    """The vectors of all tokens, and what cuts a text into tokens."""
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise PyriteError(
            "features is wordllama, which needs the package of that name: pip install 'pyrite[wordllama]'"
        )
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    root = Path(found.submodule_search_locations[0])
    try:
        (vectors,) = load_file(root / _WEIGHTS).values()
        tokenizer = Tokenizer.from_file(str(root / _TOKENIZER))
    except Exception as error:  # either library raises types of its own
        raise PyriteError(f"the files of wordllama in {root} cannot be read ({error}): install it again") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return np.asarray(vectors, np.float32), tokenizer
