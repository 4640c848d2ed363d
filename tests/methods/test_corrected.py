"""Corrections on a convex problem with a closed form, and the two stages against trainings by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from pyrite.data import Batches
from pyrite.methods import Context, Learner, method
from pyrite.training import fit
from tests.methods.by_hand import batches, cross_entropy, learner, posteriors, same_weights, step, trained

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
    context = Context(
        batches, lambda number, epochs: own, epochs=600, classes=3, noise_matrix=torch.tensor(MATRIX).double()
    )
    fit(method(spec).start(context), batches, 600)
    expected = np.array([0.38, 0.30, 0.32]) @ np.linalg.inv(MATRIX)
    assert expected.min() > 0.1
    np.testing.assert_allclose(net.bias.detach().softmax(0).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_stages_are_a_training_an_estimate_and_a_training(name: str) -> None:
    trainer = trained(f"{name}(percentile=90, at=0.4)", 5)

    data, own = batches(), learner(0, 2)
    cross_entropy(own, data, 2)
    shares = posteriors(own, np.arange(40))
    matrix = np.stack([shares[np.argsort(shares[:, true])[int(0.9 * 39)]] for true in range(3)])
    share = 0.0
    while name == "backward" and np.linalg.cond((1 - share) * matrix + share * np.eye(3)) > 100:
        share += 0.1
    matrix = (1 - share) * matrix + share * np.eye(3)
    np.testing.assert_allclose(trainer.arrays()["matrix"], matrix, rtol=1e-9)
    assert trainer.facts()["estimated_noise_rate"] == pytest.approx(1 - np.trace(matrix) / 3)

    own, noise = learner(0, 3), torch.from_numpy(matrix)
    for _ in range(3):
        for inputs, labels, _ in data:

            def loss() -> torch.Tensor:
                p = own.model(inputs.double()).softmax(1)  # noqa: B023
                every = -(p @ noise).log() if name == "forward" else -p.log() @ torch.linalg.inv(noise).mT
                return every[torch.arange(10), labels].mean()  # noqa: B023

            step(own, loss)
    same_weights(trainer, own)


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
    for spec, words in {
        "forward(matrix=[[1, 0], [0, 1]])": "matrix has 2 rows, but there are 3 classes",
        "forward(matrix='noise')": "the run has no noise: pass a matrix",
        "forward": "epochs is 1, but forward",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec).start(Context(batches(), learner, epochs=1, classes=3))
