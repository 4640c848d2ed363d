"""How much is lost by the rule of ``keep="best"``, in simulated runs, beside other thresholds.

    python -m benchmarks.best_epoch

A run is a curve of true accuracies over 30 epochs. A held-out label is predicted in an epoch if a normal number of its
own, which wanders a little from epoch to epoch, is below the quantile of the accuracy. So epochs agree on most labels,
as those of a net do. Printed is what the saved epoch lacks to the best one, in points, as a mean over runs.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

EPOCHS, RUNS = 30, 200
OWN, STAYS, MOVES = 0.9, 0.8, 0.005  # share of a label's own number, of the rest from an epoch to the next; accuracy
DONE = np.linspace(0, 1, EPOCHS)
CURVES = {
    "grows to the end": 0.6 * (1 - np.exp(-4 * DONE)),
    "flat from 20 % on": 0.6 * np.minimum(1, DONE / 0.2),
    "loses 3 points": 0.6 * np.minimum(1, DONE / 0.3) - 0.03 * np.maximum(0, DONE - 0.4) / 0.6,
    "loses 10 points": 0.6 * np.minimum(1, DONE / 0.3) - 0.10 * np.maximum(0, DONE - 0.4) / 0.6,
}
THRESHOLDS = {"best": 0.0, "1 s.e.": 1.0, "√(2 ln E) s.e.": math.sqrt(2 * math.log(EPOCHS)), "last": math.inf}


def hits(accuracy: npt.NDArray[np.float64], count: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which of ``count`` held-out labels are predicted in each epoch."""
    rest = rng.normal(size=(EPOCHS, count))
    for epoch in range(1, EPOCHS):
        rest[epoch] = STAYS * rest[epoch - 1] + math.sqrt(1 - STAYS**2) * rest[epoch]
    own = math.sqrt(OWN) * rng.normal(size=count) + math.sqrt(1 - OWN) * rest
    return np.asarray(own < ndtri(accuracy)[:, None])


def saved(found: npt.NDArray[np.bool_], threshold: float) -> int:
    """The best epoch, the later of equals, if it beats the last by so many standard errors; else the last."""
    counts, last = found.sum(1), EPOCHS - 1
    best = int(last - counts[::-1].argmax())
    differing = int((found[best] != found[last]).sum())
    ahead = best != last and counts[best] - counts[last] > (threshold * math.sqrt(differing) if threshold else 0)
    return best if ahead else last


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'held out':>8}  {'curve':18}" + "".join(f"{name:>16}" for name in THRESHOLDS))
    for count in (90, 500, 2500):
        for name, curve in CURVES.items():
            lost = dict.fromkeys(THRESHOLDS, 0.0)
            for _ in range(RUNS):
                accuracy = np.clip(curve + rng.normal(0, MOVES, EPOCHS), 0.01, 0.99)
                found = hits(accuracy, count, rng)
                for rule, threshold in THRESHOLDS.items():
                    lost[rule] += 100 * (accuracy.max() - accuracy[saved(found, threshold)]) / RUNS
            print(f"{count:8}  {name:18}" + "".join(f"{value:16.2f}" for value in lost.values()), flush=True)


if __name__ == "__main__":
    main()
