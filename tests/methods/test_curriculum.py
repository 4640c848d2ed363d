"""The curriculum against a root finder, and against its algorithm written out by hand."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

import pyrite
from pyrite.data import Batches
from pyrite.methods import Bench, Learner, method
from pyrite.methods.curriculum import largest_exponent
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 5


def learner(number: int = 0, epochs: int = 1) -> Learner:
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9), precision="float64")


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.8])
def test_the_exponent_is_the_root(keep: float) -> None:
    p = ROWS.uniform(size=200) ** 3
    root = brentq(lambda q: np.mean(p**q) - keep, 0, 50)
    assert largest_exponent(torch.from_numpy(np.log(p)), keep, most=50) == pytest.approx(root, rel=1e-6)
    assert largest_exponent(torch.from_numpy(np.log(p)), keep, most=root / 2) == root / 2


@pytest.mark.parametrize("log_p", [[0.0, 0.0], [-1e-12], []])
def test_labels_that_are_predicted_leave_the_largest_exponent(log_p: list[float]) -> None:
    assert largest_exponent(torch.tensor(log_p, dtype=torch.float64), 0.5, most=0.9) == 0.9


def test_labels_beyond_doubt_and_impossible_ones() -> None:
    """Half of the labels have the probability exp(-1e6): the mean of p^q is 1/2 for any exponent worth the name."""
    assert largest_exponent(torch.tensor([0.0, -1e6], dtype=torch.float64), 0.5, most=1) == 1
    assert largest_exponent(torch.tensor([-1e6], dtype=torch.float64), 0.5, most=1) < 1e-6


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_it_begins_where_all_classes_are_equally_likely(classes: int) -> None:
    data = Batches(INPUTS, LABELS % 2, batch_size=10, seed=0)
    trainer = method("curriculum(most=1)").start(Bench(data, learner, epochs=1, classes=classes))
    assert classes ** -trainer.facts()["exponent"] == pytest.approx(0.5)


def test_a_run_is_the_algorithm_by_hand() -> None:
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    trainer = method("curriculum(keep=0.6)").start(Bench(data, learner, epochs=3, classes=5))
    fit(trainer, data, 3)

    own, q = learner(), -math.log(0.6) / math.log(5)
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
    for _ in range(3):
        for inputs, labels, _index in data:
            p = own.model.train()(inputs.double()).softmax(1).gather(1, labels[:, None]).squeeze(1)
            own.optimiser.zero_grad()
            ((1 - p**q) / q).mean().backward()
            own.optimiser.step()
            rows = p.detach().numpy()
            now = 1.0 if rows.mean() >= 0.6 else brentq(lambda e, rows=rows: np.mean(rows**e) - 0.6, 0, 1)
            q += (now - q) / 50
    for one, other in zip(trainer.learners[0].weights, own.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
    assert trainer.facts()["exponent"] == pytest.approx(q, rel=1e-7)


@pytest.mark.parametrize("argument", ["keep=0", "keep=1", "most=0", "most=2"])
def test_impossible_arguments(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.replace("=", " is ")):
        method(f"curriculum({argument})")
