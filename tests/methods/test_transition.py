"""Noise matrices recovered from simulated posteriors, and against loops over samples."""

import numpy as np
import pytest
import torch
from torch import Tensor

from pyrite.methods.corrected import (
    as_estimate,
    from_anchors,
    from_confusion,
    from_gold,
    invertible,
    wrong_by_matrix,
)

TRUE = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.3, 0.1, 0.6]], dtype=torch.float64)


def simulated(count: int = 1000) -> tuple[Tensor, Tensor]:
    """Scores of a net that knows P(given | x) exactly, up to a number per row; the first of every class is certain."""
    rows = np.random.default_rng(0)
    true = np.arange(count) % 3
    clean = torch.from_numpy(rows.dirichlet([0.3] * 3, size=count))
    clean[:30] = torch.eye(3, dtype=torch.float64)[true[:30]]
    # Zero probabilities have scores that are finite, and too low to matter.
    return (clean @ TRUE).clamp(min=1e-300).log() + torch.from_numpy(rows.normal(size=(count, 1))), clean


def test_the_matrix_is_recovered_from_certain_samples() -> None:
    scores, _ = simulated()
    torch.testing.assert_close(from_anchors(scores), TRUE)


def test_every_class_may_have_its_own_percentile() -> None:
    scores, _ = simulated()
    each = torch.tensor([100.0, 99.0, 50.0])
    for number, percentile in enumerate(each.tolist()):
        torch.testing.assert_close(from_anchors(scores, each)[number], from_anchors(scores, percentile)[number])


def test_the_probability_of_a_wrong_label_is_that_of_bayes_rule() -> None:
    """From P(true | x), which the net does not know: sum over the other classes of P(true | x) T[true, given]."""
    scores, clean = simulated()
    labels = torch.from_numpy(np.random.default_rng(1).integers(0, 3, len(clean)))
    joint = clean * TRUE[:, labels].T
    possible = joint.sum(1) > 1e-6
    expected = 1 - joint[torch.arange(len(clean)), labels] / joint.sum(1)
    torch.testing.assert_close(wrong_by_matrix(scores, labels, TRUE)[possible], expected[possible], rtol=0, atol=1e-9)


def test_a_net_that_is_surer_than_the_noise_allows_has_probabilities() -> None:
    scores = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    wrong = wrong_by_matrix(scores, torch.tensor([0, 2]), TRUE)
    assert ((wrong >= 0) & (wrong <= 1)).all()
    assert wrong[0] < 0.1 < 0.9 < wrong[1]


def test_a_percentile_is_not_misled_by_outliers() -> None:
    scores, _ = simulated()
    scores[-15:] = 40 * torch.eye(3, dtype=torch.float64)[np.arange(15) % 3]
    assert (from_anchors(scores) - torch.eye(3, dtype=torch.float64)).abs().max() < 1e-12
    # The certain samples, ten per class of the thousand, lie between the 98.5th and 99.5th percentile.
    torch.testing.assert_close(from_anchors(scores, 99), TRUE)


def test_the_sample_at_a_percentile_is_the_one_of_a_sorted_list() -> None:
    scores, _ = simulated(101)
    probabilities = scores.softmax(1).numpy()
    for percentile, place in ((0, 0), (50, 50), (97, 97), (97.9, 97), (100, 100)):
        rows = [probabilities[np.argsort(probabilities[:, own], kind="stable")[place]] for own in range(3)]
        for own in range(3):
            found = from_anchors(scores, percentile)[own, own]
            assert float(found) == pytest.approx(rows[own][own], abs=1e-12)


def test_probabilities_that_round_to_one_are_still_told_apart() -> None:
    scores = torch.tensor([[90.0, 0.0, -50.0], [95.0, 40.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert scores[:2].softmax(1)[:, 0].tolist() == [1.0, 1.0]
    torch.testing.assert_close(from_anchors(scores)[0], scores[0].double().softmax(0), rtol=1e-12, atol=0)


def test_rows_that_are_not_finite_are_left_out() -> None:
    scores, _ = simulated()
    labels = torch.arange(1000) % 3
    more = torch.cat([scores, torch.full((2, 3), torch.nan, dtype=torch.float64)])
    assert torch.equal(from_anchors(more, 97), from_anchors(scores, 97))
    assert torch.equal(from_confusion(more, torch.cat([labels, labels[:2]])), from_confusion(scores, labels))
    with pytest.raises(ValueError, match="no finite row"):
        from_anchors(more[-2:])


def test_confusions_and_gold_rows_against_loops() -> None:
    scores = torch.from_numpy(np.random.default_rng(1).normal(size=(40, 3)))
    labels = torch.arange(40) % 2  # nobody has the third
    shares = scores.softmax(1).numpy()
    counts, gold = np.zeros((3, 3)), np.zeros((3, 3))
    for row, label in zip(shares, labels.tolist(), strict=True):
        counts[:, label] += row
        gold[label] += row / 20
    gold[2] = [0, 0, 1]
    np.testing.assert_allclose(from_confusion(scores, labels), counts / counts.sum(1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(from_gold(scores, labels), gold, rtol=1e-12)
    unlabelled = torch.where(torch.arange(40) < 30, labels, -1)
    assert torch.equal(from_confusion(scores, unlabelled), from_confusion(scores[:30], labels[:30]))


def test_confusions_of_a_perfect_net_are_the_noise() -> None:
    """Given labels drawn from the matrix, predictions that are the true classes."""
    true = torch.arange(60_000) % 3
    given = torch.multinomial(TRUE[true], 1, generator=torch.Generator().manual_seed(0)).squeeze(1)
    scores = 100 * torch.nn.functional.one_hot(true, 3).double()
    torch.testing.assert_close(from_confusion(scores, given), TRUE, atol=0.02, rtol=0)


def test_as_much_of_the_identity_as_an_inverse_needs() -> None:
    assert invertible(TRUE) == (pytest.approx(TRUE), 0.0)
    alike = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    mixed, share = invertible(alike)
    assert share == 0.1
    assert mixed.tolist() == [[0.55, 0.45], [0.45, 0.55]]
    assert invertible(alike.flip(0) * 0 + torch.tensor([[0.0, 1.0], [0.0, 1.0]]), 1.0)[1] == 1.0


def test_what_a_stage_passes_on() -> None:
    passed = as_estimate(TRUE, identity_fraction=0.2)
    assert float(passed["estimated_noise_rate"]) == pytest.approx(1 - (0.7 + 0.6 + 0.6) / 3)
    assert float(passed["identity_fraction"]) == 0.2
    assert passed["matrix"] is TRUE
