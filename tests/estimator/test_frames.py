"""``RobustClassifier`` of data frames and texts."""

import numpy as np
import pandas
import polars
import pytest

import pyrite
from tests.features.examples import make_texts

QUICK = {"folds": 0, "members": 1, "epochs": 20, "random_state": 0}


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    kind = np.arange(200) % 2
    return pandas.DataFrame(
        {
            "size": np.where(rng.random(200) < 0.1, np.nan, rng.normal(3 * kind, 0.5)),
            "city": rng.choice(["Oslo", "Rome"], 200),
            "since": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, 200), "D"),
            "kind": np.where(kind, "new", "old"),
        }
    )


@pytest.fixture(scope="module")
def classifier(frame: pandas.DataFrame) -> pyrite.RobustClassifier:
    return pyrite.RobustClassifier(**QUICK).fit(frame.drop(columns="kind")[:150], frame.kind[:150])


def test_it_learns_and_knows_its_columns(classifier: pyrite.RobustClassifier, frame: pandas.DataFrame) -> None:
    assert classifier.score(frame[150:], frame.kind[150:]) > 0.8
    assert classifier.n_features_in_ == 3
    assert classifier.feature_names_in_.tolist() == ["size", "city", "since"]


def test_other_orders_libraries_and_categories(classifier: pyrite.RobustClassifier, frame: pandas.DataFrame) -> None:
    expected = classifier.predict_proba(frame[150:])
    backwards = frame[frame.columns[::-1]][150:]
    np.testing.assert_array_equal(classifier.predict_proba(backwards), expected)
    np.testing.assert_array_equal(classifier.predict_proba(polars.from_pandas(frame[150:])), expected)
    new = frame[150:].assign(city="Atlantis")
    with pytest.warns(
        UserWarning, match="the category 'Atlantis' of 'city', in 50 of 50 rows, was not in the training"
    ):
        assert np.isfinite(classifier.predict_proba(new)).all()


def test_bad_rows(classifier: pyrite.RobustClassifier, frame: pandas.DataFrame) -> None:
    with pytest.raises(ValueError, match="there is no column 'city'; the model was trained on 'size', 'city', 'since'"):
        classifier.predict(frame[["size", "since"]])
    with pytest.raises(ValueError, match="X is a ndarray, but the classifier was fitted to a frame with columns"):
        classifier.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="X is a list, but the classifier was fitted to a frame"):
        classifier.predict(["a text"])


def test_texts() -> None:
    words, kind = make_texts(120).texts(), np.arange(120) % 2
    classifier = pyrite.RobustClassifier(**QUICK).fit(words[:100], kind[:100])
    assert classifier.score(words[100:], kind[100:]) > 0.9
    assert classifier.score(np.array(words[100:]), kind[100:]) == classifier.score(words[100:], kind[100:])
    with pytest.raises(ValueError, match="X is a ndarray, but the classifier was fitted to a list of texts"):
        classifier.predict(np.zeros((2, 3)))


@pytest.mark.parametrize("what", ["y", "sample_weight"])
def test_an_index_in_another_order_is_refused(frame: pandas.DataFrame, what: str) -> None:
    """Position and index match different rows."""
    given = {"y": frame.kind, "sample_weight": pandas.Series(1.0, frame.index)}
    given[what] = given[what].sample(frac=1, random_state=0)
    with pytest.raises(pyrite.PyriteError, match=f"{what} has the same index as the samples, but in another order"):
        pyrite.RobustClassifier(**QUICK).fit(frame.drop(columns="kind"), **given)


def test_the_label_column_of_a_hugging_face_data_set_is_named_by_y() -> None:
    datasets = pytest.importorskip("datasets")
    kind = np.arange(200) % 2
    size = np.random.default_rng(0).normal(4 * kind, 1)
    stars = np.array(["low", "high"])[kind]
    data = datasets.Dataset.from_dict({"size": size.tolist(), "other": (-size).tolist(), "stars": stars.tolist()})
    with pytest.raises(pyrite.PyriteError, match="name the label column"):
        pyrite.RobustClassifier(**QUICK).fit(data)
    classifier = pyrite.RobustClassifier(**QUICK).fit(data, "stars")
    assert list(classifier.classes_) == ["high", "low"]
    assert (classifier.predict(data.remove_columns("stars")) == stars).mean() > 0.9
