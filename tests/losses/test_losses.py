"""The losses that see more than the margin, against their printed definitions."""

import mpmath
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import pyrite

mp = mpmath.mp


def batch(rows: int = 40, classes: int = 6, spread: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = spread * torch.randn(rows, classes, dtype=torch.float64, generator=generator)
    labels = torch.randint(classes, (rows,), generator=generator)
    return scores, labels, scores.softmax(1)


def each(spec: str) -> pyrite.Loss:
    return pyrite.loss(spec, reduction="none")


def test_mse_is_the_squared_error() -> None:
    scores, labels, p = batch()
    assert torch.allclose(each("mse")(scores, labels), ((F.one_hot(labels, 6) - p) ** 2).sum(1))
    assert torch.allclose(each("mse(alpha=0)")(scores, labels), each("mae")(scores, labels))
    general = 2 * (1 - p.gather(1, labels[:, None]).squeeze(1)) - 2 * 1.7 * (1 - (p**2).sum(1))
    assert torch.allclose(each("mse(alpha=1.7)")(scores, labels), general)


def test_mse_keeps_its_digits_where_the_squares_cancel() -> None:
    """At margin 20 the loss is e^2 (1 + q) with e = 2e-9: 1 - 2p + sum p^2 would be rounding only."""
    scores = torch.tensor([[20.0, 0.0, 0.0]], requires_grad=True)
    value = pyrite.MSE()(scores, torch.tensor([0]))
    value.backward()
    with mpmath.workdps(40):
        z = mp.exp(20) + 2
        p, q = mp.exp(20) / z, 1 / z
        true = (1 - p) ** 2 + 2 * q**2
        slope = mp.diff(lambda s: (1 - mp.exp(s) / (mp.exp(s) + 2)) ** 2 + 2 / (mp.exp(s) + 2) ** 2, 20)
    assert value.item() == pytest.approx(float(true), rel=1e-5)
    assert scores.grad[0, 0].item() == pytest.approx(float(slope), rel=1e-5)


def test_normalised_losses_sum_to_1_over_labels() -> None:
    scores, _, _ = batch(5)
    for spec in (
        "nce",
        "normalised(gce(q=0.7))",
        "normalised(focal(q=0.5))",
        "normalised(2*ce + mae)",
        "normalised(ce + -0.25*mae)",
        "normalised(mse)",
        "normalised(nce + mae)",
        "normalised(shift(mae, tau=1, classes=1000000))",
    ):
        total = sum(each(spec)(scores, torch.full((5,), k)) for k in range(6))
        assert torch.allclose(total, torch.ones(5, dtype=torch.float64))


def test_nce_is_normalised_ce() -> None:
    scores, labels, p = batch()
    printed = p.log().gather(1, labels[:, None]).squeeze(1) / p.log().sum(1)
    assert torch.allclose(each("nce")(scores, labels), printed)
    assert torch.allclose(each("normalised(ce)")(scores, labels), printed)


@pytest.mark.parametrize("margin", [-30.0, -5.0, 0.0, 17.0, 25.0, 30.0])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_nce_gradient_is_exact_at_extremes(margin: float, offset: float) -> None:
    """float32 against mpmath: through log_softmax it is wrong by 100 % past 17."""
    others = [0.5, -1.25, 2.0, 0.0]
    with mpmath.workdps(50):
        own = margin + mp.log(mp.fsum(mp.exp(s) for s in others))
        row = torch.tensor([float(own), *others]) + offset
        exact_row = [mp.mpf(float(s)) for s in row]
        z = mp.log(mp.fsum(mp.exp(s - offset) for s in exact_row)) + offset
        minus_log_p = [z - s for s in exact_row]
        p = [mp.exp(-v) for v in minus_log_p]
        own_loss = mp.log1p(mp.fsum(mp.exp(s - exact_row[0]) for s in exact_row[1:]))
        total = own_loss + mp.fsum(minus_log_p[1:])
        value = own_loss / total
        # d(-log p_0)/ds_j = p_j - [j = 0] and d total/ds_j = 5 p_j - 1
        rest = mp.fsum(p[1:])
        grad = [(-rest if j == 0 else p[j]) / total - value / total * (5 * p[j] - 1) for j in range(5)]
    scores = row.clone().requires_grad_()
    found = pyrite.NCE()(scores, torch.tensor(0))
    found.backward()
    assert found.item() == pytest.approx(float(value), rel=1e-6)
    largest = max(abs(float(g)) for g in grad)
    assert all(abs(float(g) - f) <= 1e-6 * largest for g, f in zip(grad, scores.grad.tolist(), strict=True))


def test_nce_decomposition() -> None:
    """gamma * (grad CE + epsilon * grad R) is the gradient, and the bound holds where the printed one does not."""
    scores, labels, _ = batch(200)
    gamma, epsilon, bound, printed = pyrite.NCE().decomposition(scores, labels)
    log_p = scores.log_softmax(1)
    assert torch.allclose(gamma, -1 / log_p.sum(1))
    assert torch.allclose(epsilon, 6 * log_p.gather(1, labels[:, None]).squeeze(1) / log_p.sum(1))

    def gradient(value: Tensor, at: Tensor) -> Tensor:
        return torch.autograd.grad(value.sum(), at)[0]

    s = scores.clone().requires_grad_()
    whole = gradient(each("nce")(s, labels), s)
    primary = gradient(each("ce")(s, labels), s)
    regulariser = gradient(s.log_softmax(1).mean(1), s)
    assert torch.allclose(whole, gamma[:, None] * (primary + epsilon[:, None] * regulariser), rtol=1e-9, atol=1e-12)
    weight = whole.abs().sum(1) / 2
    assert (weight <= bound * (1 + 1e-12)).all()
    assert (weight > printed * 1.01).any()
    assert pyrite.NCE().decomposition(scores.reshape(10, 20, 6).movedim(-1, 1), labels.reshape(10, 20)).gamma.shape == (
        10,
        20,
    )


def test_smooth_and_confidence() -> None:
    scores, labels, p = batch()
    reference = F.cross_entropy(scores, labels, label_smoothing=0.3, reduction="none")
    assert torch.allclose(each("smooth(ce, rate=0.3)")(scores, labels), reference)
    gce = (1 - p**0.7) / 0.7
    own = gce.gather(1, labels[:, None]).squeeze(1)
    assert torch.allclose(each("smooth(gce(q=0.7), rate=-0.5)")(scores, labels), 1.5 * own - 0.5 * gce.mean(1))
    prior = [0.1, 0.2, 0.3, 0.1, 0.2, 0.1]
    penalty = (gce * torch.tensor(prior, dtype=torch.float64)).sum(1)
    assert torch.allclose(
        pyrite.Confidence(pyrite.GCE(), beta=2, prior=prior, reduction="none")(scores, labels), own - 2 * penalty
    )
    assert torch.allclose(each("confidence(gce(q=0.7), beta=2)")(scores, labels), own - 2 * gce.mean(1))


def test_peer_pairs_the_next_scores_with_the_label_after() -> None:
    scores, labels, _ = batch(7)
    ce = each("ce")
    expected = ce(scores, labels) - 0.5 * ce(scores.roll(-1, 0), labels.roll(-2, 0))
    assert torch.allclose(each("peer(ce, alpha=0.5)")(scores, labels), expected)


def test_peer_is_confidence_in_expectation() -> None:
    """Over shuffles of the batch its mean is the loss less alpha times the mean over all pairs."""
    scores, labels, _ = batch(12)
    generator = torch.Generator().manual_seed(1)
    draws = []
    for _ in range(4000):
        order = torch.randperm(12, generator=generator)
        draws.append(pyrite.Peer(pyrite.GCE(), alpha=0.8)(scores[order], labels[order]))
    found = torch.stack(draws)
    every = torch.stack([each("gce(q=0.7)")(scores, torch.full((12,), int(y))) for y in labels])
    apart = (every.sum() - every.diagonal().sum()) / (12 * 11)  # a peer's input and label are never the same sample's
    expected = pyrite.GCE()(scores, labels) - 0.8 * apart
    assert abs(found.mean() - expected) < 4 * found.std() / 4000**0.5


def test_bootstrapping() -> None:
    scores, labels, p = batch()
    ce = F.cross_entropy(scores, labels, reduction="none")
    entropy = -(p * p.log()).sum(1)
    assert torch.allclose(each("boot_soft(beta=0.9)")(scores, labels), 0.9 * ce + 0.1 * entropy)
    predicted = F.cross_entropy(scores, scores.argmax(1), reduction="none")
    assert torch.allclose(each("boot_hard(beta=0.7)")(scores, labels), 0.7 * ce + 0.3 * predicted)


def noise_matrix(classes: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    noise = torch.rand(classes, classes, dtype=torch.float64, generator=generator)
    return 0.6 * torch.eye(classes, dtype=torch.float64) + 0.4 * noise / noise.sum(1, keepdim=True)


def test_forward_correction() -> None:
    scores, labels, p = batch()
    matrix = noise_matrix()
    given = (p @ matrix).gather(1, labels[:, None]).squeeze(1)
    assert torch.allclose(pyrite.Forward(matrix, reduction="none")(scores, labels), -given.log())
    assert torch.allclose(
        pyrite.Forward(matrix, pyrite.GCE(q=0.7), reduction="none")(scores, labels), (1 - given**0.7) / 0.7
    )
    identity = pyrite.Forward(torch.eye(6, dtype=torch.float64))
    assert torch.allclose(identity(scores, labels), F.cross_entropy(scores, labels))


def test_backward_correction_is_unbiased() -> None:
    """Its mean over the noise, sum over j of T[y, j] l(s, j), is the clean loss: the theorem of the paper."""
    scores, labels, _ = batch()
    matrix = noise_matrix()
    for inner in (pyrite.CE(), pyrite.MAE()):
        corrected = pyrite.Backward(matrix, inner, reduction="none")
        every = torch.stack([corrected(scores, torch.full((40,), k)) for k in range(6)], 1)
        clean = pyrite.loss(str(inner), reduction="none")(scores, labels)
        assert torch.allclose((matrix[labels] * every).sum(1), clean)


def test_state_dict_carries_the_matrix() -> None:
    assert set(pyrite.Forward(noise_matrix()).state_dict()) == {"matrix"}
    assert set(pyrite.CE(weight=[1.0, 2.0]).state_dict()) == {"weight"}
    assert set(pyrite.CE().state_dict()) == set(torch.nn.CrossEntropyLoss().state_dict()) == set()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pyrite.Smooth(pyrite.CE(), rate=1), "rate is 1, but must be a number below 1"),
        (lambda: pyrite.Smooth("ce"), "loss is 'ce', but must be a loss"),
        (lambda: pyrite.Smooth(pyrite.CE(reduction="sum")), "give reduction to the loss around it"),
        (lambda: pyrite.BootSoft(beta=1.2), "beta is 1.2"),
        (lambda: pyrite.Confidence(pyrite.CE(), prior=[0.5, 0.6]), "summing to 1"),
        (lambda: pyrite.Confidence(pyrite.CE(), prior=[1.5, -0.5]), "without negative"),
        (
            lambda: pyrite.Confidence(pyrite.CE(), prior=[0.5, 0.5])(torch.zeros(2, 3), torch.tensor([0, 1])),
            "prior is 2",
        ),
        (lambda: pyrite.Forward([[0.5, 0.5], [0.7, 0.7]]), "matrix has row 1 = "),
        (lambda: pyrite.Forward([[1.0, 0.0]]), "matrix is"),
        (lambda: pyrite.Forward([[1.0, 0.0], [0.0, 1.0]], pyrite.NCE()), "a function of the margin alone"),
        (
            lambda: pyrite.Forward([[1.0, 0.0], [0.0, 1.0]])(torch.zeros(2, 3), torch.tensor([0, 1])),
            "for the 3 classes",
        ),
        (lambda: pyrite.Backward([[0.5, 0.5], [0.5, 0.5]]), "mixed beyond telling"),
        (lambda: pyrite.Normalised(pyrite.IMAE()), "never negative"),
        (lambda: pyrite.Normalised(pyrite.MAE() + -1 * pyrite.CE()), "never negative"),
        (lambda: pyrite.Normalised(-1 * pyrite.NCE() + pyrite.MSE()), "never negative"),
        (lambda: pyrite.Normalised(-1 * pyrite.NCE()), "never negative"),
        (lambda: pyrite.Normalised(pyrite.Backward([[0.9, 0.1], [0.2, 0.8]])), "never negative"),
        (lambda: pyrite.Normalised(pyrite.Confidence(pyrite.CE(), prior=[0.2, 0.3, 0.5])), "never negative"),
        (lambda: pyrite.Normalised(0 * pyrite.CE()), "nor always 0"),
        (lambda: pyrite.Normalised(pyrite.Peer(pyrite.CE())), "whole batch"),
        (lambda: pyrite.Peer(pyrite.CE()).per_label(torch.zeros(2, 3)), "whole batch"),
    ],
)
def test_bad_parameters(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make()


def test_under_autocast_a_loss_is_float32_as_in_torch() -> None:
    """Or a gradient scaler's first factor, 65536, would overflow it."""
    scores, labels = torch.randn(6, 3).half(), torch.tensor([0, 1, 2, 0, 1, 2])
    with torch.autocast("cpu", dtype=torch.float16):
        assert pyrite.CE()(scores, labels).dtype == F.cross_entropy(scores, labels).dtype == torch.float32
    soft, corrected = torch.rand(6, 6).softmax(1), pyrite.Backward(noise_matrix())
    inputs = torch.randn(6, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = corrected(inputs, soft)
    assert torch.equal(inside, corrected(inputs, soft))


@pytest.mark.parametrize("spec", ["smooth(mae, rate=0.1)", "normalised(mae)", "smooth(rce(A=-4), rate=0.1)"])
def test_symmetric_losses_keep_their_digits_when_wrapped(spec: str) -> None:
    """Their total is constant: the gradient is that of the loss itself, 1e-13 here and not rounding noise of 1e-9."""
    row = [[0.0, 30.0, 29.3, 28.1]]
    narrow, wide = (torch.tensor(row, dtype=dtype, requires_grad=True) for dtype in (torch.float32, torch.float64))
    for scores in (narrow, wide):
        pyrite.loss(spec)(scores, torch.tensor([0])).backward()
    assert wide.grad.abs().max() < 1e-11
    assert torch.allclose(narrow.grad.double(), wide.grad, rtol=1e-6, atol=0)


def test_a_loaded_matrix_brings_its_inverse() -> None:
    scores, labels, _ = batch()
    one, other = pyrite.Backward(noise_matrix()), pyrite.Backward(torch.eye(6, dtype=torch.float64))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(scores, labels), other(scores, labels))


@pytest.mark.parametrize("cast", ["half", "bfloat16", "float", "to"])
def test_casting_a_model_does_not_round_what_its_loss_holds(cast: str) -> None:
    """A third is not a third in half precision; the weights of a mean and the rows of a matrix would not add up."""
    third = [1 / 3] * 3
    matrix = [[0.8, 0.1, 0.1], [0.15, 0.7, 0.15], [1 / 3, 1 / 3, 1 / 3]]
    losses = [
        pyrite.CE(weight=third),
        pyrite.Confidence(pyrite.CE(), prior=third),
        pyrite.Smooth(pyrite.Confidence(pyrite.CE(), prior=third)),
        pyrite.Forward(matrix),
        pyrite.Backward(matrix),
        pyrite.CE(weight=third) + pyrite.NCE(weight=third),
    ]
    model = torch.nn.ModuleDict({"net": torch.nn.Linear(2, 3), **{str(k): loss for k, loss in enumerate(losses)}})
    before = [(loss.state_dict(), str(loss)) for loss in losses]
    model.to(torch.float16) if cast == "to" else getattr(model, cast)()
    assert model.net.weight.dtype == {"bfloat16": torch.bfloat16, "float": torch.float32}.get(cast, torch.float16)
    for loss, (state, text) in zip(losses, before, strict=True):
        assert str(loss) == text
        assert all(buffer.dtype == torch.float64 for buffer in loss.buffers())
        assert all(torch.equal(value, state[name]) for name, value in loss.state_dict().items())
    model.to("meta")
    assert {buffer.device.type for buffer in model.buffers()} == {"meta"}
    assert {buffer.dtype for buffer in model.buffers()} == {torch.float64}


def test_class_weights_come_first_as_in_torch() -> None:
    scores, labels, _ = batch()
    weight = torch.linspace(0.5, 2, 6, dtype=torch.float64)
    ours, theirs = pyrite.CE(weight, ignore_index=3), torch.nn.CrossEntropyLoss(weight, ignore_index=3)
    assert torch.allclose(ours(scores, labels), theirs(scores, labels))
    assert str(ours) == f"ce(weight={weight.tolist()}, ignore_index=3)"
    assert str(pyrite.loss(str(ours))) == str(ours)
    assert str(pyrite.loss("ce([1, 2])")) == "ce(weight=[1.0, 2.0])"
    assert str(ours + pyrite.MAE(weight=weight, ignore_index=3)).count("weight=") == 2
    with pytest.raises(
        ValueError, match="CE does not take label_smoothing; it takes weight, reduction, ignore_index, che"
    ):
        pyrite.CE(weight, label_smoothing=0.1)


def test_terms_with_other_weights_do_not_add() -> None:
    weight = torch.ones(2000)
    other = weight.clone()
    other[1000] = 9
    with pytest.raises(ValueError, match="same options"):
        pyrite.CE(weight=weight) + pyrite.NCE(weight=other)


@pytest.mark.parametrize("spec", ["nce + mae", "ce + mae", "2*gce(q=0.5)", "0.5*nce"])
def test_a_sum_is_written_with_the_options_it_has_now(spec: str) -> None:
    weight = [1.0, 0.5, 2.0, 1.0, 3.0, 0.25]
    scores, labels, _ = batch()
    loss = pyrite.loss(spec).configure(reduction="sum", weight=weight)
    for whole in (loss, 3 * loss, loss + pyrite.MAE(reduction="sum", weight=weight)):
        again = pyrite.loss(str(whole))
        assert (again.reduction, again.weight.tolist()) == ("sum", weight)
        assert str(again) == str(whole)
        assert torch.equal(again(scores, labels), whole(scores, labels))
        again.load_state_dict(whole.state_dict(), strict=True)
    assert torch.allclose((3 * loss)(scores, labels), 3 * loss(scores, labels))
    with pytest.raises(ValueError, match="same options"):
        loss + pyrite.MAE()
    assert str(loss.configure(reduction="mean", weight=None)) == str(pyrite.loss(spec))


def test_a_sum_leaves_its_terms_as_they_were() -> None:
    """They may be in use elsewhere; parts with parameters are shared all the same."""
    ce, nce = pyrite.CE(weight=[1.0, 2.0], reduction="sum"), pyrite.NCE(weight=[1.0, 2.0], reduction="sum")
    whole = (ce + nce).configure(reduction="none", weight=None)
    assert (ce.reduction, ce.weight.tolist()) == ("sum", [1.0, 2.0])
    assert str(whole) == "ce(reduction='none') + nce(reduction='none')"
    plain = pyrite.Forward(noise_matrix(), reduction="sum")
    assert (2 * plain).losses[0].curve is plain.curve


def test_a_weight_is_copied_and_counts_only_where_labels_do() -> None:
    weight = torch.ones(6, dtype=torch.float64)
    loss = pyrite.CE(weight=weight)
    weight[0] = 9
    assert loss.weight[0] == 1
    scores, labels, _ = batch(3)
    labels[1] = -100
    assert pyrite.CE()(scores, labels, sample_weight=torch.tensor([1.0, float("nan"), 1.0])).isfinite()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("ce(weight='a')", "weight is 'a'"),
        ("forward('a')", "matrix is 'a'"),
        ("forward([[1, 0], [1]])", "matrix is"),
        ("confidence(ce, prior=['x', 'y'])", "prior is"),
    ],
)
def test_what_is_no_number_is_named(spec: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("[", r"\[")):
        pyrite.loss(spec)


def test_nan_in_a_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="matrix has row 0"):
        pyrite.Forward([[float("nan"), 1.0], [0.0, 1.0]])
