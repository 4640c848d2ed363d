"""Will a loss underfit, and will scores settle? Read off from its weights, before anything is trained."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from pyrite.checks import number, require, whole_number
from pyrite.criterion import Loss, Sum, classes_of, without_options
from pyrite.curves import CE, MEASURED, Curve, Tails, expected_margin
from pyrite.curves.transforms import MOST_CLASSES
from pyrite.errors import PyriteError
from pyrite.losses.registry import loss as read
from pyrite.losses.regularised import Confidence, Peer
from pyrite.soft_margin import row_margin

# The curriculum paper's Table 2 (CIFAR-100 without noise) against the initial weight of the same losses, as a fraction
# of their peak: GCE .44 and SCE 1.0 train like cross entropy; AGCE .09 and AUL .08 lose 12 to 20 points of accuracy;
# MAE .024 and the rest fail. A quarter of the peak is what MAE has with 10 classes, where it trains well, and it gives
# for MAE and AGCE the tau of 2.6 and 4.0 that the paper found by search (Table 9).
_FAILS, _SLOW, _CURED = 0.05, 0.2, 0.25
# A weight that halves between these margins is on its way to 0; nce's, the slowest, falls to a hundredth.
_NEAR, _FAR = 1e3, 1e4
# Below this fraction of the weight at margin 0 it is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Underfitting:
    """Whether a loss will underfit, by its weights before training. ``str`` of it is a text for people."""

    loss: str
    looked_at: str  # what the numbers are of: without options, and for peer loss what it is on average over peers
    classes: int
    expected_margin: float  # the mean margin of an untrained model
    initial: float  # the weight of a sample there, as a fraction of the largest weight that the loss ever gives
    initial_ce: float  # the same for cross entropy
    kept: float  # what is left of it when the scores spread tenfold and the margin stays: 1 for every curve
    hard: float  # the weight of a hopeless sample (margin -> -inf), as a fraction of the largest
    learned: float  # the weight of a learned sample (margin -> inf), as a fraction of the largest
    weight_far_wrong: float  # the weight that a hopeless sample's tends to, itself
    weight_far_right: float  # the weight that a learned sample's tends to, itself
    grows_without_bound: bool  # whether learned samples are pushed further for ever, so that the step needs a bound
    cures: tuple[str, ...]  # losses that start with a quarter of their peak, where this one does not
    spread: float = 1.0  # of an untrained model's scores over the classes: assumed, or that of ``net``
    net: str = ""  # whose margin and spread were measured; empty where they are those of normal scores

    @property
    def verdict(self) -> str:
        if self.initial < _FAILS:
            return "underfits"
        if self.initial < _SLOW:
            return "slow"
        return "fades" if self.kept < 0.5 else "trains"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}

    def __str__(self) -> str:
        return "\n".join(_words(self))


def underfitting(
    loss: str | Loss, classes: int, margin: float | None = None, spread: float = 1.0, net: str = ""
) -> Underfitting:
    """Predict whether a loss will underfit, and suggest a ``scale`` or ``shift`` that prevents it.

    ``pyrite.check_on_net`` measures ``margin`` and ``spread`` on an untrained net. The default margin is that of Eq. 4
    for scores with a standard deviation of 1.

    Args:
        loss: a loss or its spec.
        classes: the number of classes.
        margin: the mean margin before training; Eq. 4 if None.
        spread: the standard deviation of the scores before training.
        net: the name of the net on which ``margin`` and ``spread`` were measured.

    Returns:
        The initial weight, the verdict and suggested losses; ``str`` returns the text of ``pyrite check``.

    >>> report = underfitting("mae", classes=100)
    >>> report.verdict, round(report.initial, 3), report.cures[0]
    ('underfits', 0.024, 'scale(mae, tau=2.63, classes=100)')

    Ou & Zhang, "A curriculum view of robust loss functions", section 5.1.
    """
    given, classes = read(loss), whole_number("classes", classes, least=2)
    if given.weight is not None:
        raise PyriteError(f"loss is {str(given)!r}, but class weights scale all samples of a class: omit them")
    subject = _in_expectation(without_options(given))
    start = expected_margin(classes, exact=classes < 3) if margin is None else number("margin", margin)
    left, right = tails(subject, classes)
    if isinstance(subject, Curve):
        at_start, largest, kept = _weight_of(subject, start), subject.peak().weight, 1.0
    else:
        measured = _Measured(subject, classes, spread)
        at_start = measured.weight(start)
        largest = max(left, right, *(measured.weight(margin / 2) for margin in range(-120, 121)))
        kept = _Measured(subject, classes, 10 * spread).weight(start) / at_start if at_start > 0 else 1.0
    require(largest > 0, "loss", str(subject), "one that gives samples a positive weight")
    initial = at_start / largest
    return Underfitting(
        loss=str(given),
        looked_at=str(subject),
        classes=classes,
        expected_margin=start,
        initial=initial,
        initial_ce=_weight_of(CE(), start),
        kept=kept,
        hard=left / largest,
        learned=right / largest,
        weight_far_wrong=left,
        weight_far_right=right,
        grows_without_bound=grows_without_bound(subject, classes),
        cures=_cures(subject, classes, start, bool(net)) if initial < _SLOW and isinstance(subject, Curve) else (),
        spread=spread,
        net=net,
    )


def _weight_of(curve: Curve, margin: float) -> float:
    return float(curve.weight_at(torch.tensor(margin, dtype=torch.float64)))


def _cures(curve: Curve, classes: int, start: float, measured: bool) -> tuple[str, ...]:
    """The transforms whose initial weight is _CURED of the peak: the largest tau below the peak that gives it."""
    top, largest = curve.peak()
    low, high = min(top, 0.0) - 40, min(top, 0.0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if float(curve.weight_at(middle)) > _CURED * largest else (middle, high)
    tau = round(-high, 2)
    if not 0 < tau < -start:
        return ()
    there = f"margin={MEASURED!r}" if measured else f"classes={classes}"
    return tuple(f"{name}({curve}, tau={tau:g}, {there})" for name in ("scale", "shift"))


def _words(report: Underfitting) -> list[str]:
    net = f"{report.net} before training" if report.net else "an untrained model"
    lines = [
        f"{report.loss} with {report.classes} classes: {net} has a mean margin of "
        f"{report.expected_margin:.2f}. There, a sample has {_percent(report.initial)} of the largest weight "
        f"(cross entropy: {_percent(report.initial_ce)})."
    ]
    if report.net:
        assumed = expected_margin(report.classes, exact=report.classes < 3)
        lines.append(
            f"The scores have a measured spread of {report.spread:.2g}. classes={report.classes} assumes a spread of 1 "
            f"and a mean margin of {assumed:.2f}."
        )
    if "peer(" in report.loss:
        lines.append(f"The loss is averaged over peers of balanced classes, which gives {report.looked_at}.")
    lines.append(
        {
            "underfits": "It will underfit: the learning rate decays before the samples change the model.",
            "slow": "It will learn slowly and may underfit: weights are small in the first epochs.",
            "fades": "It starts well but may underfit later: when the spread of the scores has grown tenfold, the "
            f"weight at the same margin is {_percent(report.kept)}. Add a curve that peaks at a larger margin, as in "
            "nce + mae.",
            "trains": "It should not underfit: samples have weight from the first step.",
        }[report.verdict]
    )
    if report.cures:
        lines.append(f"Use {report.cures[0]} or {report.cures[1]}; both start with {_percent(_CURED)}.")
        lines.append("A larger tau is more robust to noise; a smaller tau fits faster.")
    return [*lines, *_ends(report)]


def _ends(report: Underfitting) -> list[str]:
    """What becomes of samples at either end. The limits are shown: a fraction of a high peak may round to nothing."""
    wrong, right = report.weight_far_wrong, report.weight_far_right
    lines = [
        "Misfitted samples, including wrong labels: the weight vanishes as the margin decreases."
        if wrong == 0
        else f"Misfitted samples, including wrong labels: the weight approaches {wrong:.3g}, {_percent(report.hard)} "
        "of the largest, as the margin decreases.",
        "Learned samples: the weight vanishes as the margin increases."
        if right == 0
        else f"Learned samples: the weight approaches {right:.3g}, {_percent(report.learned)} of the largest, as the "
        "margin increases.",
    ]
    if report.grows_without_bound:
        lines.append(
            "Scores can therefore grow without bound. Bound the step: divide the learning rate by the largest weight, "
            "or clip gradients. 'pyrite train' clips on residual nets and does both on other nets. On resnet20 and "
            "fast_cnn, imae needs only one of the two; both together reduce its accuracy. On fast_cnn, the default net "
            "for images, imae with these defaults was no better than cross entropy (28 and 30 % with 40 % wrong "
            "labels); use a residual net, such as --model resnet20."
        )
    elif right != 0:
        lines.append("Large scores are pulled back, so scores do not grow without bound.")
    return lines


def _percent(fraction: float) -> str:
    percent = 100 * fraction
    return f"{percent:.0f} %" if percent >= 10 or percent < 0.005 else f"{percent:.2g} %"


def tails(loss: Loss, classes: int | None = None) -> Tails:
    """What the weight of a sample (half the L1 norm of its gradient by the scores) tends to at either end.

    Exact for a curve; measured for the others, with the number of ``classes`` their matrix or prior has, or else 10.

    >>> from pyrite.curves import CE, IMAE
    >>> tails(IMAE(T=8)), tails(CE())
    (Tails(left=0.5, right=0.5), Tails(left=1.0, right=0.0))
    """
    if isinstance(loss, Curve):
        return loss.tails()
    measured = _Measured(loss, classes or classes_of(loss))
    return Tails(measured.limit(measured.weight, -1), measured.limit(measured.weight, 1))


def grows_without_bound(loss: Loss, classes: int | None = None) -> bool:
    """Whether training goes on pushing samples outwards however far out they are, so that scores never settle.

    So it is where a learned sample's label is still pushed up (``imae``, ``confidence``, ``backward``), or, with
    negative factors, a hopeless one's still down. A weight that remains but pulls back, as that of ``smooth(ce)``
    does, is a bound and not a danger. Such a loss needs a bounded step: clipped gradients, weight decay, or a
    lower learning rate.

    >>> from pyrite.curves import CE, IMAE
    >>> grows_without_bound(IMAE(T=8)), grows_without_bound(CE())
    (True, False)
    """
    if isinstance(loss, Curve):
        left, right = loss.tails()
    else:
        measured = _Measured(loss, classes or classes_of(loss))
        left, right = measured.limit(measured.push, -1), measured.limit(measured.push, 1)
    return right > 0 or left < 0


def _in_expectation(loss: Loss) -> Loss:
    """A loss of single samples: peer loss becomes its mean over peers, with all classes equally frequent."""
    if isinstance(loss, Peer):
        return Confidence(loss.loss, beta=loss.alpha)
    if isinstance(loss, Sum):
        return Sum([(factor, _in_expectation(term)) for factor, term in loss.terms()])
    return loss


class _Measured:
    """The gradient of a loss that is no curve, at a margin of our choice.

    Simulated: normal scores with the given spread, the label's score set so that the margin is as wished.
    """

    def __init__(self, loss: Loss, classes: int, spread: float = 1.0) -> None:
        require(classes <= MOST_CLASSES, "classes", classes, f"at most {MOST_CLASSES:,} for {loss}, which is measured")
        self.loss = deepcopy(_in_expectation(loss))  # a user's own loss may have buffers, which stay as they are
        count = max(32, min(512, 200_000 // classes))
        generator = torch.Generator().manual_seed(0)
        self.scores = spread * torch.randn(count, classes, dtype=torch.float64, generator=generator)
        self.labels = torch.arange(count) % classes
        self.margin = row_margin(self.scores, self.labels)

    def weight(self, margin: float) -> float:
        """The mean weight of a sample: half the L1 norm of its gradient."""
        return float(self._gradient(margin).abs().sum(1).mean() / 2)

    def push(self, margin: float) -> float:
        """How much a step down the gradient raises the label's score, in the mean. For a curve this is the weight."""
        return -float(self._gradient(margin).gather(1, self.labels.unsqueeze(1)).mean())

    def limit(self, of: Callable[[float], float], side: int) -> float:
        """What a function of the margin tends to on the left (-1) or right (1)."""
        near, far = of(side * _NEAR), of(side * _FAR)
        return far if abs(far) > max(abs(near) / 2, _ROUNDING * self.weight(0.0)) else 0.0

    @torch.enable_grad()
    def _gradient(self, margin: float) -> Tensor:
        raised = torch.zeros_like(self.scores)
        raised[torch.arange(len(raised)), self.labels] = margin - self.margin
        scores = (self.scores + raised).requires_grad_()
        return torch.autograd.grad(self.loss.at_label(scores, self.labels).sum(), scores)[0]
