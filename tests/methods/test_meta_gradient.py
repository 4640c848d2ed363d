"""The meta-gradient against differentiating twice, against differences of the whole thing, and in expectation."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import pyrite
from pyrite.methods import WeightNet, meta_gradient
from pyrite.methods.meta_gradient import normalised_weights
from pyrite.models import build_model
from tests.methods.double_backward import double_backward

D = torch.float64


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 16), nn.Linear(16, 3)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.layer(self.first(inputs)).mean(1))


def problem(name: str) -> tuple[nn.Module, nn.Module, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    shape = {"mlp": (6,), "transformer": (4, 6)}.get(name, (3, 8, 8))
    spec = {"cnn": "fast_cnn(widths=[8, 8])", "wrn": "wrn(depth=10, width=1, dropout=0.3)", "mlp": "mlp(hidden=[16])"}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Transformer() if name == "transformer" else build_model(spec[name], shape, 3, seed=0)
        weight_net = WeightNet(10).to(D)
        batch, meta = ((torch.randn(count, *shape, dtype=D), torch.randint(0, 3, (count,))) for count in (20, 15))
    return net.to(D).train(), weight_net, batch, meta


@pytest.mark.parametrize("normalise", ["mean", "sum"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "wrn", "transformer"])
def test_equals_differentiating_twice(name: str, normalise: str) -> None:
    net, weight_net, batch, meta = problem(name)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    state = torch.get_rng_state()
    found = meta_gradient(net, weight_net, batch, meta, lr=0.3, normalise=normalise)  # type: ignore[arg-type]
    gradients, products = double_backward(net, weight_net, batch, meta, lr=0.3, normalise=normalise)
    largest = max(float(part.abs().max()) for part in gradients)
    for mine, theirs in zip(found.gradients, gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12 * largest)
    assert [part.shape for part in found.gradients] == [weight.shape for weight in weight_net.parameters()]
    torch.testing.assert_close(found.products, products, rtol=1e-12, atol=1e-13)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert all(weight.grad is None for weight in (*net.parameters(), *weight_net.parameters()))


class Tied(nn.Module):
    """A module under two names, and a weight that two modules share."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.third, self.head = (
            nn.Linear(6, 6),
            nn.BatchNorm1d(6),
            nn.Linear(6, 6),
            nn.Linear(6, 3),
        )
        self.again, self.norm_again, self.third.weight = self.first, self.norm, self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.norm_again(torch.tanh(self.again(self.norm(self.first(inputs)))))
        return self.head(torch.tanh(self.third(hidden)))


def test_shared_weights_stay_in_the_net() -> None:
    """The same function with each module once, and its weight passed on by hand, is the one that is compared with."""
    _, weight_net, batch, meta = problem("mlp")
    torch.manual_seed(0)
    net = Tied().to(D)
    before, identities = (
        {key: value.clone() for key, value in net.state_dict().items()},
        list(map(id, net.parameters())),
    )

    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.bias, self.head = net.first, net.norm, net.third.bias, net.head

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.norm(torch.tanh(self.first(self.norm(self.first(inputs)))))
            return self.head(torch.tanh(nn.functional.linear(hidden, self.first.weight, self.bias)))

    found, wanted = (meta_gradient(model, weight_net, batch, meta, lr=0.3) for model in (net, Once()))
    torch.testing.assert_close(found.products, wanted.products, rtol=1e-9, atol=1e-12)
    assert list(map(id, net.parameters())) == identities
    assert net.again is net.first
    assert net.third.weight is net.first.weight
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


def test_equals_the_change_of_the_meta_loss() -> None:
    """Not a line of the code under test: the virtual step is made, and the meta loss is measured on both sides."""
    net, weight_net, (x, y), (u, v) = problem("mlp")
    found = meta_gradient(net, weight_net, (x, y), (u, v), lr=0.3, meta_loss=pyrite.CE(), normalise="mean")
    ce = nn.CrossEntropyLoss(reduction="none")

    def meta_loss() -> float:
        twin = build_model("mlp(hidden=[16])", (6,), 3, seed=0).to(D).train()
        twin.load_state_dict(net.state_dict())
        losses = ce(twin(x), y)
        with torch.no_grad():
            weights = weight_net(losses.unsqueeze(1)).squeeze(1)
        (losses * weights).mean().backward()
        moved = {name: weight - 0.3 * weight.grad for name, weight in twin.named_parameters()}  # type: ignore[operator]
        return float(ce(functional_call(twin, moved, (u,)), v).mean().detach())

    for weight, gradient in zip(weight_net.parameters(), found.gradients, strict=True):
        flat, wanted = weight.data.view(-1), gradient.view(-1)
        place = int(wanted.abs().argmax())
        ends = []
        for step in (1e-5, -2e-5):
            flat[place] += step
            ends.append(meta_loss())
        flat[place] += 1e-5
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(wanted[place]), rel=1e-5)


def test_weights_divided_by_their_sum_are_whole() -> None:
    weights = torch.tensor([0.2, 0.6], dtype=D)
    assert normalised_weights(weights, "sum").tolist() == pytest.approx([0.25, 0.75])
    assert normalised_weights(weights, "mean").tolist() == pytest.approx([0.1, 0.3])
    assert normalised_weights(torch.zeros(2), "sum").tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("loss", "holds"), [("mae", True), ("ce", False)])
def test_theorem_1(loss: str, holds: bool) -> None:
    """Uniform noise of rate η on the meta labels shortens the expected meta-gradient to 1 − η of the clean one if the
    meta loss is symmetric, and otherwise turns it.

    The direction G is linear in what each meta label contributes, so the mean over noise draws is compared with its
    standard error, number by number.
    """
    net, weight_net, batch, (u, v) = problem("mlp")
    rate, draws = 0.6, 400
    generator = torch.Generator().manual_seed(1)
    criterion = pyrite.loss(loss)

    def products(labels: Tensor) -> Tensor:
        return meta_gradient(net, weight_net, batch, (u, labels), lr=0.1, meta_loss=criterion).products

    clean = products(v)
    found = []
    for _ in range(draws):
        drawn = torch.randint(0, 3, v.shape, generator=generator)
        flips = torch.rand(v.shape, generator=generator) < rate
        found.append(products(torch.where(flips, drawn, v)))
    noisy = torch.stack(found)
    error = noisy.std(0) / draws**0.5
    away = (noisy.mean(0) - (1 - rate) * clean).abs() / error
    # 20 numbers that hang together: 4 standard errors leave room for chance, and cross entropy is further off.
    assert bool((away < 4).all()) is holds, away
