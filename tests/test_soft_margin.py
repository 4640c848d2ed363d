"""The margin against float64, mpmath and hand-made cases."""

from typing import Any

import mpmath
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

import pyrite
from pyrite import kernel, soft_margin


def exact(scores: torch.Tensor, label: int) -> mpmath.mpf:
    with mpmath.workdps(60):
        others = [mpmath.exp(mpmath.mpf(float(s))) for i, s in enumerate(scores) if i != label]
        return mpmath.mpf(float(scores[label])) - mpmath.log(mpmath.fsum(others))


def ulp(value: torch.Tensor) -> torch.Tensor:
    return torch.nextafter(value, value.new_tensor(torch.inf)) - value


@pytest.mark.parametrize("classes", [2, 3, 10, 1000, 128_256])
@pytest.mark.usefixtures("kernel")
def test_value_to_two_ulp_of_the_largest_score(classes: int) -> None:
    generator = torch.Generator().manual_seed(classes)
    scores = 4 * torch.randn(16, classes, generator=generator)
    labels = torch.randint(classes, (16,), generator=generator)
    reference = pyrite.margin(scores.double(), labels)
    allowed = 2 * ulp(torch.maximum(scores.abs().amax(1), reference.abs().float())).double()
    assert ((pyrite.margin(scores, labels).double() - reference).abs() <= allowed).all()
    every = pyrite.margins(scores).double()
    assert ((every - pyrite.margins(scores.double())).abs() <= 2 * allowed.unsqueeze(1)).all()


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=12),
    st.integers(0, 11),
)
@settings(max_examples=300, deadline=None)
def test_value_against_mpmath(row: list[float], label: int) -> None:
    scores, label = torch.tensor(row), label % len(row)
    true = exact(scores, label)
    size = max(abs(float(true)), float(scores.abs().max()), 1.0)
    assert abs(float(pyrite.margin(scores, torch.tensor(label))) - float(true)) <= 2 * 2**-23 * size
    assert abs(float(pyrite.margins(scores)[label]) - float(true)) <= 3 * 2**-23 * size
    wide = scores.double()
    assert abs(float(pyrite.margin(wide, torch.tensor(label))) - float(true)) <= 4 * 2**-52 * size


def test_two_classes_are_the_difference_of_scores() -> None:
    scores = torch.tensor([[1e-3, 2e-3], [1e4, -1e4], [16.0, -17.5], [3e-30, 1e-30]])
    difference = scores[:, 0] - scores[:, 1]
    assert torch.equal(pyrite.margin(scores, torch.zeros(4, dtype=torch.long)), difference)
    assert torch.equal(pyrite.margins(scores), torch.stack([difference, -difference], 1))


def test_what_goes_through_cross_entropy_is_lost_where_the_margin_is_not() -> None:
    """The reason for this module: past 17 float32 cross entropy is 0, and so is its gradient at the label."""
    scores = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True)
    label = torch.tensor([0])
    value = F.cross_entropy(scores, label)
    value.backward()
    assert value == scores.grad[0, 0] == 0
    scores.grad = None
    pyrite.CE()(scores, label).backward()
    assert float(scores.grad[0, 0]) == pytest.approx(-float(mpmath.mpf(2) / (mpmath.exp(20) + 2)), rel=1e-6)


def test_mae_at_minus_30_has_its_true_gradient() -> None:
    scores = torch.tensor([[0.0, 30.0]], requires_grad=True)
    pyrite.MAE()(scores, torch.tensor([0])).backward()
    true = 2 * mpmath.exp(-30) / (1 + mpmath.exp(-30)) ** 2
    assert float(scores.grad[0, 1]) == pytest.approx(float(true), rel=1e-6)


def test_margins_agree_with_margin() -> None:
    scores = 5 * torch.randn(50, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    every = pyrite.margins(scores)
    for k in range(7):
        assert torch.allclose(every[:, k], pyrite.margin(scores, torch.full((50,), k)), rtol=1e-13, atol=1e-14)


def test_margins_have_the_right_derivatives() -> None:
    scores = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(pyrite.margins, (scores,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(pyrite.margins, (scores,))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 4, 3), (2, 4, 3, 5)])
