"""Steps against the same steps written by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pyrite
from pyrite.data import Batch
from pyrite.methods import ERM, Learner, Step, method
from tests.contexts import context_of
from tests.examples import CLASSES, curves

WEIGHTS = [1.0, 2.0, 0.5, 3.0, 1.5]
LOSSES = ["ce", "gce(q=0.7)", "imae(T=8)", "nce", "0.7*nce + 0.3*mae", "peer(ce)", "smooth(ce, rate=0.2)", "mse"]


def data(rows: int = 12, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, 4, dtype=torch.float64, generator=generator)
    return Batch(inputs, torch.randint(CLASSES, (rows,), generator=generator), torch.arange(rows) + 100)


def net(*, hidden: bool = True, seed: int = 1) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, CLASSES)] if hidden else [nn.Linear(4, CLASSES)]
        return nn.Sequential(*layers).double()


def weights(model: nn.Module) -> list[Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


def one_step(spec: str, model: nn.Module, batch: Batch, lr: float = 0.5, **options: Any) -> Step:
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=lr), precision="float64", **options)
    return method(spec).start(context_of(learner)).step(batch)


@pytest.mark.parametrize(
    "spec", [*LOSSES, f"ce(weight={WEIGHTS})", f"0.5*gce(weight={WEIGHTS}) + 2*mae(weight={WEIGHTS})"]
)
def test_a_step_is_gradient_descent_on_the_mean_loss(spec: str) -> None:
    batch, ours, theirs = data(), net(), net()
    step = one_step(f"erm({spec})", ours, batch)

    scores = theirs(batch.inputs)
    scores.retain_grad()
    mean = pyrite.loss(spec)(scores, batch.labels)
    mean.backward()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight -= 0.5 * weight.grad

    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)
    share = sum(WEIGHTS[label] for label in batch.labels) if "weight" in spec else 12
    assert step.loss == pytest.approx(float(mean.detach()), rel=1e-12)
    assert step.denominator == pytest.approx(float(share))
    assert step.learning_rate == 0.5
    torch.testing.assert_close(step.weight, scores.grad.abs().sum(1) * share / 2, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(step.margin, pyrite.margin(scores, batch.labels).detach(), rtol=1e-12, atol=1e-14)
    assert torch.equal(step.prediction, scores.argmax(1))
    assert torch.equal(step.index, torch.arange(12) + 100)


def test_cross_entropy_is_torchs_own() -> None:
    """Nothing of this library in the expectation."""
    batch, ours, theirs = data(), net(), net()
    step = one_step(f"erm(ce(weight={WEIGHTS}))", ours, batch)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.5)
    loss = nn.CrossEntropyLoss(torch.tensor(WEIGHTS, dtype=torch.float64))(theirs(batch.inputs), batch.labels)
    loss.backward()
    optimiser.step()
    assert step.loss == pytest.approx(float(loss.detach()), rel=1e-12)
    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("curve", curves().values(), ids=lambda curve: str(curve)[:60])
def test_weight_of_a_curve_is_w_of_the_margin(curve: pyrite.Curve) -> None:
    batch, model = data(40), net()
    before = model(batch.inputs).detach()
    step = one_step(f"erm({curve})", model, batch)
    expected = curve.weight_at(pyrite.margin(before, batch.labels))
    torch.testing.assert_close(step.weight, expected, rtol=1e-10, atol=1e-14)


def test_ignored_labels_are_not_in_the_mean() -> None:
    batch, ours, theirs = data(), net(), net()
    spec = f"ce(ignore_index={int(batch.labels[0])}, weight={WEIGHTS})"
    step = one_step(f"erm({spec})", ours, batch)
    mean = pyrite.loss(spec)(theirs(batch.inputs), batch.labels)
    mean.backward()
    assert step.loss == pytest.approx(float(mean.detach()), rel=1e-12)
    assert (step.weight[batch.labels == batch.labels[0]] == 0).all()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other - 0.5 * other.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("spec", [loss for loss in LOSSES if "peer" not in loss] + [f"gce(q=0.7, weight={WEIGHTS})"])
@pytest.mark.parametrize("pieces", [2, 3, 12, 50])
def test_pieces_make_the_step_of_the_whole_batch(spec: str, pieces: int) -> None:
    batch, whole, cut = data(), net(), net()
    one, many = one_step(f"erm({spec})", whole, batch), one_step(f"erm({spec})", cut, batch, accumulate=pieces)
    for mine, other in zip(weights(cut), weights(whole), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)
    for name in ("scores", "margin", "weight", "loss", "denominator", "learning_rate"):
        torch.testing.assert_close(getattr(many, name), getattr(one, name), rtol=1e-12, atol=1e-14)


def test_pieces_and_a_batch_norm() -> None:
    """More pieces than samples: no piece is empty, which a batch norm would make NaN of."""
    model = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, CLASSES)).double()
    one_step("erm(ce)", model, data(2), accumulate=3)
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())


def test_a_loss_over_the_whole_batch_is_not_cut() -> None:
    with pytest.raises(ValueError, match=r"accumulate is 2, but peer\(ce, alpha=1\) needs the whole batch"):
        one_step("erm(peer(ce))", net(), data(), accumulate=2)
    with pytest.raises(ValueError, match="needs the whole batch"):
        one_step("erm(0.5*peer(mae) + ce)", net(), data(), accumulate=2)


@pytest.mark.parametrize("clip", [1e-3, 0.5, 1e3])
def test_clip_is_torchs(clip: float) -> None:
    batch, ours, theirs = data(), net(), net()
    one_step("erm(ce)", ours, batch, clip=clip)
    pyrite.loss("ce")(theirs(batch.inputs), batch.labels).backward()
    length = float(nn.utils.clip_grad_norm_(theirs.parameters(), clip))
    assert 1e-3 < length < 1e3  # so that one of these is cut and one is not
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other - 0.5 * other.grad, rtol=1e-12, atol=1e-14)


def test_shares_scale_the_rate_of_every_group() -> None:
    batch, ours, theirs = data(), net(), net()
    shares = [0.25, 1.0, 0.5]
    groups = [{"params": ours[0].parameters(), "lr": 0.2}, {"params": ours[2].parameters(), "lr": 0.6}]
    learner = Learner(ours, torch.optim.SGD(groups), lambda step: shares[step], precision="float64")
    descent = ERM(pyrite.CE()).start(context_of(learner))
    for share in shares:
        assert learner.learning_rate == pytest.approx(0.2 * share)
        assert descent.step(batch).learning_rate == pytest.approx(0.2 * share)
        theirs.zero_grad()
        pyrite.loss("ce")(theirs(batch.inputs), batch.labels).backward()
        with torch.no_grad():
            for layer, rate in ((theirs[0], 0.2), (theirs[2], 0.6)):
                for weight in layer.parameters():
                    weight -= rate * share * weight.grad
    assert learner.steps == 3
    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)


def test_adamw_by_hand() -> None:
    """Loshchilov & Hutter's formulas, three steps."""
    batch, ours, theirs = data(), net(), net()
    chosen = torch.optim.AdamW(ours.parameters(), lr=0.01, betas=(0.8, 0.9), eps=0.1, weight_decay=0.3)
    descent = method("erm(gce(q=0.7))").start(context_of(Learner(ours, chosen, precision="float64")))
    first = [torch.zeros_like(weight) for weight in theirs.parameters()]
    second = [torch.zeros_like(weight) for weight in theirs.parameters()]
    for time in (1, 2, 3):
        descent.step(batch)
        theirs.zero_grad()
        pyrite.loss("gce(q=0.7)")(theirs(batch.inputs), batch.labels).backward()
        with torch.no_grad():
            for place, weight in enumerate(theirs.parameters()):
                first[place] = 0.8 * first[place] + 0.2 * weight.grad
                second[place] = 0.9 * second[place] + 0.1 * weight.grad**2
                corrected = first[place] / (1 - 0.8**time)
                root = (second[place] / (1 - 0.9**time)).sqrt()
                weight.mul_(1 - 0.01 * 0.3).sub_(0.01 * corrected / (root + 0.1))
    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


