"""What holds of every loss, whichever it is."""

import copy
import io
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

import pyrite
from tests.examples import CLASSES, curves, instance, losses

Subject = TypeVar("Subject", bound=pyrite.Loss | list[pyrite.Loss])
LOSSES, CURVES = losses(), curves()
SUMS = ("0.5*ce + gce(q=0.7)", "0.7*nce + 0.3*mae")
ONE_OF_EACH = [*map(instance, pyrite.LOSSES), *map(pyrite.loss, SUMS)]
GRAPHS = [ONE_OF_EACH[start : start + 6] for start in range(0, len(ONE_OF_EACH), 6)]


def of_every(subjects: Mapping[str, Subject]) -> Callable[[Callable[[Subject], None]], Callable[[], None]]:
    """One test over all of them, which reports every one that fails: as 2,000 tests of their own they took a minute."""

    def decorate(test: Callable[[Subject], None]) -> Callable[[], None]:
        def run_for_all() -> None:
            errors = []
            for spec, subject in subjects.items():
                try:
                    test(subject)
                except Exception as error:
                    error.add_note(f"with {spec}")
                    errors.append(error)
            if errors:
                raise ExceptionGroup(f"fails for {len(errors)} of {len(subjects)}", errors)

        run_for_all.__name__, run_for_all.__doc__ = test.__name__, test.__doc__
        return run_for_all

    return decorate


def couples(loss: pyrite.Loss) -> bool:
    return any(part.couples for part in loss.modules() if isinstance(part, pyrite.Loss))


every_loss = of_every(LOSSES)
every_curve = of_every(CURVES)
every_independent_loss = of_every({spec: loss for spec, loss in LOSSES.items() if not couples(loss)})


every_kernel = pytest.mark.usefixtures("kernel")


def batch(
    rows: int = 7, dtype: torch.dtype = torch.float64, spread: float = 2.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(rows, CLASSES, dtype=torch.float64, generator=generator)
    labels = torch.randint(CLASSES, (rows,), generator=generator)
    return scores.to(dtype), labels


def gradient(loss: pyrite.Loss, scores: Tensor, labels: Tensor, **more: Any) -> Tensor:
    scores = scores.clone().requires_grad_()
    loss(scores, labels, **more).backward()
    assert scores.grad is not None
    return scores.grad


# --- spec string ----------------------------------------------------------------------------------------------------


@every_loss
def test_spec_string_makes_the_same_loss_again(loss: pyrite.Loss) -> None:
    again = pyrite.loss(str(loss))
    assert str(again) == str(loss)
    assert type(again) is type(loss)
    scores, labels = batch()
    assert torch.equal(again(scores, labels), loss(scores, labels))


@every_loss
def test_repr_is_the_python_that_makes_it(loss: pyrite.Loss) -> None:
    assert str(eval(repr(loss), {name: getattr(pyrite, name) for name in dir(pyrite)})) == str(loss)


@every_loss
def test_options_are_written_too(loss: pyrite.Loss) -> None:
    options = {"reduction": "sum", "ignore_index": 3, "weight": [1.0, 2.0, 0.5, 1.0, 1.0], "check": True}
    with_options = pyrite.loss(str(loss), **options)
    assert str(pyrite.loss(str(with_options))) == str(with_options)
    assert with_options.reduction == "sum"
    assert "reduction='sum'" in str(with_options)


@every_loss
def test_copies_are_the_same_loss(loss: pyrite.Loss) -> None:
    scores, labels = batch()
    expected = loss(scores, labels)
    for copied in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert str(copied) == str(loss)
        assert torch.equal(copied(scores, labels), expected)
    saved = io.BytesIO()
    torch.save(loss.state_dict(), saved)
    saved.seek(0)
    loss.load_state_dict(torch.load(saved, weights_only=True), strict=True)
    assert torch.equal(loss(scores, labels), expected)


# --- the mathematics ------------------------------------------------------------------------------------------------


@every_curve
def test_weight_is_the_derivative(curve: pyrite.Curve) -> None:
    """Central differences of phi, which know nothing of w."""
    margin = torch.linspace(-12, 12, 97, dtype=torch.float64) + 0.003
    step = 1e-5
    slope = (curve.phi(margin + step) - curve.phi(margin - step)) / (2 * step)
    assert torch.allclose(-slope, curve.weight_at(margin), rtol=1e-6, atol=1e-9)


@every_curve
def test_backward_uses_the_weight(curve: pyrite.Curve) -> None:
    margin = torch.tensor([-200.0, -30.0, -1.0, 0.5, 30.0, 200.0], dtype=torch.float64, requires_grad=True)
    curve.value_at(margin).sum().backward()
    assert torch.equal(margin.grad, -curve.weight_at(margin))


@every_kernel
@every_curve
def test_gradient_has_norm_2w_and_sums_to_0(curve: pyrite.Curve) -> None:
    scores, labels = batch(200, spread=5.0)
    grad = gradient(pyrite.loss(str(curve), reduction="sum"), scores, labels)
    weight = curve.weight_at(pyrite.margin(scores, labels))
    assert torch.allclose(grad.abs().sum(1), 2 * weight, rtol=1e-12, atol=1e-300)
    assert torch.allclose(grad.sum(1) / weight.clamp(min=1e-300), torch.zeros(200, dtype=torch.float64), atol=1e-12)


@every_curve
def test_peak_is_the_largest_weight(curve: pyrite.Curve) -> None:
    at, weight = curve.peak()
    grid = torch.linspace(-50, 50, 20001, dtype=torch.float64)
    assert float(curve.weight_at(grid).max()) <= weight * (1 + 1e-12)
    if abs(at) != float("inf"):
        beside = torch.tensor(at, dtype=torch.float64) + torch.tensor([-1e-4, 0, 1e-4], dtype=torch.float64)
        assert torch.allclose(curve.weight_at(beside).max(), torch.tensor(weight, dtype=torch.float64), rtol=1e-6)
    else:
        assert float(curve.weight_at(math.copysign(100.0, at))) == pytest.approx(weight, rel=1e-6)


@every_curve
def test_value_ends_at_0_but_for_imae(curve: pyrite.Curve) -> None:
    end = curve.value_at(torch.tensor(700.0, dtype=torch.float64))
    assert float(end) < -90 if "imae" in str(curve) else abs(float(end)) < 1e-60


@every_kernel
@every_loss
def test_derivatives_are_right_to_second_order(loss: pyrite.Loss) -> None:
    scores, labels = batch(3)
    scores.requires_grad_()
    forward = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": True}  # along a random direction
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), (scores,))
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), (scores,), **forward)
    assert torch.autograd.gradgradcheck(lambda s: loss(s, labels), (scores,), check_fwd_over_rev=True, fast_mode=True)


