"""Sparse over-parameterisation against autograd of the printed formulas."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from pyrite.data import Batches, CropFlip
from pyrite.methods import Context, Learner, method
from pyrite.methods.over_parameterised import over_parameterised
from pyrite.training import fit

ROWS = np.random.default_rng(0)
IMAGES, LABELS = ROWS.integers(256, size=(40, 1, 4, 4), dtype=np.uint8), ROWS.integers(3, size=40)


def batches() -> Batches:
    return Batches(IMAGES, LABELS, batch_size=10, seed=0, augment=CropFlip(pad=1))


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()


def learner(number: int, epochs: int) -> Learner:
    own = net()
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.3, momentum=0.9), precision="float64")


def printed(scores: Tensor, labels: Tensor, u: Tensor, v: Tensor) -> Tensor:
    given = one_hot(labels, scores.shape[1])
    parts = (scores.softmax(1) + u.unsqueeze(1) ** 2 * given - v**2 * (1 - given)).clamp(min=0)
    return -((given * parts).sum(1) / parts.sum(1)).log()


def rows(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores, v = torch.randn(2, count, 5, dtype=torch.float64, generator=generator)
    return 2 * scores, torch.arange(count) % 5, v[:, 0] / 2, 0.4 * v


def test_value_and_gradient_are_those_of_the_printed_formula() -> None:
    scores, labels, u, v = rows(200)
    one, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    ours, theirs = over_parameterised(one.log_softmax(1), labels, u, v), printed(other, labels, u, v)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    ours.sum().backward()
    theirs.sum().backward()
    torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-13)
    nothing = torch.zeros(200, dtype=torch.float64), torch.zeros(200, 5, dtype=torch.float64)
    expected = cross_entropy(scores, labels, reduction="none")
    torch.testing.assert_close(over_parameterised(scores.log_softmax(1), labels, *nothing), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("first", [1e-8, 0.5, 1.0])
def test_extreme_scores_have_finite_values_and_gradients(dtype: torch.dtype, first: float) -> None:
    scores = torch.tensor([[1e4, 0, -1e4], [-1e4, 0, 1e4], [0, 0, 0]], dtype=dtype, requires_grad=True)
    u, v = torch.full((3,), first, dtype=dtype), torch.full((3, 3), first, dtype=dtype)
    losses = over_parameterised(scores.log_softmax(1), torch.zeros(3, dtype=torch.long), u, v)
    losses.sum().backward()
    assert losses.isfinite().all()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert losses[0] < 1e-37
    if first == 1e-8:  # u² explains 1e-16, so the loss is bounded where that of cross entropy is 2e4
        assert float(losses[1].detach()) == pytest.approx(16 * np.log(10), rel=1e-6)


@pytest.mark.parametrize("plus", [False, True])
def test_a_run_is_the_printed_algorithm(plus: bool) -> None:
    factors = (0.9, 0.1) if plus else (0.0, 0.0)
    data = batches()
    spec = f"sop(lr_u=2, lr_v=3, consistency={factors[0]}, balance={factors[1]})"
    trainer = method(spec).start(Context(data, learner, epochs=3, classes=3))
    first = 0.3  # with 1e-8, three epochs would not show u and v
    trainer.get_buffer("u").fill_(first)
    trainer.get_buffer("v").fill_(first)
    fit(trainer, data, 3)

    own, data = net(), batches()
    u = torch.full((40,), first, dtype=torch.float64, requires_grad=True)
    v = torch.full((40, 3), first, dtype=torch.float64, requires_grad=True)
    weights = torch.optim.SGD(own.parameters(), lr=0.3, momentum=0.9)
    of_u, of_v = torch.optim.SGD([u], lr=2), torch.optim.SGD([v], lr=3)
    for _ in range(3):
        for inputs, labels, index in data:
            for optimiser in (weights, of_u, of_v):
                optimiser.zero_grad()
            scores, given = own(inputs.double()), one_hot(labels, 3)
            loss = printed(scores, labels, u[index], v[index].detach()).mean()
            predicted = one_hot(scores.argmax(1), 3)
            s = u[index].detach().unsqueeze(1) ** 2 * given - v[index] ** 2 * (1 - given)
            squared = ((predicted + s - given) ** 2).sum(1).mean()
            if plus:
                p, second = scores.softmax(1), own(data.again(index).double()).softmax(1)
                fixed = p.detach()
                loss = loss + 0.9 * (fixed * (fixed / second).log()).sum(1).mean()
                loss = loss + 0.1 * (1 / 3 * (1 / 3 / p.mean(0)).log()).sum()
            (loss + squared).backward()
            for optimiser in (weights, of_u, of_v):
                optimiser.step()
            with torch.no_grad():
                u.clamp_(-1, 1)
                v.clamp_(-1, 1)
    for ours, theirs in zip(trainer.learners[0].weights, own.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(trainer.get_buffer("u"), u.detach(), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(trainer.get_buffer("v"), v.detach(), rtol=1e-9, atol=1e-11)
    assert trainer.facts() == {"explained_by_u": pytest.approx(float((u**2 > 0.5).double().mean()))}


def test_u_takes_up_labels_that_contradict_the_net() -> None:
    """A net that is sure of class 0: the wrong labels are explained by u, and those that fit it are not."""
    data = Batches(np.zeros((20, 2), np.float32), np.arange(20) // 10, batch_size=20, seed=0)

    def sure(number: int, epochs: int) -> Learner:
        own = nn.Linear(2, 2).double()
        with torch.no_grad():
            own.bias.copy_(torch.tensor([6.0, 0.0]))
        return Learner(own, torch.optim.SGD(own.parameters(), lr=1e-3), precision="float64")

    trainer = method("sop").start(Context(data, sure, epochs=12, classes=2))
    fit(trainer, data, 12)
    u = trainer.get_buffer("u").square()
    assert u[:10].max() < 0.01
    assert u[10:].min() > 0.5
    assert trainer.facts() == {"explained_by_u": 0.5}


def test_what_is_refused() -> None:
    for spec, words in {"sop(lr_u=-1)": "lr_u is -1", "sop(consistency=-1)": "consistency is -1"}.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
