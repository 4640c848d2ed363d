"""Early-learning regularisation against the naive formula, and against its algorithm written out by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor

import pyrite
from pyrite.data import Batches
from pyrite.methods import Context, Learner, method
from pyrite.methods.past_predictions import elr_penalty
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 5


def learner(number: int = 0, epochs: int = 1) -> Learner:
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9), precision="float64")


def naive(scores: Tensor, targets: Tensor) -> Tensor:
    return torch.log(1 - (scores.softmax(1) * targets).sum(1))


def test_value_and_gradient_are_those_of_the_naive_formula_where_that_is_safe() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 5, dtype=torch.float64, generator=generator)
    # The running mean begins at 0, so that its sum is below 1.
    targets = 0.9 * torch.randn(50, 5, dtype=torch.float64, generator=generator).softmax(1)
    one, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    ours, theirs = elr_penalty(one, 1 - targets), naive(other, targets)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    ours.sum().backward()
    theirs.sum().backward()
    torch.testing.assert_close(one.grad, other.grad, rtol=1e-11, atol=1e-13)
    assert torch.autograd.gradcheck(lambda rows: elr_penalty(rows, 1 - targets), scores.clone().requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_predictions_have_a_finite_value_and_the_limit_of_the_gradient(dtype: torch.dtype) -> None:
    """With p = t and 1 − p = r, 1 − ⟨p, t⟩ is near 2 r, and half of q is on the leading class. Here log r = −gap."""
    for gap in (30.0, 80.0):
        scores = torch.tensor([[gap, 0.0]], dtype=dtype, requires_grad=True)
        rest = torch.sigmoid(torch.tensor([[-gap, gap]], dtype=dtype))
        value = elr_penalty(scores, rest)
        value.sum().backward()
        assert float(value.detach()) == pytest.approx(np.log(2) - gap, rel=1e-6)
        assert scores.grad is not None
        torch.testing.assert_close(scores.grad, torch.tensor([[-0.5, 0.5]], dtype=dtype), rtol=1e-5, atol=0)


def test_a_run_is_the_published_algorithm() -> None:
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    trainer = method("elr(coefficient=2, momentum=0.6)").start(Context(data, learner, epochs=3, classes=5))
    fit(trainer, data, 3)

    own, targets = learner(), torch.zeros(40, 5, dtype=torch.float64)
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    for _ in range(3):
        for inputs, labels, index in data:
            scores = own.model.train()(inputs.double())
            targets[index] = 0.6 * targets[index] + 0.4 * scores.detach().softmax(1)
            loss = torch.nn.functional.cross_entropy(scores, labels) + 2 * naive(scores, targets[index]).mean()
            own.optimiser.zero_grad()
            loss.backward()
            own.optimiser.step()
    for one, other in zip(trainer.learners[0].weights, own.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    agree = (targets.argmax(1) == torch.from_numpy(LABELS)).double().mean()
    assert trainer.facts()["target_is_label"] == pytest.approx(float(agree))


def test_no_sample_weighs_more_than_its_strength() -> None:
    """Half the L1 norm of the gradient by the scores, over scores and targets of any spread."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.logspace(-1, 1.5, 2000, dtype=torch.float64).unsqueeze(1)
    scores, mean = (spread * torch.randn(2000, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    labels = torch.arange(2000) % 5
    for coefficient in (0.5, 3.0):
        rows = scores.clone().requires_grad_()
        cost = pyrite.CE(reduction="sum")(rows, labels) + coefficient * elr_penalty(rows, 1 - mean.softmax(1)).sum()
        cost.backward()
        assert rows.grad is not None
        weight = rows.grad.abs().sum(1).max() / 2
        bound = method(f"elr(coefficient={coefficient})").largest_weight
        assert 0.9 * bound < float(weight) <= bound + 1e-9


def test_what_is_refused() -> None:
    for spec, words in {"elr(coefficient=-1)": "coefficient is -1", "elr(momentum=1)": "momentum is 1"}.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
