"""Progressive early stopping against its stages, written out as a loop."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from pyrite.data import Batches
from pyrite.methods import Context, Learner, method
from pyrite.methods.early_stopping import later_layers
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), ROWS.integers(3, size=40)


def batches() -> Batches:
    return Batches(INPUTS, LABELS, batch_size=10, seed=0, index=np.arange(35))


def net(number: int) -> nn.Sequential:
    torch.manual_seed(number)
    return nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), *[nn.Linear(8, 8) for _ in range(4)],
        nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3),
    ).double()  # fmt: skip


def learner(number: int, epochs: int) -> Learner:
    own = net(number)
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1), precision="float64")


def test_the_last_quarter_of_the_layers_is_the_later_part() -> None:
    """Of eight layers the last two, with the norm between them."""
    assert later_layers(net(0)) == [12, 16]
    assert later_layers(nn.Linear(2, 3)) == [0, 0]
    assert later_layers(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 3))) == [2, 2]


def test_a_run_is_the_published_algorithm() -> None:
    data = batches()
    trainer = method("pes(warm_up=2, block=2, head=1)").start(Context(data, learner, epochs=8, classes=3))
    fit(trainer, data, 8)

    own, fresh, data = net(0), net(1), batches()
    given, everything = torch.from_numpy(LABELS[:35]), torch.from_numpy(INPUTS[:35]).double()
    optimiser = torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    for epoch in range(1, 9):
        begin = {3: 9, 4: 9, 5: 11}.get(epoch, 0)  # the module that is the first to be trained
        before = deepcopy(own[:begin])
        if epoch in (3, 5):
            for module, new in zip(own[begin:], fresh[begin:], strict=True):
                module.load_state_dict(new.state_dict())
                for weight in module.parameters():
                    optimiser.state[weight]["momentum_buffer"].zero_()
        counted = torch.ones(35, dtype=torch.float64)
        if epoch > 5:
            with torch.no_grad():
                confident = own.eval()(everything).argmax(1) == given
            counts = torch.bincount(given[confident], minlength=3).double()
            assert 0 < int(confident.sum()) < 35
            balanced = torch.where(counts > 0, counts[counts > 0].mean() / counts, 0.0)
            counted = balanced[given] * confident
        for inputs, labels, index in data:
            if not counted[index].any():
                continue
            optimiser.zero_grad()
            losses = cross_entropy(own.train()(inputs.double()), labels, reduction="none")
            ((losses * counted[index]).sum() / counted[index].sum()).backward()
            for module in own[:begin]:
                for weight in module.parameters():
                    weight.grad = None
            optimiser.step()
        for module, old in zip(own[:begin], before, strict=True):
            for one, two in zip(module.parameters(), old.parameters(), strict=True):
                assert torch.equal(one, two)
    for one, two in zip(trainer.learner.model.state_dict().values(), own.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-11)
    expected = {"stage": 4, "confident_fraction": pytest.approx(float((counted > 0).double().mean()))}
    assert trainer.facts() == expected


def test_what_is_refused() -> None:
    for spec, words in {"pes(warm_up=0)": "warm_up is 0", "pes(head=-1)": "head is -1"}.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
