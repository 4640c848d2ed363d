"""The curves of the literature. Each defines phi and w of one margin; p = sigmoid(margin) is never clamped.

``exp(logsigmoid(x))`` stands where one might write ``sigmoid(x)``: its derivative keeps its digits on both
sides, that of ``sigmoid`` underflows to 0 once the sigmoid rounds to 1.
"""

import math
from collections.abc import Sequence
from typing import Unpack, final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyrite.checks import number, whole_number
from pyrite.criterion import Options, OptionsButWeight
from pyrite.curves.curve import COMPILED, Curve, gauss, merged
from pyrite.kernel import KINDS
from pyrite.soft_margin import row_margin_and_total


@final
class CE(Curve):
    """Cross entropy: phi = -log p, w = 1 - p. The hardest samples, including wrong labels, have the largest weights.

    Args:
        weight: one weight per class, as in PyTorch.
        options: keyword arguments of ``Loss``.

    >>> CE()(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    tensor(2.1269)
    """

    def __init__(self, weight: Tensor | Sequence[float] | None = None, **options: Unpack[OptionsButWeight]) -> None:
        """The class weights come first, so that it takes the place of ``nn.CrossEntropyLoss(weight)``."""
        super().__init__(weight=weight, **options)

    def phi(self, margin: Tensor) -> Tensor:
        return -logsigmoid(margin)

    def w(self, margin: Tensor) -> Tensor:
        return logsigmoid(-margin).exp()

    def at_label_and_total(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        margin, total = row_margin_and_total(scores, labels)
        return self.value_at(margin), total


@final
class Focal(Curve):
    """Focal loss: phi = -(1 - p)^q log p, w = (1 - p)^q (1 - p - q p log p).

    Equal to cross entropy for q = 0; a larger q reduces the weight of learned samples. As in the paper, gradients also
    flow through the factor (1 - p)^q; code that detaches it minimises a different function.

    Args:
        q: the exponent, 0 or more.
        options: keyword arguments of ``Loss``.

    >>> Focal(q=2).value_at(0.0)
    tensor(0.1733)

    Lin et al., 2017.
    """

    def __init__(self, q: float = 2, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.q = number("q", q, above=0)

    def phi(self, margin: Tensor) -> Tensor:
        return -(self.q * logsigmoid(-margin)).exp() * logsigmoid(margin)

    def w(self, margin: Tensor) -> Tensor:
        # p log p is 0 at p = 0, where log p itself is -inf.
        log_p, log_rest = logsigmoid(margin).clamp(min=-1e30), logsigmoid(-margin)
        return (self.q * log_rest).exp() * (log_rest.exp() - self.q * log_p.exp() * log_p)


class _Proportional(Curve):
    """phi = factor (1 - p), w = factor p (1 - p)."""

    factor: float

    def phi(self, margin: Tensor) -> Tensor:
        return self.factor * logsigmoid(-margin).exp()

    def w(self, margin: Tensor) -> Tensor:
        return self.factor * (logsigmoid(margin) + logsigmoid(-margin)).exp()

    def at_label_and_total(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """It is symmetric: the total is a constant, and summing it up would only put rounding into its gradient."""
        own = self.at_label(scores, labels)
        return own, torch.full_like(own, self.factor * (scores.shape[1] - 1))


@final
class MAE(_Proportional):
    """Mean absolute error: phi = 2 (1 - p), w = 2 p (1 - p). Symmetric; underfits with many classes.

    Args:
        options: keyword arguments of ``Loss``.

    >>> MAE().weight_at(torch.tensor([0.0, -30.0]))
    tensor([5.0000e-01, 1.8715e-13])

    Ghosh et al., 2017.
    """

    factor = 2


@final
class RCE(_Proportional):
    """Reverse cross entropy: phi = -A (1 - p), w = -A p (1 - p), where A replaces log 0.

    Args:
        A: the value that replaces log 0; below 0.
        options: keyword arguments of ``Loss``.

    >>> RCE(A=-4).value_at(0.0)
    tensor(2.)

    Wang et al., 2019.
    """

    def __init__(self, A: float = -4, **options: Unpack[Options]) -> None:  # noqa: N803 the literature's letter
        super().__init__(**options)
        self.A = number("A", A, below=0)
        self.factor = -self.A


@final
class GCE(Curve):
    """Generalised cross entropy: phi = (1 - p^q)/q, w = p^q (1 - p).

    It interpolates between cross entropy (q -> 0) and half the absolute error (q = 1).

    Args:
        q: from 0 (not included) to 1.
        options: keyword arguments of ``Loss``.

    >>> GCE(q=0.7).weight_at(torch.tensor(0.0))
    tensor(0.3078)

    Zhang & Sabuncu, 2018.
    """

    def __init__(self, q: float = 0.7, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.q = number("q", q, above=0, most=1)

    def phi(self, margin: Tensor) -> Tensor:
        return -torch.expm1(self.q * logsigmoid(margin)) / self.q

    def w(self, margin: Tensor) -> Tensor:
        return (self.q * logsigmoid(margin) + logsigmoid(-margin)).exp()


@final
class TruncatedGCE(Curve):
    """Truncated generalised cross entropy: ``GCE(q)`` where p > k, constant where p <= k.

    Samples with p <= k have zero weight. The loss therefore requires a partly trained model: with many classes, all
    samples of an untrained model have p < k.

    Args:
        q: as for ``GCE``.
        k: the probability up to which the loss is constant.
        options: keyword arguments of ``Loss``.

    >>> TruncatedGCE(q=0.7, k=0.5).weight_at(torch.tensor([-0.1, 0.1]))
    tensor([0.0000, 0.3026])

    Zhang & Sabuncu, 2018, section 3.3.
    """

    def __init__(self, q: float = 0.7, k: float = 0.5, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.q = number("q", q, above=0, most=1)
        self.k = number("k", k, above=0, below=1)
        self._threshold = math.log(self.k) - math.log1p(-self.k)

    def phi(self, margin: Tensor) -> Tensor:
        return -torch.expm1(self.q * logsigmoid(margin.clamp(min=self._threshold))) / self.q

    def w(self, margin: Tensor) -> Tensor:
        weight = (self.q * logsigmoid(margin) + logsigmoid(-margin)).exp()
        return torch.where(margin > self._threshold, weight, 0.0)

    def grid(self) -> Tensor:
        return merged([super().grid(), torch.tensor([self._threshold], dtype=torch.float64)])


@final
class SCE(Curve):
    """Symmetric cross entropy: phi = -(1 - q) log p + q (1 - p), w = (1 - q + q p)(1 - p).

    Args:
        q: the weight of reverse cross entropy, from 0 to 1.
        options: keyword arguments of ``Loss``.

    >>> SCE(q=0.5).value_at(0.0)
    tensor(0.5966)

    Wang et al., 2019; with a single parameter as in Ou & Zhang.
    """

    def __init__(self, q: float = 0.7, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.q = number("q", q, above=0, below=1)

    def phi(self, margin: Tensor) -> Tensor:
        return self.q * logsigmoid(-margin).exp() - (1 - self.q) * logsigmoid(margin)

    def w(self, margin: Tensor) -> Tensor:
        return (1 - self.q + self.q * logsigmoid(margin).exp()) * logsigmoid(-margin).exp()


@final
class TCE(Curve):
    """Taylor cross entropy: phi = sum over i = 1..q of (1 - p)^i / i, w = (1 - p)(1 - (1 - p)^q).

    Equal to half the absolute error for q = 1; it approaches cross entropy as q grows.

    Args:
        q: the number of terms.
        options: keyword arguments of ``Loss``.

    >>> TCE(q=2).value_at(0.0)
    tensor(0.6250)

    Feng et al., 2020.
    """

    def __init__(self, q: int = 2, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.q = whole_number("q", q, least=1)

    def phi(self, margin: Tensor) -> Tensor:
        rest = logsigmoid(-margin).exp()
        total = rest / self.q
        for i in range(self.q - 1, 0, -1):
            total = rest * (1 / i + total)
        return total

    def w(self, margin: Tensor) -> Tensor:
        log_rest = logsigmoid(-margin)
        return -log_rest.exp() * torch.expm1(self.q * log_rest)


@final
class AUL(Curve):
    """Asymmetric unhinged loss: phi = [(a - p)^q - (a - 1)^q]/q, w = p (1 - p) (a - p)^(q - 1).

    Args:
        a: above 1.
        q: the exponent, above 0.
        options: keyword arguments of ``Loss``.

    >>> AUL(a=1.5, q=2).value_at(0.0)
    tensor(0.3750)

    Zhou et al., 2021.
    """

    def __init__(self, a: float = 1.1, q: float = 5, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.a = number("a", a, above=1)
        self.q = number("q", q, above=0)

    def phi(self, margin: Tensor) -> Tensor:
        rest, least = logsigmoid(-margin).exp(), self.a - 1
        return -((least + rest) ** self.q) * torch.expm1(-self.q * torch.log1p(rest / least)) / self.q

    def w(self, margin: Tensor) -> Tensor:
        log_rest = logsigmoid(-margin)
        return (logsigmoid(margin) + log_rest + (self.q - 1) * (self.a - 1 + log_rest.exp()).log()).exp()


@final
class AGCE(Curve):
    """Asymmetric generalised cross entropy: phi = [(a + 1)^q - (a + p)^q]/q, w = p (1 - p) (a + p)^(q - 1).

    Args:
        a: above 0.
        q: the exponent, above 0.
        options: keyword arguments of ``Loss``.

    >>> AGCE(a=1, q=2).value_at(0.0)
    tensor(0.8750)

    Zhou et al., 2021. Table 1 of the curriculum paper prints (a + 1) without its power.
    """

    def __init__(self, a: float = 0.1, q: float = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.a, self.q = number("a", a, above=0), number("q", q, above=0)

    def phi(self, margin: Tensor) -> Tensor:
        most = self.a + 1
        return -math.pow(most, self.q) * torch.expm1(self.q * torch.log1p(-logsigmoid(-margin).exp() / most)) / self.q

    def w(self, margin: Tensor) -> Tensor:
        log_p = logsigmoid(margin)
        return (log_p + logsigmoid(-margin) + (self.q - 1) * (self.a + log_p.exp()).log()).exp()


@final
class AEL(Curve):
    """Asymmetric exponential loss: phi = exp(-p/q) - exp(-1/q), w = p (1 - p) exp(-p/q)/q.

    The constant makes the loss 0 at p = 1.

    Args:
        q: the scale of the exponent, above 0.
        options: keyword arguments of ``Loss``.

    >>> AEL(q=2.5).value_at(0.0)
    tensor(0.1484)

    Zhou et al., 2021.
    """

    def __init__(self, q: float = 2.5, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.q = number("q", q, above=0)

    def phi(self, margin: Tensor) -> Tensor:
        return -(-logsigmoid(margin).exp() / self.q).exp() * torch.expm1(-logsigmoid(-margin).exp() / self.q)

    def w(self, margin: Tensor) -> Tensor:
        log_p = logsigmoid(margin)
        return (log_p + logsigmoid(-margin) - log_p.exp() / self.q).exp() / self.q


@final
class IMAE(Curve):
    """Improved mean absolute error: w = exp(T p (1 - p))/2, the weights of the absolute error with more contrast.

    As the margin grows, w approaches 1/2 and not 0, so the integral that defines the loss in the paper diverges. The
    value here is a potential with the same gradient: phi = -margin/2 + (1/2) integral over t > margin of exp(T
    sigmoid(t) sigmoid(-t)) - 1, a linear loss plus a bounded term. The paper uses T = 8 with noise and T = 0.5 without.

    Args:
        T: the contrast of the weights, 0 or more.
        options: keyword arguments of ``Loss``.

    >>> IMAE(T=8).weight_at(torch.tensor([-40.0, 0.0, 40.0]))
    tensor([0.5000, 3.6945, 0.5000])

    Wang et al., "IMAE for noise-robust learning", Eq. 10.
    """

    def __init__(self, T: float = 8, **options: Unpack[Options]) -> None:  # noqa: N803 the paper's letter
        super().__init__(**options)
        # The weight is exp(T/4)/2 at its peak, and must stay a float32.
        self.T = number("T", T, least=0, most=300)
        self._whole = 2 * float(self._integral(torch.tensor(0.5, dtype=torch.float64)))

    def phi(self, margin: Tensor) -> Tensor:
        """With u the smaller of p and 1 - p, the bounded term is F(u) or 2 F(1/2) - F(u), where F(u) is the integral
        from 0 to u of (exp(T v (1 - v)) - 1)/(v (1 - v)) dv: entire in v, so a few Gauss points are exact.
        """
        bump = self._integral((-margin.abs()).sigmoid())
        return 0.5 * (torch.where(margin < 0, self._whole - bump, bump) - margin)

    def w(self, margin: Tensor) -> Tensor:
        return 0.5 * (self.T * (logsigmoid(margin) + logsigmoid(-margin)).exp()).exp()

    def _integral(self, u: Tensor) -> Tensor:
        if self.T == 0:
            return torch.zeros_like(u)
        u = u.clamp(min=1e-30)  # so that the quotient below is never 0/0
        points, weights = (part.to(u) for part in _GAUSS)
        total = torch.zeros_like(u)
        together = len(points) if u.numel() <= 1 << 16 else 1  # few samples: all at once; many: without the memory
        for i in range(0, len(points), together):
            v = u.unsqueeze(-1) * points[i : i + together]
            z = self.T * v * (1 - v)
            total = total + (weights[i : i + together] * torch.expm1(z) / z).sum(-1)
        return self.T * u * total


_GAUSS = gauss(16)  # to rounding for T <= 40, 2e-8 of the value for T = 300 (against mpmath)

COMPILED |= {
    CE: (KINDS["ce"], ()),
    Focal: (KINDS["focal"], ("q",)),
    MAE: (KINDS["proportional"], ("factor",)),
    RCE: (KINDS["proportional"], ("factor",)),
    GCE: (KINDS["gce"], ("q",)),
    TruncatedGCE: (KINDS["truncated_gce"], ("q", "_threshold")),
    SCE: (KINDS["sce"], ("q",)),
    TCE: (KINDS["tce"], ("q",)),
    AUL: (KINDS["aul"], ("a", "q")),
    AGCE: (KINDS["agce"], ("a", "q")),
    AEL: (KINDS["ael"], ("q",)),
    IMAE: (KINDS["imae"], ("T", "_whole")),
}