class Undefined(nn.Module):
    """A net with finite scores whose gradient is NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(CLASSES, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.sum(1, keepdim=True) * self.weight.abs().sqrt()  # slope 1/0 at 0


class Overflowing(nn.Module):
    """A net with finite scores whose gradient is infinite, but nowhere NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(CLASSES, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.zeros_like(inputs[:, :1]) + self.weight * 1e200 * 1e200


@pytest.mark.parametrize("accumulate", [1, 3])
def test_what_is_not_finite_stops_before_the_step(accumulate: int) -> None:
    batch, model = data(), net()
    spoiled = batch._replace(inputs=batch.inputs.clone().index_fill_(0, torch.tensor([11]), float("nan")))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    learner = Learner(model, optimiser, precision="float64", accumulate=accumulate)
    descent, before = ERM(pyrite.CE()).start(context_of(learner)), weights(model)
    with pytest.raises(FloatingPointError, match="the loss is nan"):
        descent.step(spoiled)
    assert all(torch.equal(mine, other) for mine, other in zip(weights(model), before, strict=True))
    assert learner.steps == 0
    assert not optimiser.state
    descent.step(batch)  # and it can go on
    assert learner.steps == 1

    for broken in (Undefined(), Overflowing()):
        with pytest.raises(FloatingPointError, match="the gradient is not finite"):
            one_step("erm(ce)", broken, batch, accumulate=accumulate)
        assert (broken.weight == 0).all()


@pytest.mark.parametrize(("weight", "label"), [(3e38, 0), (-3e38, 0)])
def test_an_infinite_score_is_a_number_that_is_not_finite(weight: float, label: int) -> None:
    """Here that of the label, which is the largest or the lowest of all. MAE's loss and gradient stay finite there."""
    model = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[weight], [0.0]]))
    batch = Batch(torch.full((2, 1), 10.0), torch.tensor([label, label]), torch.arange(2))
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(FloatingPointError, match="the scores are not finite"):
        ERM(pyrite.MAE()).start(context_of(learner)).step(batch)
    assert model.weight[0, 0].item() == pytest.approx(weight)


