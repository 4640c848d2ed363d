"""Every curve against its printed formula in mpmath, and the identities between them."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch

import pyrite
from pyrite.spec import registered_name

mp = mpmath.mp
Number = mpmath.mpf

# phi and w as printed, of p and r = 1 - p (given apart: at the extremes 1 - p must not be computed from p).
PRINTED: dict[str, tuple[pyrite.Curve, Callable[..., Number], Callable[..., Number]]] = {
    "ce": (pyrite.CE(), lambda p, r: -mp.log(p), lambda p, r: r),
    "focal": (
        pyrite.Focal(q=1.5),
        lambda p, r: -(r**1.5) * mp.log(p),
        lambda p, r: r**1.5 * (r - 1.5 * p * mp.log(p)),
    ),
    "mae": (pyrite.MAE(), lambda p, r: 2 * r, lambda p, r: 2 * p * r),
    "rce": (pyrite.RCE(A=-6), lambda p, r: 6 * r, lambda p, r: 6 * p * r),
    "gce": (pyrite.GCE(q=0.7), lambda p, r: (1 - p ** mp.mpf(0.7)) / 0.7, lambda p, r: p ** mp.mpf(0.7) * r),
    "sce": (
        pyrite.SCE(q=0.75),
        lambda p, r: -0.25 * mp.log(p) + 0.75 * r,
        lambda p, r: (mp.mpf(0.25) + 0.75 * p) * r,
    ),
    "tce": (
        pyrite.TCE(q=4),
        lambda p, r: sum(r**i / mp.mpf(i) for i in range(1, 5)),
        lambda p, r: p * sum(r**i for i in range(1, 5)),
    ),
    "aul": (
        pyrite.AUL(a=1.125, q=5),
        lambda p, r: ((mp.mpf(1.125) - 1 + r) ** 5 - mp.mpf(0.125) ** 5) / 5,
        lambda p, r: p * r * (mp.mpf(0.125) + r) ** 4,
    ),
    "aul_small_q": (
        pyrite.AUL(a=3, q=0.75),
        lambda p, r: ((2 + r) ** mp.mpf(0.75) - mp.mpf(2) ** mp.mpf(0.75)) / mp.mpf(0.75),
        lambda p, r: p * r * (2 + r) ** mp.mpf(-0.25),
    ),
    "agce": (
        pyrite.AGCE(a=0.125, q=0.25),
        lambda p, r: (mp.mpf(1.125) ** mp.mpf(0.25) - (mp.mpf(0.125) + p) ** mp.mpf(0.25)) / mp.mpf(0.25),
        lambda p, r: p * r * (mp.mpf(0.125) + p) ** mp.mpf(-0.75),
    ),
    "agce_large_q": (
        pyrite.AGCE(a=3, q=4),
        lambda p, r: (mp.mpf(4) ** 4 - (3 + p) ** 4) / 4,
        lambda p, r: p * r * (3 + p) ** 3,
    ),
    "ael": (
        pyrite.AEL(q=2.5),
        lambda p, r: mp.exp(-p / 2.5) - mp.exp(-1 / mp.mpf(2.5)),
        lambda p, r: p * r * mp.exp(-p / 2.5) / 2.5,
    ),
    "truncated_gce": (
        pyrite.TruncatedGCE(q=0.5, k=0.25),
        lambda p, r: (1 - max(p, mp.mpf(0.25)) ** mp.mpf(0.5)) / 0.5,
        lambda p, r: p ** mp.mpf(0.5) * r if p > 0.25 else mp.mpf(0),
    ),
}
# Curves whose formula is tested elsewhere here: IMAE has no printed value, and the others are made from curves.
ELSEWHERE = {"imae", "shift", "scale"}
MARGINS = [-60.0, -30.0, -17.0, -5.0, -1.0, -0.25, 0.0, 0.5, 1.0, 5.0, 17.0, 30.0, 60.0]


def probabilities(margin: float) -> tuple[Number, Number]:
    return 1 / (1 + mp.exp(-mp.mpf(margin))), 1 / (1 + mp.exp(mp.mpf(margin)))


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 2e-13), (torch.float32, 8e-6)])
def test_as_printed(name: str, dtype: torch.dtype, close: float) -> None:
    """float32 margins lose |margin| * 6e-8 per power of p in their exponents, so 60 gives some 1e-6."""
    curve, phi, w = PRINTED[name]
    with mpmath.workdps(50):
        for margin in MARGINS:
            x = torch.tensor(margin, dtype=dtype)
            p, r = probabilities(margin)
            assert float(curve.value_at(x)) == pytest.approx(float(phi(p, r)), rel=close, abs=1e-37)
            assert float(curve.weight_at(x)) == pytest.approx(float(w(p, r)), rel=close, abs=1e-37)


def test_every_registered_curve_is_here() -> None:
    registered = {
        name for name, cls in pyrite.LOSSES.items() if isinstance(cls, type) and issubclass(cls, pyrite.Curve)
    }
    assert registered == {registered_name(type(curve)) for curve, _, _ in PRINTED.values()} | ELSEWHERE


@pytest.mark.parametrize("T", [0.5, 8, 16, 40, 300])
def test_imae_is_the_potential_of_its_weight(T: float) -> None:  # noqa: N803
    """-margin/2 + (1/2) integral over t > margin of exp(T s(t) s(-t)) - 1, by mpmath's own quadrature."""

    def bump(t: Number) -> Number:
        return mp.expm1(T / (2 + mp.exp(t) + mp.exp(-t)))

    with mpmath.workdps(25):
        for margin in (-30.0, -4.0, -0.5, 0.0, 0.5, 4.0, 30.0):
            points = [margin, *[float(t) for t in range(-40, 41, 4) if t > margin], 80]
            true = float(-mp.mpf(margin) / 2 + mp.quad(bump, points) / 2)
            wide = float(pyrite.IMAE(T=T).value_at(torch.tensor(margin, dtype=torch.float64)))
            assert wide == pytest.approx(true, rel=1e-6, abs=1e-12)
            if T <= 40:  # beyond, a float32 cannot hold exp(T/4) to 1e-6 of itself; losses work in float64
                narrow = float(pyrite.IMAE(T=T).value_at(torch.tensor(margin)))
                assert narrow == pytest.approx(true, rel=1e-6, abs=1e-6)
            weight = 0.5 * mp.exp(T / (2 + mp.exp(margin) + mp.exp(-margin)))
            assert float(pyrite.IMAE(T=T).weight_at(torch.tensor(margin, dtype=torch.float64))) == pytest.approx(
                float(weight), rel=1e-12
            )


