"""Stages against two trainings one after the other, written by hand."""

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import Batches
from pyrite.methods import ERM, Context, Learner, Method, Staged, Trainer, method
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 5


def learner(number: int, epochs: int) -> Learner:
    """A schedule that falls over the epochs it is given, so that its length matters."""
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()
    return Learner(
        net, torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9), lambda step: 1 - step / (4 * epochs),
        precision="float64",
    )  # fmt: skip


def batches() -> Batches:
    return Batches(INPUTS, LABELS, batch_size=10, seed=0)


def trained(spec: str, epochs: int) -> list[torch.Tensor]:
    data = batches()
    trainer = method(spec).start(Context(data, learner, epochs=epochs, classes=5))
    fit(trainer, data, epochs)
    return [weight.detach() for weight in trainer.learners[0].weights]


def by_hand(stages: list[tuple[pyrite.Loss, int]], *, restart: bool) -> list[torch.Tensor]:
    own, data = learner(0, sum(epochs for _, epochs in stages)), batches()
    for loss, epochs in stages:
        if restart:
            own = learner(0, epochs)
        for _ in range(epochs):
            for inputs, labels, _ in data:
                for group in own.optimiser.param_groups:
                    group["lr"] = 0.3 * own.factor_at(own.steps)
                own.optimiser.zero_grad()
                loss(own.model.train()(inputs.double()), labels).backward()
                own.optimiser.step()
                own.steps += 1
    return [weight.detach() for weight in own.weights]


@pytest.mark.parametrize("restart", [False, True])
def test_two_stages_are_two_trainings(restart: bool) -> None:
    ours = trained(f"staged(erm(ce), erm(mae), at=0.4, restart={restart})", 5)
    theirs = by_hand([(pyrite.CE(), 2), (pyrite.MAE(), 3)], restart=restart)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


class Counting(Method):
    """Cross entropy, with a record of the epochs that its trainer was told of."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def start(self, context: Context) -> Trainer:
        return CountingTrainer(self.epochs, context)


class CountingTrainer(Trainer):
    def __init__(self, epochs: list[int], context: Context) -> None:
        super().__init__(context)
        self.epochs = epochs

    def begin_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


def test_every_stage_counts_its_epochs_from_1() -> None:
    first, then, data = Counting(), Counting(), batches()
    fit(Staged(first, then, at=0.4).start(Context(data, learner, epochs=5, classes=5)), data, 5)
    assert (first.epochs, then.epochs) == ([1, 2], [1, 2, 3])


def test_what_is_refused() -> None:
    for spec, words in {
        "staged(ce, erm(ce))": "first is CE",
        "staged(erm(ce), erm(ce), at=1)": "at is 1",
        "staged(erm(ce), erm(ce), restart=3)": "restart is 3",
        "staged(l2rw(size=3), l2rw(size=4))": "different meta sets",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    with pytest.raises(ValueError, match="epochs is 1, but staged"):
        Staged(ERM(pyrite.CE()), ERM(pyrite.MAE())).start(Context(batches(), learner, epochs=1, classes=5))
