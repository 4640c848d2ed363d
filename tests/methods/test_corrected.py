"""Corrections on a convex problem with a closed form, and the two stages against trainings by hand."""

import numpy as np
import pytest
import torch
from torch import nn

import pyrite
from pyrite.data import Batches
from pyrite.methods import Bench, Learner, method
from pyrite.training import fit

MATRIX = [[0.8, 0.1, 0.1], [0.0, 0.7, 0.3], [0.2, 0.2, 0.6]]


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("source", ["given", "noise"])
def test_the_minimum_is_the_distribution_of_true_labels(name: str, source: str) -> None:
    """A net that only has biases: where the corrected loss is least, its probabilities p fulfil pT = shares of labels.

    Both corrections have the same minimum, f T⁻¹.
    """
    labels = np.repeat([0, 1, 2], [38, 30, 32])
    batches = Batches(np.zeros((100, 1), np.float32), labels, batch_size=100, seed=0)
    net = nn.Linear(1, 3).double()
    own = Learner(net, torch.optim.SGD(net.parameters(), lr=1.0), precision="float64")
    spec = f"{name}(matrix={MATRIX if source == 'given' else 'noise'!r})"
    bench = Bench(
        batches, lambda number, epochs: own, epochs=600, classes=3, noise_matrix=torch.tensor(MATRIX).double()
    )
    fit(method(spec).start(bench), batches, 600)
    expected = np.array([0.38, 0.30, 0.32]) @ np.linalg.inv(MATRIX)
    assert expected.min() > 0.1
    np.testing.assert_allclose(net.bias.detach().softmax(0).numpy(), expected, atol=1e-9)


ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 3


def learner(number: int, epochs: int) -> Learner:
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 3, seed=number).double()
    return Learner(
        net, torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9), lambda step: 1 - step / (4 * epochs),
        precision="float64",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_stages_are_a_training_an_estimate_and_a_training(name: str) -> None:
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    trainer = method(f"{name}(percentile=90, at=0.4)").start(Bench(data, learner, epochs=5, classes=3))
    fit(trainer, data, 5)

    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    by_hand = learner(0, 2)
    descend(by_hand, pyrite.CE(), data, 2)
    with torch.no_grad():
        shares = by_hand.model.eval()(torch.from_numpy(INPUTS).double()).softmax(1).numpy()
    matrix = np.stack([shares[np.argsort(shares[:, own])[int(0.9 * 39)]] for own in range(3)])
    share = 0.0
    while name == "backward" and np.linalg.cond((1 - share) * matrix + share * np.eye(3)) > 100:
        share += 0.1
    matrix = (1 - share) * matrix + share * np.eye(3)
    np.testing.assert_allclose(trainer.arrays()["matrix"], matrix, rtol=1e-9)
    by_hand = learner(0, 3)
    descend(by_hand, {"forward": pyrite.Forward, "backward": pyrite.Backward}[name](matrix), data, 3)
    for one, other in zip(trainer.learners[0].weights, by_hand.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
    assert trainer.facts()["estimated_noise_rate"] == pytest.approx(1 - np.trace(matrix) / 3)


def descend(own: Learner, loss: pyrite.Loss, data: Batches, epochs: int) -> None:
    for _ in range(epochs):
        for inputs, labels, _ in data:
            own.optimiser.param_groups[0]["lr"] = 0.3 * own.share_at(own.steps)
            own.optimiser.zero_grad()
            loss(own.model.train()(inputs.double()), labels).backward()
            own.optimiser.step()
            own.steps += 1


def test_a_matrix_is_spelled_and_read_again() -> None:
    for text in (
        f"forward(matrix={MATRIX}, curve=gce(q=0.7))",
        "backward(matrix='noise', loss=mae)",
        "forward(at=0.2)",
    ):
        made = method(text)
        assert str(method(str(made))) == str(made)
    assert method(f"forward(matrix={MATRIX})").matrix.tolist() == MATRIX


def test_what_is_refused() -> None:
    for spec, words in {
        "forward(matrix='guess')": "matrix is 'guess'",
        "forward(matrix=[[0.5, 0.6], [0, 1]])": "matrix has row 0",
        "backward(matrix=[[0.5, 0.5], [0.5, 0.5]])": "invertible",
        "forward(percentile=101)": "percentile is 101",
        "backward(at=0)": "at is 0",
        "forward(curve=nce)": "curve is 'nce",
        "backward(loss=ce(reduction='sum'))": "give reduction to the loss around it",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    for spec, words in {
        "forward(matrix=[[1, 0], [0, 1]])": "matrix has 2 rows, but there are 3 classes",
        "forward(matrix='noise')": "no noise is simulated",
        "forward": "epochs is 1, but forward",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec).start(Bench(data, learner, epochs=1, classes=3))