IDENTITIES = [
    ("mae", "2*gce(q=1)"),
    ("rce(A=-2)", "mae"),
    ("tce(q=1)", "gce(q=1)"),
    ("2*aul(a=7, q=1)", "mae"),
    ("2*agce(a=0.5, q=1)", "mae"),
    ("sce(q=0.25)", "0.75*ce + 0.125*mae"),
    ("focal(q=1e-12)", "ce"),
    ("gce(q=1e-12)", "ce"),
    ("agce(a=1e-17, q=0.5)", "gce(q=0.5)"),
    ("shift(mae, tau=1.5, margin=-1.5)", "mae"),
    ("scale(gce(q=0.7), tau=3, margin=-3)", "gce(q=0.7)"),
    ("unit(mae)", "2*mae"),
    ("unit(ce)", "ce"),
    ("unit(5*gce(q=1))", "4*gce(q=1)"),
]


@pytest.mark.parametrize(("one", "other"), IDENTITIES)
def test_identities(one: str, other: str) -> None:
    margin = torch.linspace(-15, 15, 61, dtype=torch.float64)
    a, b = pyrite.loss(one), pyrite.loss(other)
    assert isinstance(a, pyrite.Curve)
    assert isinstance(b, pyrite.Curve)
    assert torch.allclose(a.value_at(margin), b.value_at(margin), rtol=1e-9, atol=1e-12)
    assert torch.allclose(a.weight_at(margin), b.weight_at(margin), rtol=1e-9, atol=1e-12)


