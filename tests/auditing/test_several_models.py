"""Scores of several models, and neighbours."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import pyrite
from pyrite.auditing.scores import combine_scores, neighbour_scores

RANDOM = np.random.default_rng(0)
TRUE = np.arange(600) % 3
LABELS = np.where(np.arange(600) < 90, (TRUE + 1) % 3, TRUE)
POINTS = 4 * np.eye(3)[TRUE] + RANDOM.normal(size=(600, 3))


def model(seed: int, scale: float = 1.0) -> Any:
    return scale * (2 * np.eye(3)[TRUE] + np.random.default_rng(seed).normal(size=(600, 3)))


@pytest.mark.parametrize("compared", [80, 30])  # all, and a subset
def test_neighbours_by_a_loop(compared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.auditing.scores._COMPARED", compared)
    found = neighbour_scores(POINTS[:80], LABELS[:80], 3)
    frequency = np.bincount(LABELS[:80], minlength=3) / 80
    unit = POINTS[:80] / np.linalg.norm(POINTS[:80], axis=1, keepdims=True)
    among = np.random.default_rng(0).choice(80, compared, replace=False) if compared < 80 else np.arange(80)
    for row in range(80):
        near = [other for other in np.argsort(-unit @ unit[row]) if other != row and other in among][:20]
        votes = np.bincount(LABELS[near], minlength=3)
        assert found[row] == pytest.approx(np.maximum(np.log((votes + frequency) / 21), np.log(1e-6)), abs=1e-6)


def test_a_label_does_not_vote_for_itself() -> None:
    same = neighbour_scores(POINTS[:80], LABELS[:80], 3)
    changed = LABELS[:80].copy()
    changed[5] = (changed[5] + 1) % 3
    other = neighbour_scores(POINTS[:80], changed, 3)
    assert other[5].argmax() == same[5].argmax()


def test_models_count_equally_whatever_their_scale() -> None:
    one, two = model(1), model(2)
    found, _ = combine_scores([one, two], None, LABELS, "logits")
    scaled, _ = combine_scores([one, 1000 * two], None, LABELS, "logits")
    assert found == pytest.approx(scaled, rel=1e-5, abs=1e-5)
    assert combine_scores(one, None, LABELS, "logits")[0] is one


def test_probabilities_are_averaged_in_units_of_the_typical_gap() -> None:
    random = np.random.default_rng(4)
    tables = [scale * random.normal(size=(90, 3)) for scale in (1.0, 7.0)]
    found, kind = combine_scores(tables, None, np.arange(90) % 3, "logits")
    assert kind == "probabilities"
    expected = 0.0
    for table in tables:
        ordered = np.sort(table, axis=1)
        expected = expected + softmax(4 * table / np.median(ordered[:, 2] - ordered[:, 1]), axis=1) / 2
    assert found == pytest.approx(expected, abs=1e-6)
    # A model that is certain by mistake does not outvote the other: it has one half of the vote.
    tables[0][0], tables[1][0] = (0, 2, 0), (1000, 0, 0)
    assert combine_scores(tables, None, np.arange(90) % 3, "logits")[0][0, 0] < 0.51


def test_two_models_find_more_than_one() -> None:
    """Their errors differ, so the mean is better than each."""
    wrong = LABELS != TRUE
    alone = pyrite.audit(LABELS, scores=model(1), kind="logits")
    both = pyrite.audit(LABELS, scores=[model(1), model(2)], kind="logits")
    near = pyrite.audit(LABELS, scores=model(1), embeddings=POINTS, kind="logits")
    for more in (both, near):
        assert ((more.wrong_probability - wrong) ** 2).mean() < ((alone.wrong_probability - wrong) ** 2).mean()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scores": [model(1), model(2)[:, :2]]}, "label 2 at index"),
        ({"scores": [model(1), model(2)[:10]]}, "there are 10 rows of scores but 600 labels"),
        ({"scores": model(1), "embeddings": POINTS[:7]}, "there are 7 embeddings but 600 labels"),
        ({"scores": model(1), "embeddings": POINTS[:, 0]}, "embeddings"),
        ({"scores": model(1), "embeddings": np.full((600, 2), np.nan)}, "embeddings"),
        ({"scores": [model(1), np.pad(model(2), ((0, 0), (0, 1)))]}, r"scores have the shapes \(600, 3\), \(600, 4\)"),
    ],
)
def test_bad_input(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pyrite.audit(LABELS, kind="logits", **options)
