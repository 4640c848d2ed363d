"""``loss.linear``: a projection and its loss in chunks, against the loss of all scores."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

import pyrite
from benchmarks.memory import peak_bytes
from tests.examples import CLASSES, losses

pytestmark = pytest.mark.usefixtures("kernel")


def parts(rows: int = 11, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    input, weight, bias = (
        2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((rows, 3), (CLASSES, 3), (CLASSES,))
    )
    labels = torch.randint(CLASSES, (rows,), generator=generator)
    return *(part.to(dtype).requires_grad_() for part in (input, weight, bias)), labels


def test_every_loss_and_its_gradients_are_those_of_all_scores() -> None:
    input, weight, bias, labels = parts()
    labels[4] = -100
    of_classes = torch.linspace(0.5, 2, CLASSES, dtype=torch.float64)
    each = torch.linspace(0, 3, 11, dtype=torch.float64)
    for spec in losses():
        for options in ({}, {"reduction": "sum", "weight": of_classes}, {"reduction": "none"}, {"weight": of_classes}):
            loss = pyrite.loss(spec, **options)
            for sample_weight in (None, each):
                whole = loss(linear(input, weight, bias), labels, sample_weight)
                value = loss.linear(input, weight, labels, bias, sample_weight=sample_weight, chunk=4)
                assert torch.allclose(value, whole, rtol=1e-10, atol=1e-14), (spec, options)
                given = torch.rand_like(whole)
                expected = torch.autograd.grad(whole, (input, weight, bias), given)
                for found, right in zip(
                    torch.autograd.grad(value, (input, weight, bias), given), expected, strict=True
                ):
                    assert torch.allclose(found, right, rtol=1e-9, atol=1e-12), (spec, options)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_derivatives_to_second_order(reduction: str) -> None:
    input, weight, bias, labels = parts(4)
    for spec in ("gce", "0.7*nce + 0.3*mae"):
        loss = pyrite.loss(spec, reduction=reduction)

        def value(x: Tensor, w: Tensor, b: Tensor, loss: pyrite.Loss = loss) -> Tensor:
            return loss.linear(x, w, labels, b, chunk=3)

        assert torch.autograd.gradcheck(value, (input, weight, bias))
        assert torch.autograd.gradgradcheck(value, (input, weight, bias))
        jacobian = torch.func.jacrev(value)(input.detach(), weight.detach(), bias.detach())
        assert jacobian.shape == (() if reduction == "mean" else (4,)) + (4, 3)


def test_shapes_soft_labels_and_what_needs_no_gradient() -> None:
    input, weight, bias, labels = parts(12)
    loss = pyrite.GCE()
    tokens = input.detach().reshape(3, 4, 3)
    each = pyrite.GCE(reduction="none").linear(tokens, weight, labels.reshape(3, 4), bias, chunk=5)
    assert each.shape == (3, 4)
    assert torch.allclose(each.mean(), loss.linear(tokens, weight, labels.reshape(3, 4), bias))
    shares = torch.softmax(torch.randn(12, CLASSES, dtype=torch.float64), 1)
    assert torch.allclose(loss.linear(input, weight, shares, bias, chunk=5), loss(linear(input, weight, bias), shares))
    value = loss.linear(input.detach(), weight, labels, chunk=5)
    value.backward()
    assert (input.grad, bias.grad) == (None, None)
    assert torch.allclose(weight.grad, torch.autograd.grad(loss(linear(input, weight), labels), weight)[0])
    with torch.no_grad():
        assert not loss.linear(input, weight, labels, bias).requires_grad
    empty = loss.linear(input[:0], weight, labels[:0], bias)
    assert empty.isnan()
    sample_weight = torch.rand(12, dtype=torch.float64, requires_grad=True)
    loss.linear(input, weight, labels, bias, sample_weight=sample_weight, chunk=5).backward()
    assert sample_weight.grad.abs().sum() > 0


def test_the_graph_can_be_used_twice_and_gradients_are_nobodys_else() -> None:
    input, weight, bias, labels = parts()
    value = pyrite.GCE().linear(input, weight, labels, bias, chunk=4)
    value.backward(retain_graph=True)
    first = weight.grad.clone()
    weight.grad.zero_()
    value.backward()
    assert torch.equal(weight.grad, first)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_more(dtype: torch.dtype) -> None:
    """The sum of 3,000 losses is beyond float16's digits, and in bfloat16 chunks would be rounded to 8 bits."""
    input, weight, bias, labels = parts(3000, dtype)
    whole = pyrite.CE()(linear(input, weight, bias), labels)
    value = pyrite.CE().linear(input, weight, labels, bias, chunk=100)
    assert value.dtype == dtype
    assert torch.equal(value, whole)
    for found, right in zip(
        torch.autograd.grad(value, (input, weight, bias)),
        torch.autograd.grad(whole, (input, weight, bias)),
        strict=True,
    ):
        assert found.dtype == dtype
        assert torch.allclose(found, right, rtol=0.05, atol=float(right.abs().max()) * 0.02)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_autocast(reduction: str) -> None:
    input, weight, bias, labels = parts(40, torch.float32)
    loss = pyrite.GCE(reduction=reduction)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss.linear(input, weight, labels, bias, chunk=7)
        whole = loss(linear(input, weight, bias), labels)
    assert value.dtype == whole.dtype == torch.float32
    assert torch.allclose(value, whole)
    value.sum().backward()
    right = torch.autograd.grad(whole.sum(), weight)[0]
    assert weight.grad.dtype == torch.float32
    assert torch.allclose(weight.grad, right, rtol=0.05, atol=float(right.abs().max()) * 0.02)


def test_all_scores_are_never_in_memory() -> None:
    input, labels = torch.randn(512, 8, requires_grad=True), torch.randint(20_000, (512,))
    head = pyrite.LinearLoss(pyrite.loss("nce + mae"), hidden=8, classes=20_000, chunk=32)

    def step() -> None:
        head(input, labels).backward()

    assert peak_bytes(step) < 0.3 * 4 * 512 * 20_000


def test_tied_weights_are_trained_as_one() -> None:
    embedding, head = nn.Embedding(50, 8), pyrite.LinearLoss(pyrite.GCE(), hidden=8, classes=50, bias=False)
    head.linear.weight = embedding.weight
    tokens = torch.randint(50, (4, 6))
    head(embedding(tokens), tokens.roll(-1, 1)).backward()
    found = embedding.weight.grad.clone()
    embedding.weight.grad = None
    pyrite.GCE()(linear(embedding(tokens), embedding.weight).movedim(-1, 1), tokens.roll(-1, 1)).backward()
    assert torch.allclose(found, embedding.weight.grad, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": torch.zeros(11, 4)}, r"shapes \(11, 4\) and \(5, 3\)"),
        ({"target": torch.full((11,), 5)}, "labels hold 5 at index 0"),
        ({"target": torch.zeros(10, dtype=torch.long)}, r"target has shape \(10,\)"),
        ({"sample_weight": torch.ones(3)}, "sample_weight is"),
        ({"chunk": 0}, "chunk is 0"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    input, weight, bias, labels = parts()
    with pytest.raises(pyrite.PyriteError, match=message):
        pyrite.CE().linear(**({"input": input, "weight": weight, "target": labels, "bias": bias} | change))
