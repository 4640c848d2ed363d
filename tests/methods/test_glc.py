"""Gold loss correction written out."""

import numpy as np
import pytest
import torch
from torch import nn

from pyrite.data import Batches
from pyrite.methods import Context, Learner, method
from pyrite.training import fit
from tests.methods.by_hand import (
    LABELS,
    batches,
    cross_entropy,
    learner,
    meta,
    posteriors,
    same_weights,
    step,
    trained,
)


def test_the_two_stages_written_out() -> None:
    trainer = trained("glc(size=15, at=0.4)", 5)

    own, data, gold = learner(0, 2), batches(), meta()
    cross_entropy(own, data, 2)
    shares = posteriors(own, np.arange(40, 55))
    matrix = np.stack([shares[LABELS[40:] == true].mean(0) for true in range(3)])
    np.testing.assert_allclose(trainer.arrays()["matrix"], matrix, rtol=1e-9)
    assert trainer.facts()["estimated_noise_rate"] == pytest.approx(1 - np.trace(matrix) / 3)

    own, corrupted, coming = learner(0, 3), torch.from_numpy(matrix), iter(())
    for _ in range(3):
        for inputs, labels, _ in data:
            more = next(coming, None)
            if more is None:
                coming = iter(gold)
                more = next(coming)
            both = torch.cat([inputs, more.inputs]).double()

            def loss() -> torch.Tensor:
                shares = own.model(both).softmax(1)  # noqa: B023
                noisy = -(shares[:10] @ corrupted)[torch.arange(10), labels].log().sum()  # noqa: B023
                clean = -shares[10:][torch.arange(5), more.labels].log().sum()  # noqa: B023
                # 15 gold samples beside 40, of which 5 are here beside 10.
                return (noisy + clean * (15 / 40) * (10 / 5)) / (10 * (1 + 15 / 40))

            step(own, loss)
    same_weights(trainer, own)


def test_every_sample_counts_the_same() -> None:
    """A net that only has biases ends where the mean over all samples, gold or not, has no gradient."""
    matrix = np.array([[0.7, 0.3], [0.2, 0.8]])
    noisy, gold = np.repeat([0, 1], [26, 14]), np.repeat([0, 1], [9, 1])
    inputs = np.zeros((50, 1), np.float32)
    data = Batches(inputs, np.concatenate([noisy, gold]), batch_size=40, seed=0, index=np.arange(40))
    clean = Batches(inputs, np.concatenate([noisy, gold]), batch_size=10, seed=0, index=np.arange(40, 50))
    net = nn.Linear(1, 2).double()
    own = Learner(net, torch.optim.SGD(net.parameters(), lr=1.0), precision="float64")
    trainer = method("glc(size=10, at=0.001)").start(
        Context(data, lambda number, epochs: own, epochs=1000, classes=2, meta=clean)
    )
    trainer.begin_epoch(1)
    trainer.estimate = lambda first: {"matrix": torch.from_numpy(matrix)}
    fit(trainer, data, 1000)
    bias = net.bias.detach().clone().requires_grad_()
    shares = bias.softmax(0)
    given = shares @ torch.from_numpy(matrix)
    (-(26 * given[0].log() + 14 * given[1].log() + 9 * shares[0].log() + shares[1].log())).backward()
    assert bias.grad is not None
    assert bias.grad.abs().max() < 1e-9


def test_what_is_refused() -> None:
    for spec, words in {"glc(size=1.5)": "size is 1.5", "glc(at=0)": "at is 0"}.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    with pytest.raises(ValueError, match="meta is missing"):
        method("glc").start(Context(batches(), learner, epochs=2, classes=3))
    assert method("glc(size=9)").meta_set == (9, True, False)
