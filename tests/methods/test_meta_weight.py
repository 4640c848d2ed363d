"""Steps with learned weights against the same steps written out with a graph through the virtual step."""

import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector

import pyrite
from pyrite.curves import WeightNetCurve
from pyrite.data import Batch, Batches
from pyrite.methods import Learner, WeightNet, method
from pyrite.models import build_model
from tests.contexts import context_of
from tests.methods.double_backward import double_backward

D = torch.float64
ROWS = np.random.default_rng(0)
INPUTS = ROWS.normal(size=(60, 4)).astype(np.float32)
LABELS = ROWS.integers(3, size=60)


def net() -> nn.Module:
    return build_model("mlp(hidden=[7])", (4,), 3, seed=0).to(D)


def started(spec: str, model: nn.Module, size: int = 20, **options: Any) -> Any:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    learner = Learner(model, optimiser, precision="float64", **options)
    meta = Batches(INPUTS, LABELS, batch_size=10, seed=3, index=np.arange(size), drop_last=size >= 10)
    return method(spec).start(context_of(learner, meta, classes=3))


def batches() -> Iterator[Batch]:
    return iter(Batches(INPUTS, LABELS, batch_size=15, seed=1, index=np.arange(30, 60)))


def plain(weights: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, 1e-3, weight_decay=5e-4)


GUIDES: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": plain,
    "nesterov": lambda weights: torch.optim.SGD(weights, 1e-3, 0.9, weight_decay=5e-4, nesterov=True),
    "adam": lambda weights: torch.optim.Adam(weights, 1e-3, weight_decay=5e-4),
}


