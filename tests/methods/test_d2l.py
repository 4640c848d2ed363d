"""Dimensionality-driven learning: dimension of data whose dimension is known, and the algorithm written out by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import pyrite
from pyrite.data import Batches
from pyrite.draws import Stream, order
from pyrite.methods import Context, Learner, method
from pyrite.methods.scheduled import _rises
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(60, 4)).astype(np.float32), ROWS.integers(5, size=60)
EPOCHS, K, WINDOW = 9, 5, 2


class Circles(nn.Module):
    """Angles to points on a product of circles: a manifold without an edge, with one dimension per angle."""

    def __init__(self, angles: int) -> None:
        super().__init__()
        self.head = nn.Linear(2 * angles, 5)

    def embed(self, inputs: Tensor) -> Tensor:
        return torch.cat([inputs.cos(), inputs.sin()], 1)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embed(inputs))
        return scores


@pytest.mark.parametrize(("dimension", "k", "tolerance"), [(1, 20, 0.02), (2, 8, 0.06), (3, 6, 0.13)])
def test_the_dimension_of_data_of_known_dimension(dimension: int, k: int, tolerance: float) -> None:
    """The mean of (k − 1) / Gamma(k − 1, rate d) is d (k − 1) / (k − 2).

    It holds for neighbours that are near. On a circle 20 of 128 are, and a factor of k / (k − 1) would be noticed; with
    more dimensions neighbours are further away and the manifold is curved between them, which adds to the estimate.
    """
    angles = np.random.default_rng(dimension).uniform(0, 2 * np.pi, (5000, dimension)).astype(np.float32)
    data = Batches(angles, np.arange(5000) % 5, seed=0)
    net = Circles(dimension).double()
    own = Learner(net, torch.optim.SGD(net.parameters(), lr=0.1), precision="float64")
    trainer = method(f"d2l(k={k})").start(Context(data, lambda number, epochs: own, epochs=10, classes=5))
    trainer.begin_epoch(1)
    facts = trainer.facts()
    assert facts["lid_of_scores"] == 0
    assert facts["lid"] == pytest.approx(dimension * (k - 1) / (k - 2), rel=tolerance)


def test_where_a_turning_point_is() -> None:
    """σ of [4, 2] is 1, so that the next value must be above 5."""
    assert _rises([4, 2, 5.01], 2, 0)
    assert not _rises([4, 2, 4.99], 2, 0)
    assert not _rises([4, 2, 5.01], 2, 1)
    assert _rises([9, 4, 2, 5.01], 2, 1)
    assert not _rises([4, 2], 2, 0)


def make(embeds: bool) -> Learner:
    if embeds:
        net = pyrite.build_model("mlp(hidden=[12])", (4,), 5, seed=0).double()
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 5)).double()
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), precision="float64")


def dimension(net: nn.Module, points: Tensor, embeds: bool) -> float:
    """The mean over points of (k − 1) / Σ_{i<k} log(r_k / r_i)."""
    with torch.no_grad():
        features = net.eval().embed(points) if embeds else net.eval()(points)
    values = []
    for point in features:
        distances = (features - point).norm(dim=1).sort().values
        near = distances[distances > 0][:K]
        values.append((K - 1) / float((near[-1] / near[:-1]).log().sum()))
    return float(np.mean(values))


def by_hand(embeds: bool) -> tuple[list[Tensor], list[float], int]:
    own, data = make(embeds), Batches(INPUTS, LABELS, batch_size=20, seed=0)
    points = torch.from_numpy(INPUTS[order(0, Stream.EPOCH, 60, 0, 2)]).double()
    found: list[float] = []
    alpha, turned, before = 1.0, 0, {}
    for epoch in range(1, EPOCHS + 1):
        found.append(dimension(own.model, points, embeds))
        earlier = found[-WINDOW - 1 : -1]
        if not turned and epoch > WINDOW and found[-1] > np.mean(earlier) + 2 * np.std(earlier):
            turned = epoch
            own.model.load_state_dict(before)
        before = {name: value.clone() for name, value in own.model.state_dict().items()}
        if turned:
            alpha = np.exp(-(epoch - 1) / EPOCHS * found[-1] / min(found))
        for inputs, labels, _ in data:
            scores = own.model.train()(inputs.double())
            own.optimiser.zero_grad()
            predicted = cross_entropy(scores, scores.detach().argmax(1))
            (alpha * cross_entropy(scores, labels) + (1 - alpha) * predicted).backward()
            own.optimiser.step()
    return [weight.detach() for weight in own.weights], found, turned


@pytest.mark.parametrize("embeds", [True, False])
def test_a_run_is_the_algorithm_by_hand(embeds: bool) -> None:
    data = Batches(INPUTS, LABELS, batch_size=20, seed=0)
    context = Context(data, lambda number, epochs: make(embeds), epochs=EPOCHS, classes=5)
    trainer = method(f"d2l(k={K}, window={WINDOW}, skip=0)").start(context)
    fit(trainer, data, EPOCHS)
    weights, found, turned = by_hand(embeds)
    assert 0 < turned < EPOCHS
    facts = trainer.facts()
    assert facts["turning_point"] == turned
    assert facts["lid"] == pytest.approx(found[-1], rel=1e-7)
    assert facts["lid_of_scores"] == (not embeds)
    for one, other in zip(trainer.learners[0].weights, weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_representations_that_are_all_the_same_have_no_dimension() -> None:
    """Nothing is concluded from them, and the run goes on."""
    data = Batches(np.ones((30, 4), np.float32), np.arange(30) % 5, batch_size=10, seed=0)
    context = Context(data, lambda number, epochs: make(False), epochs=4, classes=5)
    trainer = method("d2l(k=5, window=2)").start(context)
    fit(trainer, data, 4)
    assert trainer.facts() == {"label_share": 1.0, "lid_of_scores": 1.0, "turning_point": 0}


def test_what_is_refused() -> None:
    for spec, words in {"d2l(k=1)": "k is 1", "d2l(window=1)": "window is 1", "d2l(skip=2)": "skip is 2"}.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    data = Batches(INPUTS, LABELS, batch_size=20, seed=0, index=np.arange(20))
    with pytest.raises(ValueError, match="k is 20, but must be below the number of training samples, which is 20"):
        method("d2l").start(Context(data, lambda number, epochs: make(True), epochs=4, classes=5))
