"""Open questions: what the benchmark trains with, and that the page has the committed numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import pyrite
from benchmarks import open_questions as asked
from benchmarks.open_questions import DOCS, QUESTIONS, RESULTS, SETS


@pytest.mark.parametrize("name", QUESTIONS)
def test_tables_of_the_page_are_those_of_the_committed_runs(name: str) -> None:
    results, question = json.loads(RESULTS.read_text()), QUESTIONS[name]
    keys = [key for key in results if key.startswith(f"{question.measure.__name__}, MNIST, {question.conditions[0]}")]
    table = asked.tabulated(question, asked.collected(question, results, len(keys)))
    assert table.to_markdown() in (DOCS / "open-questions.md").read_text()
    assert len(table.rows) == len(SETS) * len(question.methods)


def test_the_exponential_of_the_absolute_error_is_imae() -> None:
    margin = torch.linspace(-8, 8, 65, dtype=torch.float64)
    imae, mine = pyrite.IMAE(T=8), asked.Exponential("mae")
    torch.testing.assert_close(mine.weight_at(margin), imae.weight_at(margin))
    fallen = mine.value_at(margin[:1]) - mine.value_at(margin)  # a loss is known up to a constant
    torch.testing.assert_close(fallen, imae.value_at(margin[:1]) - imae.value_at(margin), rtol=1e-4, atol=1e-4)


def test_the_threshold_separates_two_groups_best() -> None:
    values = np.random.default_rng(0).normal([0.2, 0.7], 0.1, (40, 2)).ravel()
    found = asked.threshold(values)

    def within(cut: float) -> float:
        groups = values[values <= cut], values[values > cut]
        return sum(len(group) * group.var() for group in groups)

    assert within(found) == pytest.approx(min(within(cut) for cut in np.sort(values)[:-1]))


def test_mixup_of_one_sample_alone_is_the_plain_loss(tmp_path: Path) -> None:
    """With alpha near 0 the larger fraction is 1."""
    runs = [
        pyrite.train("digits", method=method, model="linear", epochs=1, samples=200, out=tmp_path / str(number))
        for number, method in enumerate([asked.Mixup("mae", alpha=1e-6), "erm(mae)"])
    ]
    mixed, plain = (run.history[-1]["test_accuracy"] for run in runs)
    assert mixed == plain
