"""A weight network as a curve, against the network itself and against quadrature."""

import mpmath
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from pyrite.curves import CE, WeightNetCurve
from pyrite.methods import WeightNet


def network(hidden: int = 20, scale: float = 3.0) -> tuple[WeightNet, WeightNetCurve]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = WeightNet(hidden).double()
    for weight in net.parameters():
        weight.data *= scale
    return net, WeightNetCurve(parameters_to_vector(net.parameters()).detach())


@torch.no_grad()
def test_weighs_as_the_network_does() -> None:
    net, curve = network()
    margin = torch.linspace(-40, 40, 999, dtype=torch.float64)
    trust = net(CE().value_at(margin).unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(curve.trust(CE().value_at(margin)), trust, rtol=1e-12, atol=0)
    torch.testing.assert_close(curve.weight_at(margin), trust * CE().weight_at(margin), rtol=1e-11, atol=0)


@pytest.mark.parametrize("margin", [-20.0, -3.0, 0.0, 4.0])
@torch.no_grad()
def test_value_is_the_integral_of_the_network(margin: float) -> None:
    net, curve = network(hidden=5)
    loss = float(mpmath.log1p(mpmath.exp(-margin)))
    inner = [float(kink) for kink in curve.kinks if 0 < kink < loss]

    def trust(u: mpmath.mpf) -> mpmath.mpf:
        hidden = [max(0, float(w) * u + float(b)) for w, b in zip(net.first.weight[:, 0], net.first.bias, strict=True)]
        z = sum(float(w) * h for w, h in zip(net.last.weight[0], hidden, strict=True)) + float(net.last.bias)
        return 1 / (1 + mpmath.exp(-z))

    wanted = mpmath.quad(trust, [0, *inner, loss])
    assert float(curve.value_at(torch.tensor(margin, dtype=torch.float64))) == pytest.approx(float(wanted), rel=1e-10)


def test_a_level_network_is_a_multiple_of_cross_entropy() -> None:
    curve = WeightNetCurve([1.0, 0.0, 0.0, 0.0])
    margin = torch.linspace(-5, 5, 11, dtype=torch.float64)
    torch.testing.assert_close(curve.value_at(margin), CE().value_at(margin) / 2)
    with pytest.raises(ValueError, match="3 per hidden unit"):
        WeightNetCurve([1.0, 2.0, 3.0])
