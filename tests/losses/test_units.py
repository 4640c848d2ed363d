"""unit(...) of losses that are no curves: the largest weight where the other classes are tied."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import pyrite
from pyrite.losses import UnitLoss


def largest_weight(loss: pyrite.Loss, classes: int) -> float:
    """What ``unit`` divides by."""
    row, label = torch.arange(classes, dtype=torch.float64), torch.tensor(0)
    return float(loss(row, label) / UnitLoss(loss, classes)(row, label))


def weight(loss: pyrite.Loss, scores: list[float]) -> float:
    row = torch.tensor([scores], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(row, torch.tensor([0])), row)
    return float(gradient.abs().sum()) / 2


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_nce_has_its_largest_weight_at_equal_scores(classes: int) -> None:
    """There grad CE has half the L1 norm 1 - 1/K, and the sum of all cross entropies is K log K and stationary."""
    assert largest_weight(pyrite.NCE(), classes) == pytest.approx((1 - 1 / classes) / (classes * math.log(classes)))
    loss = pyrite.unit(pyrite.NCE(), classes=classes)
    assert weight(loss, [0.0] * classes) == pytest.approx(1)


def test_of_a_curve_it_is_the_peak() -> None:
    for spec in ("mae", "gce(q=0.7)", "0.5*ce + mae", "imae(T=8)"):
        curve = pyrite.loss(spec)
        assert largest_weight(curve, 7) == pytest.approx(curve.peak().weight, rel=1e-9), spec


@pytest.mark.parametrize("spec", ["0.7*nce + 0.15*mae", "nce + aul(a=6, q=1.5)", "normalised(gce(q=0.7))"])
def test_of_sums_no_score_vector_has_a_larger_weight(spec: str) -> None:
    loss, random = pyrite.loss(spec), np.random.default_rng(0)
    largest = largest_weight(loss, 5)

    def negative(scores: np.ndarray) -> tuple[float, np.ndarray]:
        row = torch.tensor(scores[None], requires_grad=True)
        (gradient,) = torch.autograd.grad(loss(row, torch.tensor([0])), row, create_graph=True)
        value = -gradient.abs().sum() / 2
        return value.item(), torch.autograd.grad(value, row)[0][0].numpy()

    starts = [random.choice([0.1, 1, 4]) * random.normal(size=5) for _ in range(8)]
    found = max(-minimize(negative, start, jac=True, method="L-BFGS-B").fun for start in starts)
    assert found == pytest.approx(largest, rel=1e-6)


def test_alone_nce_can_have_a_larger_weight_elsewhere() -> None:
    """As its docstring says: one class leads, and the label is far below all others."""
    apart = weight(pyrite.NCE(), [-27.1, 0.0] + [-3.4] * 8)
    assert 1.3 < apart / largest_weight(pyrite.NCE(), 10) < 1.5


def test_spec_string_and_values() -> None:
    loss = pyrite.loss("unit(0.7*nce + 0.15*mae, classes=4)", reduction="sum")
    assert str(pyrite.loss(str(loss))) == str(loss) == "unit(0.7*nce + 0.15*mae, classes=4, reduction='sum')"
    scores, labels = torch.randn(6, 4, dtype=torch.float64), torch.arange(6) % 4
    plain = pyrite.loss("0.7*nce + 0.15*mae", reduction="sum")
    assert torch.allclose(
        loss(scores, labels), plain(scores, labels) / largest_weight(pyrite.loss("0.7*nce + 0.15*mae"), 4), rtol=1e-12
    )
    assert isinstance(pyrite.unit(pyrite.MAE()), pyrite.Curve)
    sum_of_both = 0.5 * pyrite.loss("unit(nce, classes=4)") + pyrite.CE()
    assert (str(sum_of_both), repr(sum_of_both)) == (
        "0.5*unit(nce, classes=4) + ce",
        "0.5*unit(NCE(), classes=4) + CE()",
    )


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("unit(nce)", "loss is 'nce', whose largest weight depends on classes: pass classes"),
        ("unit(nce, classes=1)", "classes is 1, but must be a whole number, 2 or more"),
        ("unit(mae, classes=10)", "classes is 10, but must be left out for a curve"),
        ("unit(peer(ce), classes=10)", "but must be one of single samples that treats all classes equally"),
        ("unit(backward([[0.9, 0.1], [0.2, 0.8]]), classes=2)", "treats all classes equally"),
        ("unit(0*nce, classes=3)", "one that gives samples a weight"),
    ],
)
def test_what_is_refused(spec: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pyrite.loss(spec)


def test_other_numbers_of_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="classes is 4, but must be 5, as in the scores"):
        pyrite.loss("unit(nce, classes=4)")(torch.zeros(2, 5), torch.tensor([0, 1]))
