"""ELR+ against its algorithm with the printed formulas, written out for two nets and their averages."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.stats import beta
from torch import nn
from torch.nn.functional import one_hot

import pyrite
from pyrite.data import Batches
from pyrite.draws import Stream, uniforms
from pyrite.methods import Context, Learner, method
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 5


def batches() -> Batches:
    return Batches(INPUTS, LABELS, batch_size=10, seed=2)


def net(number: int) -> nn.Module:
    return pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()


def learner(number: int, epochs: int) -> Learner:
    own = net(number)
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.3, momentum=0.9), precision="float64")


def test_a_run_is_the_published_algorithm() -> None:
    data = batches()
    spec = "elr_plus(coefficient=2, momentum=0.6, alpha=1.5, decay=0.5)"
    trainer = method(spec).start(Context(data, learner, epochs=6, classes=5))
    fit(trainer, data, 6)

    nets, data, steps = [net(0), net(1)], batches(), 0
    averages = deepcopy(nets)
    optimisers = [torch.optim.SGD(own.parameters(), lr=0.3, momentum=0.9) for own in nets]
    targets = torch.zeros(2, 40, 5, dtype=torch.float64)
    for _ in range(6):
        for inputs, labels, index in data:
            x, y = inputs.double(), one_hot(labels, 5).double()
            for number, (own, optimiser) in enumerate(zip(nets, optimisers, strict=True)):
                with torch.no_grad():
                    predicted = averages[1 - number].eval()(x).softmax(1)
                targets[number, index] = 0.6 * targets[number, index] + 0.4 * predicted
                drawn = uniforms(2, Stream.MIXUP, 11, steps, number)
                part = beta.ppf(drawn[0], 1.5, 1.5)
                part = max(part, 1 - part)
                other = drawn[1:].argsort(kind="stable")
                t = targets[number, index]
                mixed, mixed_y, mixed_t = (part * rows + (1 - part) * rows[other] for rows in (x, y, t))
                p = own.train()(mixed).softmax(1)
                loss = -(mixed_y * p.log()).sum(1).mean() + 2 * (1 - (p * mixed_t).sum(1)).log().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            steps += 1
            for average, own in zip(averages, nets, strict=True):
                fraction = 1 / (1 + min(1, 0.1 * steps))  # a decay of 0.5, after a tenth of the steps so far
                for mean, value in zip(average.state_dict().values(), own.state_dict().values(), strict=True):
                    mean.copy_(mean + fraction * (value - mean) if mean.is_floating_point() else value)
    found = [*trainer.learners[0].model.parameters(), *trainer.predictors[0].parameters()]
    found += [*trainer.learners[1].model.parameters(), *trainer.predictors[1].parameters()]
    expected = [*nets[0].parameters(), *averages[0].parameters(), *nets[1].parameters(), *averages[1].parameters()]
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)  # inputs are mixed in float32
    agree = (targets.argmax(2) == torch.from_numpy(LABELS)).double().mean()
    assert trainer.facts() == {"target_is_label": pytest.approx(float(agree))}


def test_what_is_refused() -> None:
    for spec, words in {"elr_plus(decay=1)": "decay is 1", "elr_plus(alpha=0)": "alpha is 0"}.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
