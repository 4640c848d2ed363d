"""Where margins start: with i.i.d. normal scores, the state of an untrained network with K classes."""

import math

import numpy as np

from pyrite.checks import number, require, whole_number
from pyrite.errors import PyriteError

# The integral takes time and room with the square of the spread; no untrained model's scores spread so far.
_LARGEST_SPREAD = 50

# Simulating takes time with their number: a minute for 20,000 samples of this many classes.
MOST_CLASSES = 100_000


def expected_margin(classes: int, sigma: float = 1.0, exact: bool = False) -> float:
    """The mean soft margin of an untrained model with this many classes, whose scores have spread ``sigma``.

    By default Eq. 4 of the curriculum paper, ``-log(K - 1) - sigma^2/2 + (exp(sigma^2) - 1)/(2 (K - 1))``, a
    second-order approximation; with ``exact`` the integral itself, for ``sigma`` up to 50. They differ by 0.0002 at 100
    classes and by 0.014 at 10. By Jensen's inequality the mean lies between -log(K - 1) - sigma^2/2 and -log(K - 1);
    where the approximation does not, as with 2 classes or a large spread, it is refused.

    >>> round(expected_margin(100), 4), round(expected_margin(100, exact=True), 4)
    (-5.0864, -5.0867)

    Ou & Zhang, "A curriculum view of robust loss functions", section 5.1.
    """
    others = whole_number("classes", classes, least=2) - 1
    sigma = number("sigma", sigma, above=0)
    if exact:
        require(sigma <= _LARGEST_SPREAD, "sigma", sigma, f"at most {_LARGEST_SPREAD} for the exact mean")
        return -_mean_log_sum(others, sigma)
    variance = min(sigma, 26.0) ** 2  # so far its exponential is a float, and long since too large
    second = math.expm1(variance) / (2 * others)
    if second > variance / 2:
        raise PyriteError(
            f"sigma is {sigma!r} and classes {classes}, where the approximation is of no use: give exact=True"
        )
    return -math.log(others) - variance / 2 + second


def initial_margins(classes: int, sigma: float = 1.0, samples: int = 20_000, seed: int = 0) -> np.ndarray:
    """Simulated margins of an untrained model, sorted: the distribution behind ``expected_margin``.

    For up to 100,000 classes.
    """
    classes, sigma = whole_number("classes", classes, least=2), number("sigma", sigma, above=0)
    require(classes <= MOST_CLASSES, "classes", classes, f"at most {MOST_CLASSES:,}, as margins are simulated")
    samples = whole_number("samples", samples, least=1)
    generator = np.random.default_rng(seed)
    drawn = np.empty(samples)
    rows = max(1, 2_000_000 // classes)
    for start in range(0, samples, rows):
        scores = generator.normal(0.0, sigma, (min(rows, samples - start), classes))
        top = scores[:, 1:].max(1)
        mass = np.exp(scores[:, 1:] - top[:, None]).sum(1)
        drawn[start : start + rows] = scores[:, 0] - top - np.log(mass)
    return np.sort(drawn)


def _mean_log_sum(count: int, sigma: float) -> float:
    """E log of a sum of ``count`` log-normal variables X, from log x = integral of (e^-t - e^-xt)/t dt.

    So it is the integral over u of exp(-e^u) - M(e^u)^count with M(t) = E exp(-tX). Both integrals have smooth
    integrands that die off, where equal steps are exact to rounding.
    """
    step = 0.2
    # Steps of 0.25 in the normal variable or in log X; beyond 9 it has no part that a float64 could show.
    z = np.arange(-9, 9, 0.25 / max(1.0, sigma))
    normal = np.exp(-z * z / 2)
    normal /= normal.sum()
    # Down to where the difference is t * count * E X < 1e-17, up to where the smallest X still matters.
    low = -40.0 - math.log(count) - min(sigma**2 / 2, 9 * sigma)
    u = np.arange(low, 9 * sigma + 5, step)
    total = 0.0
    for part in np.array_split(u, 1 + len(u) * len(z) // 1_000_000):  # a few megabytes at a time
        # 1 - M is what has digits where M is nearly 1, and a large power of it is asked for.
        rest = np.minimum(_distribution(part[:, None] + sigma * z) @ normal, 1 - 1e-16)
        total += float(np.sum(-np.expm1(count * np.log1p(-rest)) - _distribution(part)))
    return total * step


def _distribution(u: np.ndarray) -> np.ndarray:
    """1 - exp(-exp(u)), which is 1 long before exp(u) overflows."""
    probability: np.ndarray = -np.expm1(-np.exp(np.minimum(u, 700.0)))
    return probability
