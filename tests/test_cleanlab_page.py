"""The page for users of cleanlab: its blocks run, and the two libraries agree where the page says that they do."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

PAGE = Path(__file__).parents[1] / "docs" / "cleanlab.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cleanlab and scikit-learn
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), found)
    return found


def test_the_rankings_agree(names: dict[str, Any]) -> None:
    wrong = names["labels"] != names["true"]
    ours = roc_auc_score(wrong, names["audit"].score)
    theirs = roc_auc_score(wrong, -names["quality"])
    assert ours > theirs - 0.01 > 0.95


def test_the_suspects_agree(names: dict[str, Any]) -> None:
    wrong, issues, suspects = names["labels"] != names["true"], names["issues"], names["suspects"]
    assert (issues & suspects).sum() > 0.8 * min(issues.sum(), suspects.sum())
    for found in (issues, suspects):
        assert (found & wrong).sum() > 0.75 * found.sum()
        assert (found & wrong).sum() > 0.75 * wrong.sum()


def test_the_rate_has_an_interval(names: dict[str, Any]) -> None:
    low, high = names["audit"].noise_interval
    assert low <= (names["labels"] != names["true"]).mean() <= high


def test_the_classifiers_are_right_as_often_as_the_page_says(names: dict[str, Any]) -> None:
    """On their own training samples, of whose labels a fifth is wrong."""
    rows, true = names["X"], names["true"]
    said = {"cleaned": 97.7, "robust": 97.5, "pruned": 95.3}
    accuracy = {name: 100 * float(np.mean(names[name].predict(rows) == true)) for name in said}
    assert accuracy == pytest.approx(said, abs=1)
