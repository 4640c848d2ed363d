"""Joint optimisation against its two stages written out by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

import pyrite
from pyrite.data import Batches
from pyrite.methods import Context, Learner, Stages, method
from pyrite.methods.past_predictions import joint_objective
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS = ROWS.normal(size=(40, 4)).astype(np.float32)
LABELS = np.r_[np.zeros(12, int), np.arange(28) % 5]


def learner(number: int = 0, epochs: int = 1) -> Learner:
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()
    return Learner(
        net, torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9), lambda step: 1 - step / (4 * epochs),
        precision="float64",
    )  # fmt: skip


def batches() -> Batches:
    return Batches(INPUTS, LABELS, batch_size=10, seed=0)


def naive(scores: Tensor, labels: Tensor, prior: Tensor, alpha: float, beta: float) -> Tensor:
    p = scores.softmax(1)
    fit_term = torch.nn.functional.kl_div(p.log(), labels, reduction="batchmean")
    return fit_term + alpha * (prior * (prior / p.mean(0)).log()).sum() - beta * (p * p.log()).sum(1).mean()


def test_the_objective_is_the_naive_one() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, other = (torch.randn(12, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    prior = torch.tensor([0.4, 0.3, 0.1, 0.1, 0.1], dtype=torch.float64)
    for labels in (other.softmax(1), one_hot(other.argmax(1), 5).double()):
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        values = [make(rows, labels, prior, 1.2, 0.8) for make, rows in ((joint_objective, ours), (naive, theirs))]
        torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=1e-12)
        for value in values:
            value.backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-13)


def test_certain_predictions_are_finite() -> None:
    scores = torch.tensor([[1e4, 0.0, -1e4], [0.0, 1e4, 0.0]], requires_grad=True)
    value = joint_objective(scores, torch.eye(3)[[1, 1]], torch.full((3,), 1 / 3), 1.2, 0.8)
    value.backward()
    assert value.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def by_hand(prior: Tensor) -> tuple[list[Tensor], Tensor]:
    """Four epochs of the first stage, in which labels change from the second on by a mean over two, then two more."""
    data, own = batches(), learner()
    labels = one_hot(torch.from_numpy(LABELS), 5).double()
    kept: list[Tensor] = []
    for epoch in range(1, 5):
        seen = torch.zeros(40, 5, dtype=torch.float64)
        for inputs, _, index in data:
            scores = own.model.train()(inputs.double())
            seen[index] = scores.detach().softmax(1)
            own.optimiser.zero_grad()
            naive(scores, labels[index], prior, 1.2, 0.8).backward()
            own.optimiser.step()
        kept = [*kept, seen][-2:]
        if epoch >= 2:
            labels = (kept[0] + kept[1]) / 2
    own = learner(epochs=2)
    for _ in range(2):
        for inputs, _, index in data:
            own.optimiser.param_groups[0]["lr"] = 0.3 * own.factor_at(own.steps)
            own.optimiser.zero_grad()
            torch.nn.functional.cross_entropy(own.model.train()(inputs.double()), labels[index]).backward()
            own.optimiser.step()
            own.steps += 1
    return [weight.detach() for weight in own.weights], labels


@pytest.mark.parametrize("prior", ["given", "uniform"])
def test_a_run_is_two_stages_by_hand(prior: str) -> None:
    data = batches()
    trainer = method(f"joint(at=0.67, begin=0.5, window=2, prior={prior!r})").start(
        Context(data, learner, epochs=6, classes=5)
    )
    fit(trainer, data, 6)
    frequencies = np.bincount(LABELS) / 40 if prior == "given" else np.full(5, 0.2)
    weights, labels = by_hand(torch.as_tensor(frequencies, dtype=torch.float64))
    assert isinstance(trainer, Stages)
    torch.testing.assert_close(trainer.arrays()["soft_labels"], labels, rtol=1e-8, atol=1e-10)
    for one, other in zip(trainer.learners[0].weights, weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
    changed = (labels.argmax(1).numpy() != LABELS).mean()
    assert 0 < changed < 1
    assert trainer.facts() == {"stage": 2, "relabelled": pytest.approx(changed)}


def test_what_is_refused() -> None:
    for spec, words in {
        "joint(alpha=-1)": "alpha is -1",
        "joint(beta='a')": "beta is 'a'",
        "joint(at=1)": "at is 1",
        "joint(begin=2)": "begin is 2",
        "joint(window=0)": "window is 0",
        "joint(prior='flat')": "prior is 'flat'",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    with pytest.raises(ValueError, match="epochs is 1, but joint"):
        method("joint").start(Context(batches(), learner, epochs=1, classes=5))
