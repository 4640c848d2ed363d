"""The loop, with parts of one's own."""

import numpy as np
import pytest
import torch
from torch import nn

import pyrite
from pyrite.data import Batch, Batches
from pyrite.methods import ERM, Learner, Step, Trainer
from pyrite.training import fit
from tests.contexts import context_of


def batches(rows: int = 20, size: int = 8, seed: int = 0) -> Batches:
    made = np.random.default_rng(0)
    inputs = made.normal(size=(rows, 4)).astype(np.float32)
    return Batches(inputs, (inputs[:, 0] > 0).astype(np.int64), batch_size=size, seed=seed)


def net(*, dropout: float = 0.0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))


def learner(model: nn.Module, lr: float = 0.5) -> Learner:
    return Learner(model, torch.optim.SGD(model.parameters(), lr=lr))


class Diary:
    """An observer: anything with these two methods."""

    def __init__(self, name: str, pages: list[str]) -> None:
        self.name, self.pages = name, pages

    def after_step(self, step: Step) -> None:
        self.pages.append(f"{self.name} step {len(step.index)}")

    def after_epoch(self, epoch: int) -> None:
        self.pages.append(f"{self.name} epoch {epoch}")


def test_a_loop_of_your_own_parts() -> None:
    """What somebody needs who brings model, optimiser and data: four lines."""
    model = net()
    method = ERM(pyrite.GCE(q=0.7)).start(context_of(Learner(model, torch.optim.Adam(model.parameters(), lr=0.05))))
    data = batches(200)
    assert fit(method, data, epochs=10)
    whole = torch.from_numpy(np.asarray(data.inputs))
    assert (model(whole).argmax(1) == data.labels).float().mean() > 0.95


def test_observers_are_told_in_their_order() -> None:
    pages: list[str] = []
    data = batches()
    observers = [Diary("first", pages), Diary("second", pages)]
    assert fit(ERM(pyrite.CE()).start(context_of(learner(net()))), data, 2, observers)
    steps = [f"{name} step {size}" for size in (8, 8, 4) for name in ("first", "second")]
    assert pages == [*steps, "first epoch 1", "second epoch 1", *steps, "first epoch 2", "second epoch 2"]
    assert (data.epoch, data.position) == (2, 0)


def test_it_stops_when_asked_and_goes_on_from_there() -> None:
    pages: list[str] = []
    asked = iter([False, False, False, True])
    model, data = net(), batches()
    method = ERM(pyrite.CE()).start(context_of(learner(model)))
    assert not fit(method, data, 2, [Diary("d", pages)], stop=lambda: next(asked))
    assert pages == ["d step 8", "d step 8", "d step 4", "d epoch 1", "d step 8"]
    assert (data.epoch, data.position) == (1, 1)
    assert fit(method, data, 2, [Diary("d", pages)])
    assert pages[5:] == ["d step 8", "d step 4", "d epoch 2"]
    other = net()
    fit(ERM(pyrite.CE()).start(context_of(learner(other))), batches(), 2)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), other.parameters(), strict=True))
    assert fit(method, data, 2)  # nothing is left to do
    assert fit(method, data, 1)


def test_dropout_belongs_to_the_seed_and_the_step() -> None:
    def trained(seed: int, disturb: bool) -> torch.Tensor:
        model = net(dropout=0.5)
        with torch.random.fork_rng(devices=[]):
            if disturb:
                torch.manual_seed(99)
            fit(ERM(pyrite.CE()).start(context_of(learner(model))), batches(seed=seed), 2)
        return model[0].weight.detach()

    assert torch.equal(trained(0, disturb=False), trained(0, disturb=True))
    assert not torch.equal(trained(0, disturb=False), trained(1, disturb=False))
    masks: list[torch.Tensor] = []
    model = net(dropout=0.5)
    model[2].register_forward_hook(lambda module, inputs, output: masks.append(output[0] != 0))
    fit(ERM(pyrite.CE()).start(context_of(learner(model, lr=0.0))), batches(8), 3)
    assert not torch.equal(masks[0], masks[1])  # another step, other units


def test_every_step_draws_other_numbers() -> None:
    """Also within an epoch, and the same numbers when training is resumed in the middle of it."""

    class Drawing(Trainer):
        def __init__(self) -> None:
            super().__init__(context_of(learner(net())))
            self.drawn = list[float]()

        def step(self, batch: Batch) -> Step:
            self.drawn.append(float(torch.rand(())))
            return super().step(batch)

    whole, stopped, data = Drawing(), Drawing(), batches()
    fit(whole, batches(), 2)
    assert len(set(whole.drawn)) == 6
    answers = iter([False, True])
    fit(stopped, data, 2, stop=lambda: next(answers))
    fit(stopped, data, 2)
    assert stopped.drawn == whole.drawn


def test_global_random_state_is_left_as_it_was() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fit(ERM(pyrite.CE()).start(context_of(learner(net(dropout=0.5)))), batches(), 1)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_global_random_state_after_a_failure() -> None:
    before = torch.get_rng_state()
    with pytest.raises(pyrite.RunFailed):
        fit(ERM(pyrite.CE()).start(context_of(learner(net(), lr=1e38))), batches(), 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_nan_names_the_batch_the_rate_and_what_to_try() -> None:
    class Fails(Trainer):
        """Fails at its fifth step."""

        def step(self, batch: Batch) -> Step:
            if self.learner.steps == 4:
                raise FloatingPointError("the loss is nan")
            return super().step(batch)

    said = (
        "the loss is nan, in batch 2 of 3 of epoch 2, at learning rate 0.125. Try a learning rate ten times lower, "
        r"gradient clipping \(clip 5\), or a loss with bounded weights such as gce\(q=0.7\)"
    )
    with pytest.raises(pyrite.RunFailed, match=said):
        fit(Fails(context_of(learner(net(), lr=0.125))), batches(), 2)