@every_independent_loss
def test_soft_labels_are_an_expectation(loss: pyrite.Loss) -> None:
    each = pyrite.loss(str(loss), reduction="none")
    scores, _ = batch(6)
    shares = torch.softmax(torch.randn(6, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), 1)
    expected = sum(shares[:, k] * each(scores, torch.full((6,), k)) for k in range(CLASSES))
    assert torch.allclose(each(scores, shares), expected, rtol=1e-10, atol=1e-14)


# --- numbers --------------------------------------------------------------------------------------------------------


@every_kernel
@every_loss
def test_finite_at_every_extreme(loss: pyrite.Loss) -> None:
    high = 1e4
    rows = [
        [high, -high, 0.0, -high, 0.0],
        [-high, high, high, high, high],
        [high] * 5,
        [-high] * 5,
        [high, high, -high, -high, -high],
        [0.0] * 5,
        [0.0, 100.0, -100.0, 20.0, -20.0],
    ]
    labels = torch.arange(CLASSES).repeat(len(rows))
    each = pyrite.loss(str(loss), reduction="none")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        scores = torch.tensor(rows, dtype=dtype).repeat_interleave(CLASSES, 0)
        assert torch.isfinite(each(scores, labels)).all(), dtype
        assert torch.isfinite(gradient(loss, scores, labels)).all(), dtype


@every_kernel
@every_curve
def test_float32_gradient_is_exact(curve: pyrite.Curve) -> None:
    """Against float64 on the same float32 scores: 1e-6 of each row's largest entry for margins up to 30."""
    generator = torch.Generator().manual_seed(3)
    wanted = torch.linspace(-30, 30, 151)
    for offset in (0.0, 1e4):
        scores = torch.randn(151, 40, generator=generator) * 3
        labels = torch.randint(40, (151,), generator=generator)
        now = pyrite.margin(scores, labels)
        scores[torch.arange(151), labels] += wanted - now
        scores = (scores + offset).float()
        total = pyrite.loss(str(curve), reduction="sum")
        exact = gradient(total, scores.double(), labels)
        found = gradient(total, scores, labels).double()
        worst = ((found - exact).abs().amax(1) / exact.abs().amax(1).clamp(min=1e-37)).max()
        assert worst <= 1e-6


@every_independent_loss
def test_float32_gradient_with_soft_labels_is_exact(loss: pyrite.Loss) -> None:
    """The same with labels that are distributions, whose gradients may all but cancel, as absolute error's do."""
    generator = torch.Generator().manual_seed(4)
    scores, labels = torch.randn(61, CLASSES, generator=generator) * 3, torch.arange(61) % CLASSES
    scores[torch.arange(61), labels] += torch.linspace(-30, 30, 61) - pyrite.margin(scores, labels)
    shares = 0.9 * torch.nn.functional.one_hot(labels, CLASSES) + 0.1 / CLASSES
    total = pyrite.loss(str(loss), reduction="sum")
    exact = gradient(total, scores.double(), shares.double())
    found = gradient(total, scores, shares).double()
    assert ((found - exact).abs().amax(1) <= 1e-6 * exact.abs().amax(1).clamp(min=1e-37)).all()


