"""Will a loss underfit? Read off from the weight it gives an untrained model, before anything is trained."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from pyrite.criterion import Loss, require
from pyrite.curves import CE, Curve, expected_margin
from pyrite.losses.registry import loss as read
from pyrite.soft_margin import row_margin

__all__ = ["Underfitting", "underfitting"]

# The curriculum paper's Table 2 (CIFAR-100 without noise) against the initial weight of the same losses, as a share
# of their peak: GCE .44 and SCE 1.0 train like cross entropy; AGCE .09 and AUL .08 lose 12 to 20 points of accuracy;
# MAE .024 and the rest fail. A quarter of the peak is what MAE has with 10 classes, where it trains well, and it gives
# for MAE and AGCE the tau of 2.6 and 4.0 that the paper found by search (Table 9).
FAILS, SLOW, CURED = 0.05, 0.2, 0.25


@dataclass(frozen=True)
class Underfitting:
    """What the weights of a loss say before training. ``print(it)`` says it in words."""

    loss: str
    classes: int
    expected_margin: float
    """The mean margin of an untrained model."""
    initial: float
    """The weight of a sample there, as a share of the largest weight the loss ever gives."""
    initial_ce: float
    """The same for cross entropy."""
    kept: float
    """The share of that weight that is left when the scores spread tenfold and the margin stays: 1 for every curve."""
    hard: float
    """The weight of a hopeless sample (margin -> -inf), as a share of the largest."""
    learned: float
    """The weight of a learned sample (margin -> inf), as a share of the largest."""
    cures: tuple[str, ...]
    """Losses that start with a quarter of their peak, where this one does not."""

    @property
    def verdict(self) -> str:
        if self.initial < FAILS:
            return "underfits"
        if self.initial < SLOW:
            return "slow"
        return "fades" if self.kept < 0.5 else "trains"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}

    def __str__(self) -> str:
        return "\n".join(_words(self))


def underfitting(loss: str | Loss, classes: int) -> Underfitting:
    """Whether ``loss`` will underfit with this many classes, and the ``scale`` and ``shift`` that cure it.

    >>> found = underfitting("mae", classes=100)
    >>> found.verdict, round(found.initial, 3), found.cures[0]
    ('underfits', 0.024, 'scale(mae, tau=2.63, classes=100)')

    Ou & Zhang, "A curriculum view of robust loss functions", section 5.1.
    """
    subject = read(loss)
    start = expected_margin(classes, exact=classes < 3)
    weight_at = subject.weight_at if isinstance(subject, Curve) else _Measured(subject, classes)
    grid = torch.linspace(-60, 60, 241, dtype=torch.float64)
    weights = torch.stack([weight_at(margin) for margin in grid]).abs()
    largest = subject.peak().weight if isinstance(subject, Curve) else float(weights.max())
    require(largest > 0, "loss", str(subject), "one that gives samples a positive weight")
    at_start = float(weight_at(torch.tensor(start, dtype=torch.float64)))
    initial = at_start / largest
    return Underfitting(
        loss=str(subject),
        classes=classes,
        expected_margin=start,
        initial=initial,
        initial_ce=float(CE().weight_at(start)),
        kept=1.0 if isinstance(subject, Curve) else _Measured(subject, classes, spread=10)(start) / at_start,
        hard=float(weights[0]) / largest,
        learned=float(weights[-1]) / largest,
        cures=_cures(subject, classes, start) if initial < SLOW and isinstance(subject, Curve) else (),
    )


class _Measured:
    """The mean weight (half the L1 norm of the gradient) of a loss that is no curve, at a margin of our choice.

    Simulated: normal scores with the given spread, the label's score set so that the margin is as wished.
    """

    def __init__(self, loss: Loss, classes: int, spread: float = 1.0) -> None:
        self.loss = loss
        count = max(32, min(512, 200_000 // classes))
        generator = torch.Generator().manual_seed(0)
        self.scores = spread * torch.randn(count, classes, dtype=torch.float64, generator=generator)
        self.labels = torch.arange(count) % classes
        self.margin = row_margin(self.scores, self.labels)

    def __call__(self, margin: Tensor | float) -> Any:
        raised = torch.zeros_like(self.scores)
        raised[torch.arange(len(raised)), self.labels] = margin - self.margin
        scores = (self.scores + raised).requires_grad_()
        self.loss.at_label(scores, self.labels).sum().backward()
        assert scores.grad is not None
        return scores.grad.abs().sum(1).mean() / 2


def _cures(curve: Curve, classes: int, start: float) -> tuple[str, ...]:
    """The transforms whose initial weight is CURED of the peak: the largest tau below the peak that gives it."""
    top, largest = curve.peak()
    low, high = min(top, 0.0) - 40, min(top, 0.0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if float(curve.weight_at(middle)) > CURED * largest else (middle, high)
    tau = round(-high, 2)
    if not 0 < tau < -start:
        return ()
    return tuple(f"{name}({curve}, tau={tau:g}, classes={classes})" for name in ("scale", "shift"))


def _words(found: Underfitting) -> list[str]:
    lines = [
        f"{found.loss} with {found.classes} classes: an untrained model has a mean margin of "
        f"{found.expected_margin:.2f}, where a sample gets {_percent(found.initial)} of the largest weight it gives "
        f"(cross entropy: {_percent(found.initial_ce)})."
    ]
    lines.append(
        {
            "underfits": "It will underfit: hardly any sample moves the model before the learning rate is gone.",
            "slow": "It will learn slowly and may underfit: the first epochs pass with small weights.",
            "fades": "It starts well but may underfit all the same: at the same margin its weight falls to "
            f"{_percent(found.kept)} once the scores have spread tenfold. A curve that peaks later, added to it, "
            "carries on where it fades: that is what nce with mae is for.",
            "trains": "It should not underfit: samples count from the first step.",
        }[found.verdict]
    )
    if found.cures:
        lines.append(f"Cure: {found.cures[0]}, or {found.cures[1]}; both start with {_percent(CURED)}.")
        lines.append("A larger tau resists noise better, a smaller one fits faster.")
    lines.append(
        f"Hopeless samples, where wrong labels end up, keep {_percent(found.hard)} of the largest weight; "
        f"learned ones keep {_percent(found.learned)}."
    )
    if found.learned > 0.01:
        lines.append(
            "As the weight of learned samples does not vanish, scores can grow without bound: watch the learning rate."
        )
    return lines


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or percent < 0.005 else f"{percent:.2g} %"
