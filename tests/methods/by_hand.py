"""Small parts for methods that tests write out as loops: data, a net whose schedule matters, and one step."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

import pyrite
from pyrite.data import Batches
from pyrite.methods import Context, Learner, Trainer, method
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(55, 4)).astype(np.float32), ROWS.integers(3, size=55)
RATE = 0.3


def learner(number: int, epochs: int) -> Learner:
    """With a batch norm and momentum, and a learning rate that falls over the epochs it is made for."""
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 3, seed=number).double()
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9, weight_decay=0.01)
    return Learner(net, optimiser, lambda step: 1 - step / (4 * epochs), precision="float64")


def batches() -> Batches:
    """40 samples in 4 batches."""
    return Batches(INPUTS, LABELS, batch_size=10, seed=0, index=np.arange(40))


def meta() -> Batches:
    """The other 15 in 3 batches."""
    return Batches(INPUTS, LABELS, batch_size=5, seed=0, index=np.arange(40, 55))


def trained(spec: str, epochs: int, **options: Tensor) -> Trainer:
    data = batches()
    trainer = method(spec).start(Context(data, learner, epochs=epochs, classes=3, meta=meta(), **options))
    fit(trainer, data, epochs)
    return trainer


def step(own: Learner, loss: Callable[[], Tensor]) -> None:
    """One step of the optimiser at the schedule's learning rate."""
    for group in own.optimiser.param_groups:
        group["lr"] = RATE * own.factor_at(own.steps)
    own.optimiser.zero_grad()
    own.model.train()
    loss().backward()
    own.optimiser.step()
    own.steps += 1


def cross_entropy(own: Learner, data: Batches, epochs: int) -> None:
    for _ in range(epochs):
        for inputs, labels, _ in data:
            step(own, lambda: torch.nn.functional.cross_entropy(own.model(inputs.double()), labels))  # noqa: B023


def posteriors(own: Learner, index: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        shares: np.ndarray = own.model.eval()(torch.from_numpy(INPUTS[index]).double()).softmax(1).numpy()
    return shares


def same_weights(trainer: Trainer, own: Learner) -> None:
    for one, other in zip(trainer.learners[0].model.parameters(), own.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