def test_dynamic_fine_tuning_is_absolute_error() -> None:
    """Cross entropy times the detached p has half of the gradient of mae, that of gce(q=1); p^q has that of gce(q)."""
    scores = (3 * torch.randn(64, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).requires_grad_()
    labels = torch.arange(64) % 7
    ce = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
    for q, same in ((1.0, "0.5*mae"), (1.0, "gce(q=1)"), (0.7, "gce(q=0.7)"), (0.0, "ce")):
        weighted = (ce * ce.neg().exp().detach() ** q).mean()
        (expected,) = torch.autograd.grad(weighted, scores, retain_graph=True)
        (found,) = torch.autograd.grad(pyrite.loss(same)(scores, labels), scores)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-12)


def test_tce_tends_to_ce() -> None:
    margin = torch.linspace(-2, 10, 25, dtype=torch.float64)
    assert torch.allclose(pyrite.TCE(q=400).value_at(margin), pyrite.CE().value_at(margin), rtol=1e-10)


def peak_probability(curve: pyrite.Curve) -> float:
    return 1 / (1 + math.exp(-curve.peak().margin))


def test_peaks_in_closed_form() -> None:
    """Where the derivative of the printed weight is 0, solved by hand."""
    assert peak_probability(pyrite.MAE()) == pytest.approx(0.5, abs=1e-7)
    assert peak_probability(pyrite.GCE(q=0.7)) == pytest.approx(0.7 / 1.7, abs=1e-7)
    assert peak_probability(pyrite.SCE(q=0.9)) == pytest.approx(0.8 / 1.8, abs=1e-7)
    assert 1 - peak_probability(pyrite.TCE(q=3)) == pytest.approx(4 ** (-1 / 3), abs=1e-7)
    a, q = 1.1, 5.0
    root = (2 * a + q - math.sqrt((2 * a + q) ** 2 - 4 * a * (q + 1))) / (2 * (q + 1))
    assert peak_probability(pyrite.AUL(a=a, q=q)) == pytest.approx(root, abs=1e-7)
    a, q = 0.1, 0.1
    root = (q - 2 * a + math.sqrt((q - 2 * a) ** 2 + 4 * a * (q + 1))) / (2 * (q + 1))
    assert peak_probability(pyrite.AGCE(a=a, q=q)) == pytest.approx(root, abs=1e-7)
    assert peak_probability(pyrite.AEL(q=2.5)) == pytest.approx(5 / (6 + math.sqrt(26)), abs=1e-7)
    assert pyrite.IMAE(T=8).peak().weight == pytest.approx(math.exp(2) / 2, rel=1e-12)
    assert pyrite.CE().peak() == (-math.inf, 1.0)
    assert pyrite.SCE(q=0.3).peak() == (-math.inf, pytest.approx(0.7))


def test_weight_variance_of_the_imae_paper() -> None:
    """Its Table 7 and section 4.1, in its L1 normalisation."""
    table = {0.5: 0.0016, 1: 0.0074, 2: 0.0400, 4: 0.2985, 8: 4.546, 16: 354.1}
    for T, variance in table.items():  # noqa: N806
        assert pyrite.IMAE(T=T).weight_variance() == pytest.approx(variance, rel=2e-2 if T < 1 else 1e-2)
    assert pyrite.IMAE(T=8).weight_variance() == pytest.approx(4.546, abs=5e-4)
    assert pyrite.MAE().weight_variance() == pytest.approx(4 / 45, rel=1e-12)
    assert pyrite.CE().weight_variance() == pytest.approx(1 / 3, rel=1e-12)