def test_shapes(shape: tuple[int, ...]) -> None:
    scores = torch.randn(shape, dtype=torch.float64)
    label_shape = shape[:1] + shape[2:] if len(shape) > 1 else ()
    labels = torch.randint(4, label_shape)
    found = pyrite.margin(scores, labels)
    assert found.shape == label_shape
    every = pyrite.margins(scores)
    assert every.shape == shape
    axis = 0 if len(shape) == 1 else 1
    assert torch.allclose(every.gather(axis, labels.unsqueeze(axis)).squeeze(axis), found, rtol=1e-12)


@pytest.mark.usefixtures("kernel")
def test_masked_classes_are_as_if_absent() -> None:
    """Scores of -inf are how classes are masked out; torch's cross entropy takes them, and so do we."""
    scores = torch.tensor([[1.0, -torch.inf, 2.0], [3.0, -torch.inf, -torch.inf], [0.5, 0.25, -torch.inf]])
    labels = torch.tensor([0, 0, 1])
    for reduction in ("none", "mean"):
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = pyrite.CE(reduction=reduction)(ours, labels)
        reference = F.cross_entropy(theirs, labels, reduction=reduction)
        assert torch.allclose(value, reference)
        value.sum().backward()
        reference.sum().backward()
        assert torch.allclose(ours.grad, theirs.grad)
    assert float(pyrite.margin(scores, labels)[1]) == float("inf")


@pytest.mark.usefixtures("kernel")
def test_minus_infinity_is_a_limit_and_not_nan() -> None:
    """Against scores of -1e4 in its place: the numbers of every loss are at their limits there."""
    alone, masked, label = [1.0, -torch.inf, -torch.inf], [-torch.inf, 1.0, 2.0], torch.tensor([0])
    for row, specs in ((alone, ("ce", "focal", "gce", "nce")), (masked, ("ce", "focal", "gce", "sce"))):
        for loss in map(pyrite.loss, specs):
            infinite = torch.tensor([row], dtype=torch.float64, requires_grad=True)
            finite = infinite.detach().clamp(min=-1e4).requires_grad_()
            (expected,) = torch.autograd.grad(loss(finite, label), finite)
            (found,) = torch.autograd.grad(loss(infinite, label), infinite)
            plain = torch.func.grad(loss)(infinite.detach(), label)
            assert torch.allclose(found, expected, rtol=1e-6, atol=1e-6), (str(loss), row)
            assert torch.allclose(plain, expected, rtol=1e-6, atol=1e-6), (str(loss), row)
    assert pyrite.NCE()(torch.tensor([alone]), torch.tensor([0])) == 0
    assert pyrite.NCE()(torch.tensor([[1.0, -torch.inf, 2.0]]), torch.tensor([0])) == 0


