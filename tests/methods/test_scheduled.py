"""Losses with a coefficient that follows a schedule, against training loops written by hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

import pyrite
from pyrite.data import Batches
from pyrite.methods import Context, Learner, method
from pyrite.methods.scheduled import ramped
from pyrite.training import fit
from tests.training.together import features

ROWS = np.random.default_rng(0)
INPUTS = ROWS.normal(size=(40, 4)).astype(np.float32)
LABELS = np.r_[np.zeros(16, int), np.ones(9, int), np.arange(15) % 5]
EPOCHS = 5


def learner(number: int = 0, epochs: int = 1) -> Learner:
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), precision="float64")


def soft(scores: Tensor, labels: Tensor, epoch: int) -> Tensor:
    """The target depends on the scores, and the gradient goes through it: Reed's soft objective is an entropy."""
    beta = 1.0 if epoch <= 2 else 0.9
    target = beta * one_hot(labels, 5).double() + (1 - beta) * scores.softmax(1)
    return -(target * scores.log_softmax(1)).sum(1).mean()


def hard(scores: Tensor, labels: Tensor, epoch: int) -> Tensor:
    beta = 1.0 if epoch <= 1 else 0.8
    return beta * cross_entropy(scores, labels) + (1 - beta) * cross_entropy(scores, scores.detach().argmax(1))


def peer(scores: Tensor, labels: Tensor, epoch: int) -> Tensor:
    alpha = [0, 0, 0.4, 0.8, 0.8][epoch - 1]
    return cross_entropy(scores, labels) - alpha * cross_entropy(scores.roll(-1, 0), labels.roll(-2))


def confidence(scores: Tensor, labels: Tensor, epoch: int) -> Tensor:
    beta = [0, 0, 0.3, 0.6, 0.6][epoch - 1]
    prior = torch.from_numpy(np.bincount(LABELS) / 40)
    return cross_entropy(scores, labels) + beta * (prior * scores.log_softmax(1)).sum(1).mean()


@pytest.mark.parametrize(
    ("spec", "objective"),
    [
        ("bootstrap(kind='soft', beta=0.9, warmup=0.4)", soft),
        ("bootstrap", hard),
        ("peer(alpha=0.8, warmup=0.2, ramp=0.4)", peer),
        ("confidence(beta=0.6, warmup=0.2, ramp=0.4)", confidence),
    ],
)
def test_a_run_is_descent_on_the_loss_of_each_epoch(
    spec: str, objective: Callable[[Tensor, Tensor, int], Tensor]
) -> None:
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    trainer = method(spec).start(Context(data, learner, epochs=EPOCHS, classes=5))
    fit(trainer, data, EPOCHS)

    own, data = learner(), Batches(INPUTS, LABELS, batch_size=10, seed=0)
    for epoch in range(1, EPOCHS + 1):
        for inputs, labels, _ in data:
            own.optimiser.zero_grad()
            objective(own.model.train()(inputs.double()), labels, epoch).backward()
            own.optimiser.step()
    for one, other in zip(trainer.learners[0].weights, own.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["bootstrap", "peer", "confidence", "d2l(k=5)", "elr", "joint"])
def test_what_is_said_of_an_epoch_hides_nothing_of_the_history(name: str, tmp_path: Path) -> None:
    """The history has entries of its own, alpha among them."""
    plain, own = (
        pyrite.train(features(), method=spec, epochs=2, batch_size=11, out=tmp_path / str(number), progress=False)
        for number, spec in enumerate(("erm(ce)", name))
    )
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    trainer = method(name).start(Context(data, learner, epochs=2, classes=5))
    trainer.begin_epoch(1)
    assert not set(trainer.facts()) & set(plain.history[0])
    assert set(own.history[0]) == set(plain.history[0]) | set(trainer.facts())


def test_the_schedule_of_cores() -> None:
    """0 for 10 of 100 epochs, to 2 within 30, then 2."""
    values = [*map(ramped(0, 2, 0.1, 0.3, epochs=100), range(1, 101))]
    assert values[:11] == [0] * 11
    np.testing.assert_allclose(np.diff(values[10:41]), 2 / 30)
    assert values[40:] == [2] * 60


def test_a_jump_comes_after_the_warm_up_whatever_its_rounding() -> None:
    for epochs, warmup, first in ((30, 0.1, 4), (10, 0.3, 4), (7, 0.0, 1), (5, 1.0, 6)):
        value_at = ramped(1, 0.5, warmup, 0, epochs)
        assert [value_at(epoch) == 0.5 for epoch in range(1, 7)] == [epoch >= first for epoch in range(1, 7)]


def test_above_1_confidence_in_a_wrong_class_pays() -> None:
    """The reason for the default: the loss of a certain, wrong prediction against that of an even one."""
    labels, even = torch.tensor([0]), torch.zeros(1, 5, dtype=torch.float64)
    wrong = torch.tensor([[0.0, 50.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    for beta, pays in ((1.0, False), (2.0, True)):
        loss = pyrite.loss(f"confidence(ce, beta={beta})")
        assert bool(loss(wrong, labels) < loss(even, labels)) == pays


def test_the_method_and_the_loss_of_one_name() -> None:
    assert str(method("peer(gce(q=0.7), alpha=2)")) == "peer(gce(q=0.7), alpha=2, warmup=0.06, ramp=0.94)"
    assert str(method("erm(peer(ce))")) == "erm(peer(ce, alpha=1))"


def test_what_is_refused() -> None:
    for spec, words in {
        "bootstrap(kind='firm')": "kind is 'firm'",
        "bootstrap(beta=2)": "beta is 2",
        "bootstrap(warmup=-1)": "warmup is -1",
        "peer(3)": "loss is 3",
        "peer(alpha=-1)": "alpha is -1",
        "peer(warmup=0.5, ramp=0.6)": "ramp is 0.6, but must be a fraction of the run, from 0 to 0.5",
        "peer(ce(ignore_index=3))": "give ignore_index to the loss around it",
        "confidence(beta='a')": "beta is 'a'",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