@pytest.mark.parametrize(("q", "k"), [(0.7, 0.5), (0.5, 0.25), (1.0, 0.9), (0.3, 1e-3)])
def test_weight_variance_with_a_step(q: float, k: float) -> None:
    """mpmath over p, told where the step is; and moved by a transform, where margin -> p is not the weight's own."""

    def variance(weight: Callable[[Number], Number], step: float) -> float:
        mean = mp.quad(lambda p: 2 * weight(p), [step, (step + 1) / 2, 1])
        return float(mp.quad(lambda p: 4 * weight(p) ** 2, [step, (step + 1) / 2, 1]) - mean**2)

    curve = pyrite.TruncatedGCE(q=q, k=k)
    with mpmath.workdps(25):
        assert curve.weight_variance() == pytest.approx(variance(lambda p: p**q * (1 - p), k), rel=1e-9)

        def shifted(p: Number) -> Number:
            moved = p * mp.exp(2) / (1 - p + p * mp.exp(2))  # the margin raised by 2
            return moved**q * (1 - moved)

        moved = pyrite.shift(curve, tau=1, margin=-3)
        step = k / (k + (1 - k) * math.exp(2))
        assert moved.weight_variance() == pytest.approx(variance(shifted, step), rel=1e-9)


def sigmoid(x: float) -> float:
    return 0.5 * (1 + math.tanh(x / 2))


@pytest.mark.parametrize("depth", [1.5, 14.3, 200.0, 5000.0])
@pytest.mark.parametrize("share", [1e-9, 0.3, 40.0])
def test_peak_of_a_sum_is_found_wherever_its_terms_are(depth: float, share: float) -> None:
    """scipy's minimiser, started at both terms' own peaks, on the printed weights."""
    from scipy.optimize import minimize_scalar

    spec = f"shift(mae, tau=0.5, margin={-depth}) + {share}*scale(gce(q=0.1), tau=0.01, margin={-depth})"
    curve, a = pyrite.loss(spec), 0.01 / depth
    assert isinstance(curve, pyrite.Curve)

    def minus(x: float) -> float:
        by = x + depth - 0.5
        return -2 * sigmoid(by) * sigmoid(-by) - share * sigmoid(a * x) ** 0.1 * sigmoid(-a * x)

    centres, widths = (0.5 - depth, math.log(0.1) / a), (3, 3 / a)
    found = [
        minimize_scalar(minus, bounds=(at - width, at + width), method="bounded", options={"xatol": 1e-10 * width})
        for at, width in zip(centres, widths, strict=True)
    ]
    largest = -min(run.fun for run in found)
    assert curve.peak().weight == pytest.approx(largest, rel=1e-9)
    at = torch.tensor(curve.peak().margin, dtype=torch.float64)
    assert float(pyrite.unit(curve).weight_at(at)) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("classes", [3, 10**6])
def test_unit_of_a_moved_sum_is_nowhere_above_1(classes: int) -> None:
    for spec in (
        f"shift(mae, tau=0.1, classes={classes}) + 1e-6*mae",
        f"scale(imae(T=300), tau=0.01, classes={classes}) + mae",
        f"truncated_gce(k=0.9) + 0.01*shift(ael(q=0.1), tau=12, classes={classes})",
        f"ce + -1*shift(ce, tau=0.1, classes={classes})",
    ):
        curve = pyrite.loss(f"unit({spec})")
        assert isinstance(curve, pyrite.Curve)
        generator = torch.Generator().manual_seed(0)
        wide = torch.randn(200_000, dtype=torch.float64, generator=generator)
        weights = torch.cat([curve.weight_at(spread * wide) for spread in (3, 30, 3000)])
        assert float(weights.max()) <= 1 + 1e-9, spec
        assert float(weights.max()) > 0.99, spec


def test_symmetric_losses() -> None:
    symmetric = [
        "mae",
        "rce",
        "gce(q=1)",
        "tce(q=1)",
        "aul(a=2, q=1)",
        "nce",
        "normalised(focal)",
        "0.3*nce + mae",
        "mse(alpha=0)",
    ]
    for spec in symmetric:
        assert pyrite.loss(spec).is_symmetric(7), spec
    for spec in ["ce", "gce(q=0.7)", "sce", "imae", "scale(mae, tau=2, classes=7)", "mse", "smooth(ce)", "boot_soft"]:
        assert not pyrite.loss(spec).is_symmetric(7), spec
    assert not pyrite.loss("mae + 0.001*ce").is_symmetric(7)  # nearly is not enough
    assert pyrite.loss("peer(mae)").is_symmetric(5)
    assert not pyrite.loss("peer(ce)").is_symmetric(5)


