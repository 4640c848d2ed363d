"""The noise layer against steps written by hand, with probabilities and plain logarithms."""

import numpy as np
import pytest
import torch
from torch import nn

from pyrite.methods import Context, method
from pyrite.methods.corrected import NoiseLayer
from tests.methods.by_hand import (
    INPUTS,
    LABELS,
    RATE,
    batches,
    cross_entropy,
    learner,
    posteriors,
    same_weights,
    step,
    trained,
)


def confusion(shares: np.ndarray) -> np.ndarray:
    counts = np.zeros((3, 3))
    for row, label in zip(shares, LABELS[:40], strict=True):
        counts[:, label] += row
    return counts / counts.sum(1, keepdims=True)


def test_the_two_stages_written_out() -> None:
    trainer = trained("s_model(at=0.4)", 5)

    own, data = learner(0, 5), batches()  # one net and one schedule for both stages
    cross_entropy(own, data, 2)
    matrix = confusion(posteriors(own, np.arange(40)))
    np.testing.assert_allclose(trainer.arrays()["matrix"], matrix, rtol=1e-9)

    bias = nn.Parameter(torch.from_numpy(matrix).log())
    own.optimiser.add_param_group({"params": [bias], "weight_decay": 0})
    for _ in range(3):
        for inputs, labels, _ in data:

            def loss() -> torch.Tensor:
                given = own.model(inputs.double()).softmax(1) @ bias.softmax(1)  # noqa: B023
                return -given[torch.arange(10), labels].log().mean()  # noqa: B023

            step(own, loss)
    same_weights(trainer, own)
    learned = bias.detach().softmax(1).numpy()
    np.testing.assert_allclose(trainer.arrays()["noise_layer"], learned, rtol=1e-8)
    assert trainer.facts()["estimated_noise_rate"] == pytest.approx(1 - np.trace(learned) / 3)
    assert np.abs(learned - matrix).max() > 0.001
    # The layer is left out when the net predicts.
    scores = trainer.predict(torch.from_numpy(INPUTS[:7]))
    torch.testing.assert_close(scores, own.model.eval()(torch.from_numpy(INPUTS[:7]).double()).detach())


def test_transitions_that_are_not_there_stay_away_and_extreme_scores_stay_finite() -> None:
    data = batches()
    matrix = torch.tensor([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.0, 0.5, 0.5]], dtype=torch.float64)
    trainer = NoiseLayer(Context(data, learner, epochs=1, classes=3), matrix)
    head = list(trainer.learners[0].model.parameters())[-2]
    head.data *= 1e4
    for batch in data:
        trainer.step(batch)
    now = trainer.arrays()["noise_layer"]
    assert torch.equal(now == 0, matrix == 0)
    assert now[0].tolist() == [1, 0, 0]
    torch.testing.assert_close(now.sum(1), torch.ones(3, dtype=torch.float64))
    assert (now - matrix).abs().max() > 1e-6


def test_a_weight_outside_the_net_has_no_decay_and_the_rate_of_the_schedule() -> None:
    own = learner(0, 1)
    extra = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    own.add_weight(extra)
    own.steps = 2
    extra.grad = torch.tensor([0.5], dtype=torch.float64)
    own.update()
    assert float(extra.detach()) == pytest.approx(2 - RATE * 0.5 * 0.5)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="at is 'half'"):
        method("s_model(at='half')")
    with pytest.raises(ValueError, match="epochs is 1, but s_model"):
        method("s_model").start(Context(batches(), learner, epochs=1, classes=3))
