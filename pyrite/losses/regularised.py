"""A loss and a second term: the same loss under other labels, or a function of the prediction."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Unpack, final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyrite.checks import number, require
from pyrite.criterion import Loss, Options, bare, to_numbers
from pyrite.curves import CE
from pyrite.errors import PyriteError
from pyrite.kernel import KINDS, Term
from pyrite.soft_margin import row_margins


@final
class MSE(Loss):
    """Squared error with an adjustable regulariser: 2 (1 - p_y) - 2 alpha (1 - sum over i of p_i^2).

    alpha = 0.5 is the squared error, the sum over i of (e_y - p)_i^2, and alpha = 0 the absolute error. The loss is 0
    for p_y = 1 and every alpha.

    Args:
        alpha: the factor of the regulariser.
        options: keyword arguments of ``Loss``.

    >>> MSE()(torch.tensor([0.0, 0.0]), torch.tensor(0))
    tensor(0.5000)

    Ghosh et al., 2017.
    """

    def __init__(self, alpha: float = 0.5, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.alpha = number("alpha", alpha)

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return _pick(self.per_label(scores), labels)

    def per_label(self, scores: Tensor) -> Tensor:
        """Compute 2 e (1 - 2 alpha) + 2 alpha (e^2 + sum over j != y of p_j^2) with e = 1 - p_y, without cancellation.

        The leading class is left out of the sum over the others, because its square would absorb their squares."""
        margin = row_margins(scores)
        rest = logsigmoid(-margin)
        square = (2 * logsigmoid(margin)).exp()
        leader = margin.detach().argmax(1, keepdim=True)
        followers = square.scatter(1, leader, 0.0)
        among = followers.sum(1, keepdim=True)
        others = (square.gather(1, leader) + (among - followers)).scatter(1, leader, among)
        return 2 * (1 - 2 * self.alpha) * rest.exp() + 2 * self.alpha * ((2 * rest).exp() + others)


@final
class Smooth(Loss):
    """Label smoothing of any loss: (1 - rate) l(s, y) + rate * mean over i of l(s, i).

    A negative rate is negative label smoothing, which makes predictions sharper instead of softer.

    Args:
        loss: any loss of single samples.
        rate: the weight of the mean over all labels, below 1.
        options: keyword arguments of ``Loss``.

    >>> torch.nn.functional.cross_entropy(torch.tensor([1.0, 0.0]), torch.tensor(0), label_smoothing=0.1)
    tensor(0.3633)
    >>> Smooth(CE(), rate=0.1)(torch.tensor([1.0, 0.0]), torch.tensor(0))
    tensor(0.3633)

    Szegedy et al., 2016; Wei et al., 2021.
    """

    def __init__(self, loss: Loss, rate: float = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.loss = bare(loss)
        self.rate = number("rate", rate, below=1)

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        own, total = self.loss.at_label_and_total(scores, labels)
        return (1 - self.rate) * own + self.rate / scores.shape[1] * total

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        return _with_total(self.loss, 1 - self.rate, self.rate / classes)

    def per_label(self, scores: Tensor) -> Tensor:
        every = self.loss.per_label(scores)
        return (1 - self.rate) * every + self.rate * every.mean(1, keepdim=True)

    def per_sample(self, rows: Tensor, labels: Tensor, weight: Tensor | None, valid: Tensor | None) -> Tensor:
        """As in PyTorch, class weights also apply to the labels that are mixed in."""
        if weight is None:
            return super().per_sample(rows, labels, weight, valid)
        weighted = self.loss.per_label(rows) * weight
        own = (labels * weighted).sum(1) if labels.is_floating_point() else _pick(weighted, labels)
        return (1 - self.rate) * own + self.rate * weighted.mean(1)


@final
class Confidence(Loss):
    """A loss minus beta times its mean over labels drawn from the prior, which rewards confident predictions.

    Args:
        loss: any loss of single samples.
        beta: the factor of the mean.
        prior: the distribution of the given labels; uniform if None.
        options: keyword arguments of ``Loss``.

    >>> Confidence(CE(), beta=0.5)(torch.tensor([1.0, 0.0]), torch.tensor(0))
    tensor(-0.0934)

    Cheng et al., 2021. Peer loss has this regulariser in expectation.
    """

    prior: Tensor | None

    def __init__(
        self, loss: Loss, beta: float = 0.5, prior: Sequence[float] | Tensor | None = None, **options: Unpack[Options]
    ) -> None:
        super().__init__(**options)
        self.loss = bare(loss)
        self.beta = number("beta", beta)
        self.register_buffer("prior", None if prior is None else _distribution(prior))

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        if self.prior is None:
            own, total = self.loss.at_label_and_total(scores, labels)
            return own - self.beta / scores.shape[1] * total
        return _pick(self.per_label(scores), labels)

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        return _with_total(self.loss, 1.0, -self.beta / classes) if self.prior is None else None

    def per_label(self, scores: Tensor) -> Tensor:
        every = self.loss.per_label(scores)
        if self.prior is None:
            return every - self.beta * every.mean(1, keepdim=True)
        classes = scores.shape[1]
        require(len(self.prior) == classes, "prior", len(self.prior), f"one number for each of {classes} classes")
        return every - self.beta * (every * self.prior.to(every)).sum(1, keepdim=True)


@final
class Peer(Loss):
    """A loss minus alpha times the loss of a random input under a random label.

    Agreement by chance is therefore not rewarded. The peers come from the batch: the scores of the next sample with the
    label of the sample after it. In a shuffled batch, these are independent draws, so the loss draws no random numbers.
    Ignored samples are not used as peers.

    Args:
        loss: any loss of single samples.
        alpha: the factor of the loss of the peers.
        options: keyword arguments of ``Loss``.

    >>> Peer(CE(), alpha=1)(torch.tensor([[3.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 1]))
    tensor(-3.)

    Liu & Guo, 2020.
    """

    couples = True

    def __init__(self, loss: Loss, alpha: float = 1, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.loss = bare(loss)
        self.alpha = number("alpha", alpha)

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.per_sample(scores, labels, None, None)

    def per_label(self, scores: Tensor) -> Tensor:
        raise PyriteError(f"{self} has no loss for every label: it depends on the labels of the whole batch")

    def is_symmetric(self, classes: int) -> bool:
        """Whether the wrapped loss is symmetric; the expectation over peers then is symmetric too."""
        return self.loss.is_symmetric(classes)

    def per_sample(self, rows: Tensor, labels: Tensor, weight: Tensor | None, valid: Tensor | None) -> Tensor:
        next_rows, next_labels = rows[_after(1, rows, valid)], labels[_after(2, rows, valid)]
        peers = self.loss.per_sample(next_rows, next_labels, weight, valid)
        return self.loss.per_sample(rows, labels, weight, valid) - self.alpha * peers


class _Bootstrapped(Loss):
    """Cross entropy of the label, beta, and what the prediction costs under itself, 1 - beta."""

    def __init__(self, beta: float, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.beta = number("beta", beta, least=0, most=1)
        self.ce = CE()

    @abstractmethod
    def under_itself(self, scores: Tensor) -> Tensor:
        """The loss of each prediction with itself as the target."""

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.beta * self.ce.at_label(scores, labels) + (1 - self.beta) * self.under_itself(scores)

    def per_label(self, scores: Tensor) -> Tensor:
        return self.beta * self.ce.per_label(scores) + (1 - self.beta) * self.under_itself(scores).unsqueeze(1)


@final
class BootSoft(_Bootstrapped):
    """Soft bootstrapping: beta times cross entropy plus 1 - beta times the entropy of the prediction.

    Args:
        beta: the weight of the label, from 0 to 1.
        options: keyword arguments of ``Loss``.

    >>> BootSoft(beta=0.95)(torch.tensor([1.0, 0.0]), torch.tensor(1))
    tensor(1.2767)

    Reed et al., 2015.
    """

    def __init__(self, beta: float = 0.95, **options: Unpack[Options]) -> None:
        super().__init__(beta, **options)

    def under_itself(self, scores: Tensor) -> Tensor:
        log_p = logsigmoid(row_margins(scores))
        return -(log_p.exp() * log_p).sum(1)


@final
class BootHard(_Bootstrapped):
    """Hard bootstrapping: beta times cross entropy plus 1 - beta times the cross entropy of the predicted class.

    Args:
        beta: the weight of the label, from 0 to 1.
        options: keyword arguments of ``Loss``.

    >>> BootHard(beta=0.8)(torch.tensor([1.0, 0.0]), torch.tensor(1))
    tensor(1.1133)

    Reed et al., 2015.
    """

    def __init__(self, beta: float = 0.8, **options: Unpack[Options]) -> None:
        super().__init__(beta, **options)

    def under_itself(self, scores: Tensor) -> Tensor:
        return self.ce.at_label(scores, scores.detach().argmax(1))


def _with_total(loss: Loss, own: float, total: float) -> tuple[Term, ...] | None:
    """Factors times cross entropy and the sum of it over all labels, as the compiled kernel has them."""
    return (Term(KINDS["ce"], factor=own), Term(KINDS["total"], factor=total)) if type(loss) is CE else None


def _pick(every: Tensor, labels: Tensor) -> Tensor:
    return every.gather(1, labels.unsqueeze(1)).squeeze(1)


def _after(steps: int, rows: Tensor, valid: Tensor | None) -> Tensor:
    """For each sample the one that comes ``steps`` later, in a circle, among those that count."""
    if valid is None:
        return (torch.arange(len(rows), device=rows.device) + steps) % max(len(rows), 1)
    order = torch.argsort(~valid, stable=True)  # those that count, in their order, then the others
    return order[(valid.long().cumsum(0) - 1 + steps) % valid.sum().clamp(min=1)]


def _distribution(prior: Sequence[float] | Tensor) -> Tensor:
    values = to_numbers(prior, "prior")
    require(values.dim() == 1 and len(values) > 1, "prior", tuple(values.shape), "one number per class")
    require(bool((values >= 0).all()), "prior", values.tolist(), "without negative numbers")
    require(abs(float(values.sum()) - 1) < 1e-6, "prior", values.tolist(), f"summing to 1, not {float(values.sum()):g}")
    return values
