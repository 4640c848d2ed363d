"""Bilevel learning against the weights and the step written out."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pyrite.data import Batch, Batches
from pyrite.methods import Context, Learner, method
from pyrite.methods.bilevel import stratified_splits
from pyrite.models import build_model

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 4


def net() -> nn.Module:
    return build_model("mlp(hidden=[7])", (4,), 4, seed=0).double()


def learner(number: int, epochs: int) -> Learner:
    own = net()
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.9), precision="float64")


def gradient(own: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    loss = nn.functional.cross_entropy(own(inputs.double()), labels)
    return torch.autograd.grad(loss, list(own.parameters()))


def test_a_step_is_that_of_the_formula() -> None:
    trainer = method("bilevel(splits=4, mu=0.05)").start(
        Context(Batches(INPUTS, LABELS, batch_size=16, seed=0), learner, epochs=1, classes=4)
    )
    own = net().train()
    optimiser = torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.9)
    for turn, batch in zip(range(2), Batches(INPUTS, LABELS, batch_size=16, seed=0), strict=False):
        numbers = stratified_splits(batch.labels, batch.index, 4, turn)
        parts = [gradient(own, batch.inputs[numbers == k], batch.labels[numbers == k]) for k in range(4)]
        flat = [torch.cat([part.flatten() for part in one]) for one in parts]
        raw = torch.stack([flat[0] @ one / (one @ one + 0.05) for one in flat[1:]])
        weights = raw / raw.abs().sum()
        for place, weight in enumerate(own.parameters()):
            weight.grad = sum(w * one[place] for w, one in zip(weights, parts[1:], strict=True))  # type: ignore[assignment]
        optimiser.step()
        step = trainer.step(batch)
        assert step.index.tolist() == batch.index.tolist()
        assert (step.weight[numbers == 0] == 0).all()
    for one, other in zip(trainer.learners[0].weights, own.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    for name, value in own.named_buffers():
        torch.testing.assert_close(dict(trainer.learners[0].model.named_buffers())[name], value)


def test_splits_have_the_same_labels_and_take_turns_at_validation() -> None:
    batch = Batch(torch.zeros(16, 1), torch.arange(16) % 4, torch.from_numpy(ROWS.permutation(16)))
    seen = []
    for turn in range(4):
        numbers = stratified_splits(batch.labels, batch.index, 4, turn)
        assert numbers.bincount().tolist() == [4, 4, 4, 4]
        assert all(sorted(batch.labels[numbers == k].tolist()) == [0, 1, 2, 3] for k in range(4))
        seen += batch.index[numbers == 0].tolist()
    assert sorted(seen) == list(range(16))
    assert stratified_splits(batch.labels[:3], batch.index[:3], 4, 0).tolist() == [0, 0, 0]


def test_what_is_refused() -> None:
    for spec, words in {
        "bilevel(splits=1)": "splits is 1",
        "bilevel(mu=-1)": "mu is -1",
        "bilevel(3)": "loss is 3",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
