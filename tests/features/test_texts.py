"""Texts as numbers: TF-IDF against scikit-learn's own pipeline, word vectors against the package they are from."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import normalize

from pyrite.data import texts
from pyrite.features import encoder
from tests.features.examples import make_texts


def test_as_scikit_learn_would():
    train, other = make_texts(80).texts(), ["a good, kind film", "unseen words alone 漢字", ""]
    union = make_union(
        TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", sublinear_tf=True, min_df=2),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, min_df=2),
    )
    theirs = make_pipeline(union, TruncatedSVD(20, random_state=0)).fit(train)
    features = encoder("tfidf(size=20)").fit(texts(train), np.arange(80))
    expected = normalize(theirs.transform(train + other))
    ours = features.transform(texts(train + other))
    np.testing.assert_allclose(np.abs(ours), np.abs(expected), atol=5e-3)  # the directions are saved in float16
    assert (ours[-1] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(ours[:80], axis=1), 1, rtol=1e-5)


def test_few_texts_are_not_reduced():
    features = encoder("tfidf").fit(texts(["ab", "cd"]), np.arange(2))
    assert np.linalg.matrix_rank(features.transform(texts(["ab", "cd"]))) == 2


def test_texts_without_words():
    with pytest.raises(ValueError, match="contain no words to learn from"):
        encoder("tfidf").fit(texts(["", "  "]), np.arange(2))


def test_word_vectors_are_those_of_the_package():
    inference = pytest.importorskip("wordllama.inference")
    from pyrite.features.texts import _load

    words = ["The film was good.", "Ein guter Film", "x" * 300]
    ours = encoder("wordllama").fit(texts(words), np.arange(3)).transform(texts([*words, ""]))
    vectors, tokenizer = _load()
    theirs = inference.WordLlamaInference(vectors, tokenizer.from_str(tokenizer.to_str()))
    np.testing.assert_allclose(ours[:3], theirs.embed(words), rtol=1e-5, atol=1e-6)
    assert (ours[3] == 0).all()


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch):
    from pyrite.features import texts as module

    module._load.cache_clear()
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'pyrite-labels\[wordllama\]'"):
        encoder("wordllama").fit(texts(["a"]), np.arange(1))
