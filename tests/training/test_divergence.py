"""Falling back without a NaN, on made-up histories."""

import pytest

from pyrite.training.progress import divergence


def history(*accuracies: float | None, growth: float = 2.0) -> list[dict[str, float | None]]:
    return [
        {"epoch": epoch, "train_accuracy": accuracy, "margin_size": growth**epoch}
        for epoch, accuracy in enumerate(accuracies, 1)
    ]


@pytest.mark.parametrize(
    "accuracies",
    [(), (0.5,), (0.1, 0.2, 0.3), (0.6, 0.5), (0.8, 0.61), (0.9, 0.1, 0.8), (None, None), (0.5, None), (0.1, 0.1, 0.1)],
)
def test_runs_in_good_order(accuracies: tuple[float | None, ...]) -> None:
    assert divergence(history(*accuracies)) == []


@pytest.mark.parametrize("accuracies", [(0.3, 0.53, 0.24), (0.63, 0.13), (0.8, 0.6), (0.5, None, 0.2)])
def test_runs_that_fell_back(accuracies: tuple[float | None, ...]) -> None:
    (said,) = divergence(history(*accuracies))
    assert "diverged" in said


def test_falling_while_scores_shrink_is_no_divergence() -> None:
    assert divergence(history(0.5, 0.2, growth=0.5)) == []


def test_scores_that_grow_far_are_named_though_nothing_was_ever_learned() -> None:
    (said,) = divergence(history(0.1, 0.1, 0.1, growth=10.0))
    assert said.startswith("the scores have grown without bound: the typical size of a margin is 1e+03")


def test_what_is_said() -> None:
    (said,) = divergence(history(0.3, 0.53, 0.24, growth=10.0))
    assert said.startswith(
        "the run diverged: it followed 53% of the given labels after epoch 2 and 24% at the end, while the typical "
        "size of a margin went from 100 to 1e+03. Try a lower learning rate"
    )


def test_an_earlier_stage_and_epochs_without_weight_are_left_out() -> None:
    lines = history(0.8, 0.85, 0.3, 0.5, 0.6)
    staged = [line | {"stage": 1 + (number >= 2)} for number, line in enumerate(lines)]
    assert "diverged" in divergence(lines[:3])[0]
    assert divergence(staged) == divergence(staged[:3]) == []
    assert divergence([*lines[:2], lines[2] | {"weight_max": 0.0}]) == []
    assert "diverged" in divergence([*staged, lines[2] | {"stage": 2, "epoch": 6, "margin_size": 64.0}])[0]
