"""Simulated reviews of audits that are right and wrong in different ways: errors of the noise rate, and its interval.

    python -m benchmarks.reviews [--out docs/results/reviews.json] [--repeats 200]

An audit claims log-odds for 3,000 labels; the labels are wrong with another probability. Some are reviewed: a hundred
at random, the first suspects, all suspects, or both. Takes two minutes.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from pyrite.arrays import Floats, Ints
from pyrite.auditing.probabilities import Recalibration, exact_estimate, stratify
from pyrite.files import write

SAMPLES = 3000

TRUTHS: dict[str, Callable[[Floats], Floats]] = {
    "as claimed": expit,
    "too sure": lambda score: expit(0.5 * score),
    "not sure enough": lambda score: expit(1.5 * score),
    "too few": lambda score: expit(score + 1.5),
    "too many": lambda score: expit(score - 1.5),
    "5 % hidden": lambda score: 0.05 + 0.95 * expit(score),  # the audit is sure of labels that are wrong
    "a fifth right": lambda score: 0.8 * expit(score),  # of those that the audit is sure are wrong
    "nearly clean": lambda score: expit(score - 4),
}
"""The probability of a wrong label, by the log-odds that an audit claims."""

CLAIMS = {"sharp": (0.2, (6, 3), (-8, 3)), "soft": (0.2, (2, 1.5), (-4, 1.5)), "rare": (0.02, (2, 2), (-7, 2))}
"""The share of labels that look wrong, and mean and standard deviation of the log-odds of these and of the others."""

REVIEWED = ("100 random", "100 random and 100 suspects", "100 random and all suspects", "100 suspects", "all suspects")


class Outcome(NamedTuple):
    """The error of the rate, whether its interval holds the true rate, and its width; then those of the exact one."""

    error: float
    held: bool
    width: float
    exact_held: bool
    exact_width: float


def chosen(how: str, score: Floats, random: np.random.Generator) -> Ints:
    drawn, ranking = random.permutation(SAMPLES)[:100], np.argsort(-score)
    suspects = ranking[: int((score > 0).sum())] if "all" in how else ranking[:100]
    parts = [*([drawn] if "random" in how else []), *([suspects] if "suspects" in how else [])]
    return np.unique(np.concatenate(parts))


def simulate(truth: str, how: str, claims: str, seed: int) -> Outcome:
    random = np.random.default_rng([seed, 1])
    share, high, low = CLAIMS[claims]
    score = np.where(random.random(SAMPLES) < share, random.normal(*high, SAMPLES), random.normal(*low, SAMPLES))
    wrong = random.random(SAMPLES) < TRUTHS[truth](score)
    rows, strata, rate = chosen(how, score, random), stratify(score), float(wrong.mean())
    found = strata.counts(rows), strata.counts(rows[wrong[rows]])
    got = Recalibration.fit(strata, *found).estimate(strata.size - found[0], int(wrong[rows].sum()), SAMPLES)
    exact = exact_estimate(int(wrong[random.permutation(SAMPLES)[:100]].sum()), 100)
    held = got.low - 1e-12 <= rate <= got.high + 1e-12
    return Outcome(got.value - rate, held, got.high - got.low, exact.low <= rate <= exact.high, exact.high - exact.low)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/reviews.json"))
    parser.add_argument("--repeats", type=int, default=200)
    asked = parser.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    for how in REVIEWED:
        for truth in TRUTHS:
            every = [simulate(truth, how, claims, seed) for claims in CLAIMS for seed in range(asked.repeats)]
            means = np.array(every, float).mean(0)
            spread = float(np.std([outcome.error for outcome in every]))
            results.setdefault(how, {})[truth] = Outcome(*means.tolist())._asdict() | {"deviation": spread}
            print(how, truth, {name: round(value, 3) for name, value in results[how][truth].items()}, flush=True)
    write(asked.out, (json.dumps(results, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
