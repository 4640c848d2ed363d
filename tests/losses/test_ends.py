"""What a loss does to samples far out, against limits taken by hand and against training itself."""

import math

import pytest
import torch

import pyrite
from pyrite.losses import grows_without_bound, tails
from tests.examples import losses

# The limits of the printed weights as p -> 0 and p -> 1.
LIMITS = {
    "ce": (1, 0),
    "focal(q=2)": (1, 0),
    "focal(q=0.01)": (1, 0),
    "mae": (0, 0),
    "rce(A=-6)": (0, 0),
    "gce(q=0.7)": (0, 0),
    "gce(q=0.001)": (0, 0),
    "truncated_gce(q=0.7, k=0.5)": (0, 0),
    "sce(q=0.75)": (0.25, 0),
    "tce(q=3)": (0, 0),
    "aul(a=1.1, q=5)": (0, 0),
    "agce(a=0.1, q=0.1)": (0, 0),
    "ael(q=2.5)": (0, 0),
    "imae(T=8)": (0.5, 0.5),
    "imae(T=300)": (0.5, 0.5),
    "unit(imae(T=8))": (math.exp(-2), math.exp(-2)),
    "shift(imae(T=8), tau=1, classes=1000000)": (0.5, 0.5),
    "scale(sce(q=0.75), tau=0.001, classes=1000000)": (0.25, 0),
    "2*imae(T=1) + 0.5*ce": (1.5, 1),
    "0.1*imae(T=8) + 0.2*imae(T=1) + -0.3*imae(T=2)": (0, 0),
    "mae + -1*ce": (-1, 0),
}
K = 6
MATRIX = [[0.75 if i == j else 0.05 for j in range(K)] for i in range(K)]
# By hand: smoothed labels leave p - t at the right, with t the smoothed label; the inverse of a symmetric noise matrix
# has 1 + (K - 1) b on its diagonal and -b elsewhere, b = 0.05/0.7.
MEASURED = {
    "nce": (0, 0),
    "nce + 0.5*imae(T=8)": (0.25, 0.25),
    "smooth(ce, rate=0.1)": (None, 0.1 * (1 - 1 / K)),
    "confidence(ce, beta=0.5)": (None, 0.5 * (1 - 1 / K)),
    "mse": (None, 0),
    "boot_soft": (0.95, 0),
    f"forward(matrix={MATRIX})": (0, 0),
    f"backward(matrix={MATRIX})": (None, (K - 1) * 0.05 / 0.7),
    "peer(ce, alpha=1)": (1 - 1 / K, 1 - 1 / K),
}


@pytest.mark.parametrize("spec", LIMITS)
def test_limits_of_curves(spec: str) -> None:
    curve = pyrite.loss(spec)
    assert isinstance(curve, pyrite.Curve)
    assert curve.tails() == pytest.approx(LIMITS[spec], rel=1e-12, abs=0)
    assert tails(curve) == curve.tails()


@pytest.mark.parametrize("spec", MEASURED)
def test_limits_of_what_is_no_curve(spec: str) -> None:
    found = tails(pyrite.loss(spec), classes=K)
    for side, expected in zip(found, MEASURED[spec], strict=True):
        assert expected is None or side == pytest.approx(expected, rel=1e-6, abs=1e-3 if spec == "boot_soft" else 0)


def test_a_curve_without_a_number_at_infinity_is_read_far_out() -> None:
    class Net(pyrite.Curve):
        """As a weight network has it: inf - inf."""

        def phi(self, margin: torch.Tensor) -> torch.Tensor:
            return -0.25 * margin

        def w(self, margin: torch.Tensor) -> torch.Tensor:
            return 0.25 + margin - margin

    assert Net().tails() == (0.25, 0.25)
    assert grows_without_bound(Net())


@pytest.mark.parametrize("loss", [loss for loss in losses().values() if "peer" not in str(loss)], ids=str)
def test_grows_without_bound_is_what_training_does(loss: pyrite.Loss) -> None:
    """A learned sample under gradient descent, from step 100 to 200: its margin moves at every step, or hardly."""
    scores = torch.tensor([[3.0, 0.5, 0.0, -0.5, 0.2]], dtype=torch.float64, requires_grad=True)
    margins = []
    for step in range(200):
        (grad,) = torch.autograd.grad(loss(scores, torch.tensor([0])), scores)
        scores = (scores - 10 * grad).detach().requires_grad_()
        if step in (99, 199):
            margins.append(pyrite.margin(scores, torch.tensor([0])).item())
    assert grows_without_bound(loss) == (margins[1] - margins[0] > 20)


def test_negative_factors_push_hopeless_samples_away() -> None:
    assert grows_without_bound(pyrite.loss("mae + -1*ce"))
    assert grows_without_bound(pyrite.loss("nce + -1*ce"))
    assert not grows_without_bound(pyrite.loss("nce + ce"))


def test_peer_loss_is_taken_on_average() -> None:
    """With cross entropy and alpha = 1 the average is -s_y + mean of s: it pushes for ever."""
    assert grows_without_bound(pyrite.loss("peer(ce, alpha=1)"))
    assert grows_without_bound(pyrite.loss("0.5*peer(ce, alpha=1) + nce"))
    assert not grows_without_bound(pyrite.loss("peer(mae, alpha=1)"))


def test_check_says_it() -> None:
    imae = pyrite.underfitting("imae(T=8)", classes=10)
    assert (imae.weight_far_wrong, imae.weight_far_right, imae.grows_without_bound) == (0.5, 0.5, True)
    assert "'pyrite train' clips on residual nets" in str(imae)
    assert "Misfitted samples, including wrong labels: the weight approaches 0.5, 14 %" in str(imae)
    ce = pyrite.underfitting("ce", classes=10)
    assert (ce.weight_far_wrong, ce.weight_far_right, ce.grows_without_bound) == (1.0, 0.0, False)
    assert "Learned samples: the weight vanishes" in str(ce)
    assert "without bound" not in str(ce)
    gce = pyrite.underfitting("gce(q=0.7)", classes=10).to_dict()
    assert (gce["weight_far_wrong"], gce["weight_far_right"], gce["grows_without_bound"]) == (0.0, 0.0, False)
    smooth = pyrite.underfitting("smooth(ce, rate=0.1)", classes=10)
    assert smooth.weight_far_right == pytest.approx(0.09)
    assert "pulled back" in str(smooth)