def test_bfloat16_sums_losses_in_float32() -> None:
    batch, model = data(500), net(hidden=False).float()
    scores = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), precision="bfloat16")
    step = ERM(pyrite.CE()).start(context_of(scores)).step(batch)
    again = net(hidden=False).bfloat16()
    rounded = again(batch.inputs.bfloat16()).float()
    # A product in bfloat16 is good to 2^-8; a sum of 500 terms in bfloat16 would be off by as much again, and more.
    assert step.loss == pytest.approx(float(nn.functional.cross_entropy(rounded, batch.labels).detach()), rel=1e-4)
    assert step.margin.dtype == torch.float32


def test_spelling() -> None:
    assert str(method("erm(gce(q=0.7))")) == "erm(gce(q=0.7))"
    assert repr(method("erm(0.5*ce + mae)")) == "ERM(0.5*CE() + MAE())"
    assert method("erm(ce)") == ERM(pyrite.CE()) != ERM(pyrite.MAE())
    assert hash(method("erm(ce)")) == hash(ERM(pyrite.CE()))
    weighted = method("erm(ce(weight=[1, 2]))")
    assert str(method(str(weighted))) == str(weighted) == "erm(ce(weight=[1.0, 2.0]))"
    assert method(weighted) is weighted
    assert {"erm", "meta_weight", "l2rw", "staged"} <= set(pyrite.METHODS)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("ce", r"'ce' is a loss, not a method: write erm\(ce\), or pass it as loss"),
        ("0.5*ce + mae", r"write erm\(0.5\*ce \+ mae\)"),
        ("ermm(ce)", "unknown method 'ermm': did you mean 'erm'"),
        ("erm(gcee)", "unknown method 'gcee': did you mean 'gce'"),
        ("erm", r"erm: missing a required argument: 'loss'; the signature is erm\(loss\)"),
        ("erm(3)", "loss is 3, but must be a loss"),
        ("erm(ce(reduction='sum'))", "training uses the mean, so omit reduction"),
        (3, "method is 3, but must be a text such as"),
    ],
)
def test_what_is_no_method(spec: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        method(spec)


def test_what_is_no_learner() -> None:
    model = net()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="precision is 'half', but must be one of float32, float64, bfloat16"):
        Learner(model, optimiser, precision="half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no weights to train"):
        Learner(model.requires_grad_(False), optimiser)


def test_images_come_with_their_channels_last() -> None:
    seen: list[Tensor] = []

    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(2))

        def forward(self, inputs: Tensor) -> Tensor:
            seen.append(inputs)
            return inputs.mean((1, 2, 3)).unsqueeze(1) * self.bias

    model = Looks()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1))
    images = Batch(torch.rand(4, 3, 5, 5), torch.tensor([0, 1, 0, 1]), torch.arange(4))
    ERM(pyrite.CE()).start(context_of(learner)).step(images)
    learner.evaluate(images.inputs)
    assert [inputs.is_contiguous(memory_format=torch.channels_last) for inputs in seen] == [True, True]
    assert not model.training


@pytest.mark.slow
def test_compiled_is_the_same_step() -> None:
    batch, plain, compiled = data(), net(), net()
    one, two = one_step("erm(ce)", plain, batch), one_step("erm(ce)", compiled, batch, compiled=True)
    assert one.loss == pytest.approx(two.loss, rel=1e-12)
    for mine, other in zip(weights(compiled), weights(plain), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)