def test_how_rows_are_worked_through_does_not_show(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row, five rows, all rows at a time are equal to the bit; the compiled kernel to rounding."""
    scores = (4 * torch.randn(37, 11, generator=torch.Generator().manual_seed(0))).requires_grad_()
    labels = torch.randint(11, (37,), generator=torch.Generator().manual_seed(1))
    for loss in (pyrite.CE(), pyrite.NCE(), pyrite.IMAE()):
        results = []
        for block, compiled in ((1, None), (55, None), (1 << 19, None), (1, library)):
            monkeypatch.setattr(soft_margin, "CPU_BLOCK", block)
            monkeypatch.setattr(kernel, "library", lambda compiled=compiled: compiled)
            value = loss(scores, labels)
            results.append((value.detach(), *torch.autograd.grad(value, scores)))
        for value, grad in results[1:3]:
            assert torch.equal(value, results[0][0])
            assert torch.equal(grad, results[0][1])
        value, grad = results[3]
        assert torch.allclose(value, results[0][0], rtol=3e-7)
        assert torch.allclose(grad, results[0][1], rtol=1e-6, atol=1e-9)


def test_the_graph_can_be_used_twice() -> None:
    scores = torch.randn(5, 4, requires_grad=True)
    value = pyrite.NCE()(scores, torch.tensor([0, 1, 2, 3, 0]))
    (first,) = torch.autograd.grad(value, scores, retain_graph=True)
    (second,) = torch.autograd.grad(value, scores)
    assert torch.equal(first, second)


def test_backward_inside_a_dual_level_carries_the_tangent() -> None:
    """Forward over reverse without create_graph: the fast backward must step aside."""
    from torch.autograd import forward_ad

    scores = torch.randn(4, 5, dtype=torch.float64)
    move = torch.randn(4, 5, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3])
    for loss in (pyrite.GCE(), pyrite.NCE()):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(scores.clone().requires_grad_(), move)
            (grad,) = torch.autograd.grad(loss(dual, labels), dual)
            along = forward_ad.unpack_dual(grad).tangent
        hessian = torch.autograd.functional.hessian(lambda s, loss=loss: loss(s, labels), scores)
        assert torch.allclose(along, torch.einsum("abcd,cd->ab", hessian, move), rtol=1e-8, atol=1e-12)


def test_compiled_code_computes_the_same() -> None:
    """Through the real code generator, with a gradient: a curve, one with a table, and a loss that is no curve."""
    loss = pyrite.loss("ce + 0.5*imae(T=8) + 0.7*nce")
    scores = 8 * torch.randn(16, 9, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(9, (16,), generator=torch.Generator().manual_seed(1))
    torch.compiler.reset()
    ours, plain = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    value = torch.compile(loss, fullgraph=True)(ours, labels)
    value.backward()
    loss(plain, labels).backward()
    assert torch.allclose(value, loss(scores, labels), rtol=1e-6)
    assert torch.allclose(ours.grad, plain.grad, rtol=1e-5, atol=1e-7)


def test_labels_of_every_integer_type() -> None:
    scores = torch.randn(4, 3)
    reference = pyrite.margin(scores, torch.tensor([0, 1, 2, 0]))
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        assert torch.equal(pyrite.margin(scores, torch.tensor([0, 1, 2, 0], dtype=dtype)), reference)
    with pytest.raises(ValueError, match=r"labels have dtype torch.bool"):
        pyrite.margin(scores, torch.tensor([True, False, True, False]))


def test_nothing_is_looked_at_on_another_device() -> None:
    """A meta tensor has no values, so it fails at any look; on a GPU such a look would stall every step."""
    scores = torch.empty(4, 3, device="meta", requires_grad=True)
    labels = torch.empty(4, dtype=torch.long, device="meta")
    for spec in ("ce", "imae(T=8)", "0.7*nce + 0.3*mae", "smooth(gce(q=0.7))", "mse", "peer(ce)"):
        value = pyrite.loss(spec)(scores, labels)
        assert (value.device.type, value.shape) == ("meta", ())
        value.backward()


def test_index_of_a_bad_label_in_an_image() -> None:
    labels = torch.zeros(2, 3, dtype=torch.long)
    labels[1, 2] = 7
    with pytest.raises(ValueError, match=r"labels hold 7 at index \(1, 2\), outside the 4 classes"):
        pyrite.margin(torch.randn(2, 4, 3), labels)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("spec", ["ce", "imae(T=8)", "nce", "smooth(ce, rate=0.1)"])
def test_nothing_of_the_scores_size_but_the_gradient(spec: str) -> None:
    """What torch allocates in a step, by its own profiler: cross entropy takes 3 times the scores, we once."""
    from benchmarks.losses import extra_memory

    scores = torch.randn(48, 1 << 17, requires_grad=True)
    labels = torch.randint(1 << 17, (48,))
    assert extra_memory(F.cross_entropy, scores, labels) > 2.9
    assert extra_memory(pyrite.loss(spec), scores, labels) < 1.01
    half = scores.detach().bfloat16().requires_grad_()
    assert extra_memory(pyrite.loss(spec), half, labels) < 1.4  # two blocks in float32 besides
