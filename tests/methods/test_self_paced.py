"""Self-paced learning against the same choice of samples made by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from pyrite.data import Batches
from pyrite.methods import Context, Learner, method
from pyrite.methods.small_loss import with_smallest
from pyrite.models import build_model

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), ROWS.integers(3, size=40)


def net() -> nn.Module:
    return build_model("mlp(hidden=[7], norm=False)", (4,), 3, seed=0).double()


def learner(number: int, epochs: int) -> Learner:
    own = net()
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.2), precision="float64", accumulate=2)


def test_it_trains_on_a_growing_share_of_small_losses() -> None:
    trainer = method("self_paced(first=0.5, last=0.8)").start(
        Context(Batches(INPUTS, LABELS, batch_size=10, seed=0), learner, epochs=6, classes=3)
    )
    own, losses, chosen = net(), torch.full((40,), torch.inf, dtype=torch.float64), torch.ones(40).bool()
    optimiser = torch.optim.SGD(own.parameters(), lr=0.2)
    for epoch, count in enumerate((40, 40, 40, 20, 26, 32), 1):  # three epochs of warm-up, then 0.5, 0.65, 0.8 of 40
        if epoch > 3:
            chosen = torch.zeros(40).bool()
            chosen[losses.argsort()[:count]] = True
        trainer.begin_epoch(epoch)
        for batch in Batches(INPUTS, LABELS, batch_size=10, seed=epoch):
            step = trainer.step(batch)
            values = nn.functional.cross_entropy(own(batch.inputs.double()), batch.labels, reduction="none")
            losses[batch.index] = values.detach()
            assert step.trust is not None
            assert step.trust.bool().tolist() == chosen[batch.index].tolist()
            optimiser.zero_grad()
            values[chosen[batch.index]].mean().backward()
            optimiser.step()
        trainer.end_epoch()
        assert trainer.facts() == {
            "share_trained_on": pytest.approx(count / 40),
            "noise_rate_given": pytest.approx(0.2),
        }
    for one, other in zip(trainer.learners[0].weights, own.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_samples_never_seen_are_not_chosen() -> None:
    losses = torch.tensor([torch.inf, 2.0, 1.0, 3.0, 1.0])
    assert with_smallest(losses, 2).tolist() == [0, 0, 1, 0, 1]
    assert with_smallest(losses, 4).tolist() == [0, 1, 1, 1, 1]
    assert with_smallest(losses, 0).tolist() == [0, 0, 1, 0, 0]


def test_what_is_refused() -> None:
    for spec, words in {
        "self_paced(first=0)": "first is 0",
        "self_paced(last=1.5)": "last is 1.5",
        "self_paced(first=0.8, last=0.5)": "must not be below first",
        "self_paced(loss=ce(reduction='sum'))": "omit reduction",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