@every_kernel
@every_loss
def test_half_precision_is_rounded_once(loss: pyrite.Loss) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        scores, labels = batch(9, dtype)
        value = loss(scores, labels)
        assert value.dtype == dtype
        assert torch.equal(value, loss(scores.float(), labels).to(dtype))
        grad = gradient(loss, scores, labels)
        assert grad.dtype == dtype
        # The backward pass starts from a rounded 1, which is exact, so the gradient too is rounded once.
        assert torch.allclose(
            grad.float(), gradient(loss, scores.float(), labels).to(dtype).float(), rtol=1e-2, atol=1e-6
        )


# --- where it runs --------------------------------------------------------------------------------------------------


@every_loss
def test_works_under_torch_func(loss: pyrite.Loss) -> None:
    scores, labels = batch(6)
    move = torch.randn(6, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def value(s: Tensor) -> Tensor:
        return loss(s, labels)

    grad = torch.func.grad(value)(scores)
    assert torch.allclose(grad, gradient(loss, scores, labels), rtol=1e-12, atol=1e-15)
    _, along = torch.func.jvp(value, (scores,), (move,))
    assert torch.allclose(along, (grad * move).sum(), rtol=1e-10)
    forward_over_reverse = torch.func.jvp(torch.func.grad(value), (scores,), (move,))[1]
    reverse_over_reverse = torch.func.grad(lambda s: (torch.func.grad(value)(s) * move).sum())(scores)
    assert torch.allclose(forward_over_reverse, reverse_over_reverse, rtol=1e-8, atol=1e-12)


@every_loss
def test_works_under_vmap(loss: pyrite.Loss) -> None:
    many = torch.stack([batch(6, seed=k)[0] for k in range(3)])
    labels = torch.stack([batch(6, seed=k)[1] for k in range(3)])
    each = torch.stack([loss(s, y) for s, y in zip(many, labels, strict=True)])
    assert torch.allclose(torch.vmap(loss)(many, labels), each, rtol=1e-12)
    assert torch.allclose(
        torch.vmap(loss, in_dims=(1, None))(many.movedim(0, 1), labels[0]),
        torch.stack([loss(s, labels[0]) for s in many]),
    )
    if couples(loss):
        return
    scores, y = batch(6)
    per_sample = torch.vmap(torch.func.grad(loss))(scores, y)
    assert torch.allclose(
        per_sample, gradient(pyrite.loss(str(loss), reduction="sum"), scores, y), rtol=1e-10, atol=1e-13
    )


@of_every({", ".join(map(str, group)): group for group in GRAPHS})
def test_compiles_without_a_break(group: list[pyrite.Loss]) -> None:
    """Traced whole, one loss of each class; the code generator itself is tried in tests/test_soft_margin.py.

    Six are in a graph, as a compilation itself takes longer than a loss in it.
    """
    scores, labels = batch(6, torch.float32)
    torch.compiler.reset()
    compiled = torch.compile(lambda s: [loss(s, labels) for loss in group], fullgraph=True, backend="aot_eager")
    ours = scores.clone().requires_grad_()
    for loss, value in zip(group, compiled(ours), strict=True):
        (grad,) = torch.autograd.grad(value, ours, retain_graph=True)
        assert torch.allclose(value, loss(scores, labels), rtol=1e-6), loss
        assert torch.allclose(grad, gradient(loss, scores, labels), rtol=1e-5, atol=1e-7), loss


@every_loss
def test_autocast_does_not_touch_it(loss: pyrite.Loss) -> None:
    scores, labels = batch(6, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = loss(scores, labels)
        grad = gradient(loss, scores, labels)
    assert torch.equal(inside, loss(scores, labels))
    assert torch.equal(grad, gradient(loss, scores, labels))


@every_kernel
@every_loss
def test_layouts_do_not_matter(loss: pyrite.Loss) -> None:
    scores, labels = batch(6)
    expected = loss(scores, labels)
    assert torch.allclose(loss(scores.T.contiguous().T, labels), expected, rtol=1e-12)
    assert torch.allclose(loss(scores.repeat(1, 2)[:, ::1][:, :CLASSES], labels), expected, rtol=1e-12)
    one = scores[:1].expand(6, CLASSES)
    assert torch.allclose(loss(one, labels), loss(one.contiguous(), labels), rtol=1e-12)
    if not couples(loss):
        assert torch.allclose(loss(scores[0], labels[0]), loss(scores[:1], labels[:1]), rtol=1e-12)
    image = scores.reshape(2, 3, CLASSES).movedim(-1, 1)
    assert torch.allclose(loss(image, labels.reshape(2, 3)), expected, rtol=1e-12)
    each = pyrite.loss(str(loss), reduction="none")
    assert each(image, labels.reshape(2, 3)).shape == (2, 3)
    assert torch.allclose(each(image, labels.reshape(2, 3)).flatten(), each(scores, labels), rtol=1e-12)


@every_loss
def test_empty_batches(loss: pyrite.Loss) -> None:
    scores, labels = torch.zeros(0, CLASSES, requires_grad=True), torch.zeros(0, dtype=torch.long)
    assert torch.isnan(loss(scores, labels))
    total = pyrite.loss(str(loss), reduction="sum")(scores, labels)
    assert total.item() == 0.0
    total.backward()
    assert scores.grad.shape == (0, CLASSES)
    assert pyrite.loss(str(loss), reduction="none")(scores, labels).shape == (0,)


# --- weights and ignored labels -------------------------------------------------------------------------------------


@every_kernel
@every_loss
def test_ignored_samples_are_as_if_absent(loss: pyrite.Loss) -> None:
    scores, labels = batch(8)
    labels[[2, 5]] = -100
    kept = labels != -100
    assert torch.allclose(loss(scores, labels), loss(scores[kept], labels[kept]), rtol=1e-12)
    grad = gradient(loss, scores, labels)
    assert torch.allclose(grad[kept], gradient(loss, scores[kept], labels[kept]), rtol=1e-10, atol=1e-15)
    assert (grad[~kept] == 0).all()
    assert torch.isnan(loss(scores, torch.full((8,), -100)))


@every_loss
def test_sample_weights_make_a_weighted_mean(loss: pyrite.Loss) -> None:
    scores, labels = batch(8)
    labels[3] = -100
    weight = torch.tensor([1.0, 0, 2, 5, 0.5, 1, 1, 3], dtype=torch.float64)
    values = pyrite.loss(str(loss), reduction="none")(scores, labels)
    kept = labels != -100
    expected = (values * weight)[kept].sum() / weight[kept].sum()
    assert torch.allclose(loss(scores, labels, sample_weight=weight), expected, rtol=1e-12)
    assert torch.allclose(
        pyrite.loss(str(loss), reduction="none")(scores, labels, sample_weight=weight), values * weight
    )


@every_loss
def test_class_weights(loss: pyrite.Loss) -> None:
    scores, labels = batch(8)
    weight = torch.tensor([1.0, 0.5, 2.0, 0.0, 3.0], dtype=torch.float64)
    weighted = pyrite.loss(str(loss), weight=weight)
    ones = pyrite.loss(str(loss), weight=torch.ones(CLASSES))
    assert torch.allclose(ones(scores, labels), loss(scores, labels), rtol=1e-12)
    values = pyrite.loss(str(loss), weight=weight, reduction="none")(scores, labels)
    assert torch.allclose(weighted(scores, labels), values.sum() / weight[labels].sum(), rtol=1e-12)
    if not couples(loss) and "smooth" not in str(loss):
        assert torch.allclose(values, weight[labels] * pyrite.loss(str(loss), reduction="none")(scores, labels))


# --- bad input ------------------------------------------------------------------------------------------------------


@every_loss
def test_bad_input_is_refused_at_the_door(loss: pyrite.Loss) -> None:
    scores, labels = batch(4)
    for wrong, message in [
        ((scores, torch.tensor([0, 1, CLASSES, 0])), f"labels hold {CLASSES} at index 2"),
        ((scores, torch.tensor([0, -1, 1, 0])), "labels hold -1 at index 1"),
        ((scores, labels.float()), "labels have dtype"),
        ((scores, labels[:3]), r"labels have shape \(3,\)"),
        ((scores, labels.tolist()), "labels must be a tensor"),
        ((scores.long(), labels), "scores must have a floating point dtype"),
        ((scores[:, :1], labels * 0), "1 class"),
        ((scores.sum(), labels), "scores must have shape"),
        ((scores.tolist(), labels), "scores must be a tensor"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss(*wrong)
    with pytest.raises(ValueError, match="sample_weight is"):
        loss(scores, labels, sample_weight=torch.ones(3))
    with pytest.raises(ValueError, match="weight is 3, but must be one number for each of 5 classes"):
        pyrite.loss(str(loss), weight=[1.0, 2.0, 3.0])(scores, labels)
    checked = pyrite.loss(str(loss), check=True)
    scores[2, 1] = float("nan")
    with pytest.raises(ValueError, match=r"scores hold nan at index \(2, 1\)"):
        checked(scores, labels)