def by_hand(
    spec: str, steps: int, normalise: str = "sum", guide: Callable[[Any], torch.optim.Optimizer] = plain
) -> tuple[nn.Module, nn.Module, list[Tensor]]:
    """MW-Net as its authors' algorithm goes, with ``create_graph``; the same weights, batches and order."""
    model, learning = net(), started(spec, net())
    weight_net: WeightNet = deepcopy(learning.net)
    inner = guide(weight_net.parameters())
    outer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    meta = iter(Batches(INPUTS, LABELS, batch_size=10, seed=3, index=np.arange(20), drop_last=True))
    coming, trusted = batches(), []
    ce, meta_loss = nn.CrossEntropyLoss(reduction="none"), pyrite.MAE()
    model.train()

    def objective(losses: Tensor, graph: bool) -> Tensor:
        with torch.set_grad_enabled(graph):
            weights = weight_net(losses.detach().unsqueeze(1)).squeeze(1)
            shares = weights / len(weights) if normalise == "mean" else weights / weights.sum()
        trusted.append(weights.detach())
        return (shares * losses).sum()

    for _ in range(steps):
        x, y, _ = next(coming)
        u, v, _ = next(meta)
        weights, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        clone = {name: value.clone() for name, value in buffers.items()}
        losses = ce(functional_call(model, clone, (x.to(D),)), y)
        gradients = torch.autograd.grad(objective(losses, True), list(weights.values()), create_graph=True)
        moved = {name: w - 0.2 * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
        clone = {name: value.clone() for name, value in buffers.items()}
        inner.zero_grad()
        outer.zero_grad()
        meta_loss(functional_call(model, (moved, clone), (u.to(D),)), v).backward()
        inner.step()
        trusted.clear()
        outer.zero_grad()
        objective(ce(model(x.to(D)), y), False).backward()
        outer.step()
    return model, weight_net, trusted


@pytest.mark.parametrize("gradient", ["exact", "lean"])
@pytest.mark.parametrize("normalise", ["mean", "sum"])
def test_steps_are_those_of_the_algorithm(gradient: str, normalise: str) -> None:
    spec = f"meta_weight(gradient='{gradient}', normalise='{normalise}')"
    model = net()
    learning = started(spec, model)
    step = None
    for _, batch in zip(range(2), batches(), strict=True):
        step = learning.step(batch)
    other, weight_net, trusted = by_hand(spec, 2, normalise)
    assert step is not None
    for mine, theirs in ((model, other), (learning.net, weight_net)):
        for name, value in theirs.state_dict().items():
            torch.testing.assert_close(mine.state_dict()[name], value, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(step.trust, trusted[-1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("optimiser", GUIDES)
def test_the_weight_network_has_the_optimiser_that_was_asked_for(optimiser: str) -> None:
    spec = f"meta_weight(optimiser='{optimiser}')"
    learning = started(spec, net())
    for _, batch in zip(range(2), batches(), strict=True):
        learning.step(batch)
    _, weight_net, _ = by_hand(spec, 2, guide=GUIDES[optimiser])
    for name, value in weight_net.state_dict().items():
        torch.testing.assert_close(learning.net.state_dict()[name], value, rtol=1e-10, atol=1e-12)


def test_the_optimiser_of_the_weight_network_is_part_of_the_state() -> None:
    first, second = (started("meta_weight(optimiser='nesterov', lr=0.5)", net()) for _ in range(2))
    one, two = batches()
    first.step(one)
    second.load_state_dict(deepcopy(first.state_dict()))
    for learning in (first, second):
        learning.meta_batch = lambda: (torch.from_numpy(INPUTS[:10]).to(D), torch.from_numpy(LABELS[:10]))
        learning.step(two)
    assert torch.equal(parameters_to_vector(first.net.parameters()), parameters_to_vector(second.net.parameters()))


def test_the_classifier_is_trained_with_the_loss_that_was_asked_for() -> None:
    """The weighted mean of GCE, with the weights that the network gives its values."""
    model = net()
    learning = started("meta_weight(loss=gce(q=0.7), every=5)", model)
    before = deepcopy(model).train()
    x, y, _ = batch = next(batches())
    step = learning.step(batch)
    losses = pyrite.GCE(q=0.7, reduction="none")(before(x.to(D)), y)
    weights = learning.net(losses.detach().unsqueeze(1)).squeeze(1).detach()
    torch.testing.assert_close(step.trust, weights, rtol=1e-9, atol=1e-12)
    assert step.loss == pytest.approx(float((weights * losses).sum().detach() / weights.sum()), rel=1e-9)
    learning.end_epoch()
    assert list(learning.arrays()) == ["weight_net_of_other_loss"]


def test_l2rw_weighs_by_hand_computed_products() -> None:
    model = net().train()
    learning = started("l2rw(ce)", model)
    before = deepcopy(model)
    x, y, _ = batch = next(batches())
    u, v, _ = next(iter(Batches(INPUTS, LABELS, batch_size=10, seed=3, index=np.arange(20), drop_last=True)))
    weights = list(before.parameters())
    meta = torch.autograd.grad(nn.functional.cross_entropy(before(u.to(D)), v), weights)
    losses = nn.functional.cross_entropy(before(x.to(D)), y, reduction="none")
    products = torch.stack([
        sum((g * d).sum() for g, d in zip(torch.autograd.grad(one, weights, retain_graph=True), meta, strict=True))
        for one in losses
    ])  # fmt: skip
    step = learning.step(batch)
    torch.testing.assert_close(step.trust, products.clamp(min=0), rtol=1e-9, atol=1e-12)
    helps = products.clamp(min=0)
    assert step.loss == pytest.approx(float((helps / helps.sum() * losses).sum().detach()), rel=1e-9)


def test_weights_are_learned_every_so_many_steps() -> None:
    learning = started("meta_weight(every=2, lr=0.5)", net())
    seen = [parameters_to_vector(learning.net.parameters()).detach()]
    for _, batch in zip(range(2), batches(), strict=True):
        learning.step(batch)
        seen.append(parameters_to_vector(learning.net.parameters()).detach())
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[1], seen[2])


def test_a_meta_gradient_that_is_not_finite_is_skipped_and_counted() -> None:
    learning = started("meta_weight", net())
    before = deepcopy(learning.net.state_dict())
    learning.through.meta_loss = lambda scores, labels: scores.sum(1) * float("nan")
    learning.step(next(batches()))
    assert learning.facts()["meta_skipped"] == 1
    assert all(torch.equal(before[name], value) for name, value in learning.net.state_dict().items())


class Odd(torch.autograd.Function):
    """A layer without a derivative in forward mode."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 2


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = Odd.apply(self.inner(x))
        return found


def test_without_forward_mode_it_differentiates_twice_and_says_so() -> None:
    model = Doubled().to(D).train()
    batch, meta = (
        (torch.from_numpy(INPUTS[rows]).to(D), torch.from_numpy(LABELS[rows])) for rows in (slice(20), slice(20, 30))
    )
    weight_net = WeightNet(5).to(D)
    with pytest.warns(UserWarning, match="differentiating twice"):
        found = pyrite.methods.meta_gradient(model, weight_net, batch, meta, lr=0.1)
    _, products = double_backward(model, weight_net, batch, meta, lr=0.1)
    torch.testing.assert_close(found.products, products, rtol=1e-10, atol=1e-13)


def test_what_is_refused_and_warned_of() -> None:
    for spec, words in {
        "meta_weight(meta='gold')": "meta is 'gold'",
        "meta_weight(gradient='quick')": "gradient is 'quick'",
        "meta_weight(size=0)": "size is 0",
        "meta_weight(optimiser='lion')": "optimiser is 'lion'",
        "meta_weight(loss=3)": "loss is 3",
        "l2rw(meta='gold')": "meta is 'gold'",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    with pytest.raises(ValueError, match="accumulate is 2"):
        started("meta_weight", net(), accumulate=2)
    with pytest.raises(ValueError, match="meta is missing"):
        method("meta_weight").start(
            context_of(Learner(net(), torch.optim.SGD(net().parameters(), lr=0.1), precision="float64"))
        )
    with pytest.warns(UserWarning, match="fewer than a batch"):
        started("meta_weight", net(), size=8)
    few = Batches(INPUTS, np.arange(60) % 3, batch_size=2, seed=0, index=[0, 3, 6])
    with pytest.warns(UserWarning, match="no sample of 2 classes, the first: 1"):
        method("meta_weight").start(
            context_of(Learner(net(), torch.optim.SGD(net().parameters(), lr=0.1)), few, classes=3)
        )


def test_a_run_holds_out_its_meta_set_and_draws_its_curve(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # torch has DeprecationWarnings of its own
        run = pyrite.train(
            "digits", method="meta_weight(size=150, lr=0.1)", noise="symmetric(0.4)", model="mlp(hidden=[16])",
            epochs=2, out=tmp_path / "run",
        )  # fmt: skip
    held = run.labels["part"] == 3
    assert held.sum() == 150
    assert (run.samples["visits"][held] == 0).all()
    assert not np.isnan(run.samples["last_trust"][run.labels["part"] == 0]).any()
    trust, wrong = run.samples["last_trust"], run.labels["given"] != run.labels["true"]
    seen = run.labels["part"] == 0
    assert run.table["final_trust_auc"] == pytest.approx(pyrite.diagnostics.roc_auc(-trust[seen], wrong[seen]))
    curve = run.weight_curve()
    assert isinstance(curve, WeightNetCurve)
    assert not torch.equal(
        curve.weight_at(torch.tensor([0.0])), run.weight_curve(epoch=1).weight_at(torch.tensor([0.0]))
    )
    with pytest.raises(ValueError, match="from 1 to 2"):
        run.weight_curve(epoch=3)
    with pytest.raises(ValueError, match="too few samples"):
        pyrite.train("digits", method="meta_weight(size=2000)", out=tmp_path / "b")
    with pytest.raises(ValueError, match="with known true labels, but those of digits are unknown"):
        pyrite.train("digits", method="meta_weight(meta='clean', size=100)", out=tmp_path / "c")


def test_a_meta_set_smaller_than_a_batch_is_used_whole(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="the meta set has 20 samples, fewer than a batch of 50: each step uses all"):
        run = pyrite.train(
            "digits", method="meta_weight(size=20)", samples=200, batch_size=50, epochs=1, model="mlp(hidden=[4])",
            out=tmp_path / "run", progress=False,
        )  # fmt: skip
    assert run.finished
    assert np.count_nonzero(run.labels["part"] == 3) == 20


def test_confidence_on_the_meta_set_is_measured() -> None:
    """Confidence minus accuracy after the virtual step of every batch of the epoch, and anew in the next one."""
    learning, seen = started("meta_weight(ce)", net()), []
    inner = learning.through.meta_loss

    def record(scores: Tensor, labels: Tensor) -> Tensor:
        p, best = scores.detach().softmax(1).max(1)
        seen.append(p - (best == labels).double())
        loss: Tensor = inner(scores, labels)
        return loss

    learning.through.meta_loss = record
    for epoch in (1, 2):
        seen.clear()
        learning.begin_epoch(epoch)
        for _, batch in zip(range(2), batches(), strict=True):
            learning.step(batch)
        assert learning.facts()["meta_overconfidence"] == pytest.approx(float(torch.cat(seen).mean()))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("meta_weight(ce)", r"so that wrong labels count most\. ce on noisy .* points\): use meta_loss=mae"),
        ("meta_weight(ce, meta='clean')", "so that wrong labels count most$"),
    ],
)
def test_weights_that_rise_with_the_loss_are_a_warning(spec: str, message: str) -> None:
    learning = started(spec, net())
    learning.epoch = learning.context.epochs
    nn.init.ones_(learning.net.first.weight)
    nn.init.constant_(learning.net.last.weight, 0.02)
    with pytest.warns(UserWarning, match=message):
        learning.end_epoch()
    nn.init.constant_(learning.net.last.weight, -0.02)
    learning.end_epoch()  # a warning is an error
    assert len(learning.past) == 2


def test_images_of_the_meta_set_are_augmented_if_asked_for(tmp_path: Path) -> None:
    nets = []
    for name, more in (("plain", ""), ("augmented", ", augment=True")):
        run = pyrite.train(
            "digits", method=f"meta_weight(size=20{more})", model="mlp(hidden=[4])", samples=100, epochs=1,
            batch_size=20, augment="crop_flip(pad=1, flip='none')", out=tmp_path / name, progress=False,
        )  # fmt: skip
        nets.append(run.method_arrays()["weight_net"])
    assert not np.array_equal(*nets)
