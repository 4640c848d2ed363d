"""Co-teaching against the published algorithm, written out for two nets."""

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


def net(number: int) -> nn.Module:
    return build_model("mlp(hidden=[7])", (4,), 3, seed=number).double()


def learner(number: int, epochs: int) -> Learner:
    own = net(number)
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.9), precision="float64")


def test_each_net_learns_what_is_small_for_the_other() -> None:
    batches = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    trainer = method("co_teaching(rate=0.4, ramp=2)").start(Context(batches, learner, epochs=3, classes=3))
    nets = [net(0), net(1)]
    optimisers = [torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.9) for own in nets]
    ce = nn.functional.cross_entropy
    for epoch, keep in enumerate((8, 6, 6), 1):  # of 10: the rate grows over two epochs
        trainer.begin_epoch(epoch)
        for batch in Batches(INPUTS, LABELS, batch_size=10, seed=epoch):
            step = trainer.step(batch)
            scores = [own.train()(batch.inputs.double()) for own in nets]
            order = [ce(rows, batch.labels, reduction="none").argsort()[:keep] for rows in scores]
            for optimiser, rows, of_other in zip(optimisers, scores, reversed(order), strict=True):
                optimiser.zero_grad()
                ce(rows[of_other], batch.labels[of_other]).backward()  # a mean over the kept: divided once
                optimiser.step()
            assert step.trust is not None
            assert sorted(step.trust.nonzero().flatten().tolist()) == sorted(order[1].tolist())
        trainer.end_epoch()
        assert trainer.facts() == {"forget_rate": pytest.approx(1 - keep / 10), "noise_rate_given": 0.4}
    for mine, theirs in zip(trainer.learners, nets, strict=True):
        for one, other in zip(mine.weights, theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_the_share_is_exact_and_ties_go_to_lower_numbers() -> None:
    index = torch.tensor([7, 3, 9, 1])
    assert with_smallest(torch.ones(4), 2, index).tolist() == [0, 1, 0, 1]
    assert with_smallest(torch.tensor([4.0, 3.0, float("nan"), 1.0]), 3, index).tolist() == [1, 1, 0, 1]
    assert with_smallest(torch.ones(4), 0, index).sum() == 1
    context = Context(Batches(INPUTS, LABELS, batch_size=20, seed=0), learner, epochs=1, classes=3)
    trainer = method("co_teaching(rate=0.9, ramp=1)").start(context)
    trainer.begin_epoch(1)
    trust = trainer.step(next(iter(context.batches))).trust
    assert trust is not None
    assert trust.sum() == 2  # 1 - 0.9 is less than 0.1


def test_what_is_refused() -> None:
    for spec, words in {
        "co_teaching(rate=1)": "rate is 1",
        "co_teaching(ramp=0)": "ramp is 0",
        "co_teaching(loss=peer(ce))": "depends on others",
        "co_teaching(loss=3)": "loss is 3",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)

    def pieces(number: int, epochs: int) -> Learner:
        own = net(number)
        return Learner(own, torch.optim.SGD(own.parameters(), lr=0.2), accumulate=2)

    with pytest.raises(ValueError, match="accumulate is 2"):
        method("co_teaching").start(Context(Batches(INPUTS, LABELS, seed=0), pieces, epochs=1, classes=3))