def test_asymmetry_bounds() -> None:
    """Closed forms of the curriculum paper's A.3, which prints AUL's two cases the wrong way round (docs/losses.md)."""
    for a, q in ((0.1, 0.1), (1.0, 0.5), (3.0, 0.9)):
        assert pyrite.AGCE(a=a, q=q).asymmetry_bound() == pytest.approx((a / (a + 1)) ** (1 - q), rel=1e-4)
    assert pyrite.AGCE(a=1, q=2).asymmetry_bound() == 1.0
    for a, q in ((1.1, 5.0), (2.0, 2.0), (6.0, 1.5)):
        assert pyrite.AUL(a=a, q=q).asymmetry_bound() == pytest.approx(((a - 1) / a) ** (q - 1), rel=1e-4)
    assert pyrite.AUL(a=1.5, q=0.5).asymmetry_bound() == 1.0
    for q in (0.5, 2.5):
        assert pyrite.AEL(q=q).asymmetry_bound() == pytest.approx(math.exp(-1 / q), rel=1e-4)
    assert pyrite.MAE().asymmetry_bound() == 1.0
    for curve in (pyrite.CE(), pyrite.Focal(), pyrite.GCE(q=0.7), pyrite.IMAE(T=8)):
        assert curve.asymmetry_bound() == 0.0
    # Raised by b, dl/dp is e^b/(1 - p + p e^b)^2 of what it was: from e^b at 0 to e^-b at 1.
    moved = pyrite.shift(pyrite.MAE(), tau=1, margin=-3)
    assert moved.asymmetry_bound() == pytest.approx(math.exp(-4), rel=1e-4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("-1*mae", "rises with the probability"),
        ("mae + -1*ce", "rises with the probability"),
        ("0*ce", "is constant"),
        ("mae + -1*mae", "is constant"),
        ("shift(mae, tau=1, margin=-800)", "is constant"),
        ("truncated_gce(k=0.9999999)", "is constant"),
    ],
)
def test_no_asymmetry_bound(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pyrite.loss(spec).asymmetry_bound()


# Every number that a loss takes: what makes the loss, and the name.
NUMBERS = [
    (pyrite.Focal, "q"),
    (pyrite.RCE, "A"),
    (pyrite.GCE, "q"),
    (pyrite.TruncatedGCE, "q"),
    (pyrite.TruncatedGCE, "k"),
    (pyrite.SCE, "q"),
    (pyrite.TCE, "q"),
    (pyrite.AUL, "a"),
    (pyrite.AUL, "q"),
    (pyrite.AGCE, "a"),
    (pyrite.AGCE, "q"),
    (pyrite.AEL, "q"),
    (pyrite.IMAE, "T"),
    (pyrite.MSE, "alpha"),
    (pyrite.BootSoft, "beta"),
    (pyrite.BootHard, "beta"),
    (lambda **given: pyrite.Smooth(pyrite.CE(), **given), "rate"),
    (lambda **given: pyrite.Confidence(pyrite.CE(), **given), "beta"),
    (lambda **given: pyrite.Peer(pyrite.CE(), **given), "alpha"),
    (lambda **given: pyrite.shift(pyrite.MAE(), **{"classes": 10, **given}), "tau"),
    (lambda **given: pyrite.scale(pyrite.MAE(), tau=1, **given), "classes"),
    (lambda **given: pyrite.scale(pyrite.MAE(), tau=1, **given), "margin"),
]
OTHER_THAN_HALF = {"A": -0.5, "T": 8, "classes": 100, "margin": -0.5}


@pytest.mark.parametrize(("make", "name"), NUMBERS)
def test_numbers_of_numpy_are_numbers_and_truth_values_are_not(make: Callable[..., pyrite.Loss], name: str) -> None:
    value = OTHER_THAN_HALF.get(name, 0.5)
    value = 3 if make is pyrite.TCE else 1.5 if (make, name) == (pyrite.AUL, "a") else value
    expected = make(**{name: value})
    for kind in (np.int64, np.int16) if isinstance(value, int) else (np.float64, np.float32, np.float16):
        made = make(**{name: kind(value)})
        assert str(made) == str(expected)
        assert type(getattr(made, name)) is type(value)
    for wrong in (True, np.True_, str(value), None if name not in ("classes", "margin") else "x"):
        with pytest.raises(ValueError, match=f"{name} is "):
            make(**{name: wrong})


def test_factors_are_numbers() -> None:
    for factor in (np.float64(0.5), np.float32(0.5), 0.5):
        assert str(factor * pyrite.MAE()) == str(pyrite.MAE() * factor) == "0.5*mae"
        assert str(factor * pyrite.NCE()) == str(pyrite.NCE() * factor) == "0.5*nce"
    assert str(np.int64(2) * pyrite.MAE()) == "2*mae"
    for wrong in (True, "2", None):
        for loss in (pyrite.MAE(), pyrite.NCE()):
            with pytest.raises(TypeError):
                loss * wrong


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pyrite.GCE(q=0), r"q is 0, but must be a number above 0 and at most 1"),
        (lambda: pyrite.GCE(q=1.5), "q is 1.5"),
        (lambda: pyrite.GCE(q="0.7"), "q is '0.7'"),
        (lambda: pyrite.Focal(q=-1), "q is -1, but must be a number above 0"),
        (lambda: pyrite.RCE(A=4), "A is 4, but must be a number below 0"),
        (lambda: pyrite.SCE(q=1), "q is 1"),
        (lambda: pyrite.TruncatedGCE(q=1.5), "q is 1.5, but must be a number above 0 and at most 1"),
        (lambda: pyrite.TruncatedGCE(k=1), "k is 1, but must be a number above 0 and below 1"),
        (lambda: pyrite.TCE(q=1.5), "q is 1.5, but must be a whole number, 1 or more"),
        (lambda: pyrite.AUL(a=1, q=2), "a is 1, but must be a number above 1"),
        (lambda: pyrite.AUL(a=2, q=0), "q is 0"),
        (lambda: pyrite.AGCE(a=0), "a is 0"),
        (lambda: pyrite.AEL(q=float("inf")), "q is inf"),
        (lambda: pyrite.IMAE(T=-1), "T is -1"),
        (lambda: pyrite.IMAE(T=float("nan")), "T is nan"),
        (lambda: pyrite.TruncatedGCE(k=1), "k is 1"),
        (lambda: pyrite.CE(reduction="avg"), "reduction is 'avg', but must be none, mean or sum"),
        (lambda: pyrite.CE(weight=[[1.0]]), "weight is"),
        (lambda: pyrite.CE(ignore_index=None), "ignore_index is None"),
        (lambda: pyrite.CE(smoothing=0.1), "CE does not take smoothing"),
        (lambda: pyrite.CE().weight_at(torch.tensor(1)), "margin has dtype"),
        (lambda: float("nan") * pyrite.CE(), "factor is nan"),
        (lambda: pyrite.CE(reduction="sum") + pyrite.MAE(), "same options"),
        (lambda: pyrite.unit(pyrite.CE(reduction="sum")), "give reduction to the loss around it"),
        (lambda: pyrite.unit("ce"), "loss is 'ce', but must be a loss"),
        (lambda: pyrite.unit(pyrite.NCE()), "whose largest weight depends on classes: pass classes"),
        (lambda: pyrite.scale(pyrite.MAE(), tau=0, classes=10), "tau is 0"),
        (lambda: pyrite.scale(pyrite.MAE(), tau=1), "either classes or margin"),
        (lambda: pyrite.scale(pyrite.MAE(), tau=1, classes=2), "classes is 2, but must be a whole number, 3 or more"),
        (lambda: pyrite.shift(pyrite.MAE(), tau=1, margin=0.5), "margin is 0.5"),
        (lambda: pyrite.CE(check="no"), "check is 'no', but must be True or False"),
        (lambda: pyrite.CE(check=1), "check is 1, but must be True or False"),
        (lambda: pyrite.CE(ignore_index=True), "ignore_index is True"),
    ],
)
def test_bad_parameters(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
