"""Training by ``pyrite.train`` as a ratio to a plain loop of torch, in processor time.

    python -m benchmarks.loop [--rounds 15] [--epochs 30] [--fused] [--profile]

Both train the same net on the same samples, with the same optimiser, schedule and batches of the same size, and
evaluate the test part after every epoch. The plain loop writes and records nothing; ``pyrite.train`` does all that it
does by default, which includes a fused optimiser. ``--fused`` gives the plain loop one too. Runs are interleaved in one
process, with one thread. Processor time does not depend on what other processes do, or little. Results belong in
docs/performance.md, with the machine they were measured on.
"""

import argparse
import cProfile
import math
import os
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

import pyrite
from pyrite.data import Dataset, load
from pyrite.models import build_model

GOAL = 1.3
EPOCHS = 30
BATCH = 128
MODEL = "mlp"
Training = Callable[[Dataset, int, int], float]


def plain(data: Dataset, epochs: int, seed: int, fused: bool | None = None) -> float:
    """The loop that people write; returns the test accuracy."""
    assert data.test is not None
    generator = torch.Generator().manual_seed(seed)
    inputs, tests = (torch.from_numpy(part.numeric).float() for part in (data, data.test))
    std, mean = torch.std_mean(inputs)
    inputs, tests = (inputs - mean) / std, (tests - mean) / std
    labels, answers = (torch.from_numpy(part.labels).long() for part in (data, data.test))
    net = build_model(MODEL, inputs.shape[1:], len(data.classes), seed)
    options = {"momentum": 0.9, "nesterov": True, "weight_decay": 5e-4, "fused": fused}
    optimiser = torch.optim.SGD(net.parameters(), 0.1, **options)  # type: ignore[arg-type]
    steps = epochs * -(-len(labels) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    accuracy = 0.0
    for _ in range(epochs):
        net.train()
        for rows in torch.randperm(len(labels), generator=generator).split(BATCH):
            optimiser.zero_grad()
            loss = F.cross_entropy(net(inputs[rows]), labels[rows])
            loss.backward()
            optimiser.step()
            schedule.step()
            if not math.isfinite(loss.item()):
                raise FloatingPointError(f"the loss is {loss.item()}")
        net.eval()
        with torch.inference_mode():
            accuracy = float((net(tests).argmax(1) == answers).float().mean())
    return accuracy


def ours(data: Dataset, epochs: int, seed: int) -> float:
    """The same by ``pyrite.train``, into a folder that is removed; returns the test accuracy."""
    with tempfile.TemporaryDirectory() as place:
        run = pyrite.train(
            data, model=MODEL, loss="ce", epochs=epochs, batch_size=BATCH, seed=seed, out=f"{place}/run", progress=False
        )
        return float(run.history[-1]["test_accuracy"])


def seconds(train: Training, data: Dataset, epochs: int, seed: int) -> float:
    start = time.process_time()
    train(data, epochs, seed)
    return time.process_time() - start


def load_average() -> str:
    """How many processes wanted a core, over 1, 5 and 15 minutes; above the number of cores, times are unreliable."""
    return ", ".join(f"{number:.1f}" for number in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def row(rounds: int, epochs: int = EPOCHS, fused: bool = False) -> str:
    """A row of the table of ``benchmarks.losses``: the ratio, with the middle half of the rounds."""
    torch.set_num_threads(1)
    data = load("digits")
    other = partial(plain, fused=True) if fused else plain
    accuracies = [train(data, epochs, 0) for train in (other, ours)]
    taken = [(seconds(ours, data, epochs, seed), seconds(other, data, epochs, seed)) for seed in range(rounds)]
    low, middle, high = statistics.quantiles([mine / theirs for mine, theirs in taken], n=4, method="inclusive")
    mine, theirs = (statistics.median(column) for column in zip(*taken, strict=True))
    what = f"{epochs} epochs in {mine:.2f} and {theirs:.2f} s of processor time"
    what += f", test accuracy {accuracies[1]:.3f} and {accuracies[0]:.3f}"
    times = f"{middle:.2f} ({low:.2f} to {high:.2f}) | ≤ {GOAL:g}"
    than = "plain loop, fused optimiser" if fused else "plain loop"
    return f"| digits with `{MODEL}`, {what} | `pyrite.train` | {than} | {times} | | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--fused", action="store_true", help="the plain loop has a fused optimiser, as pyrite.train")
    parser.add_argument("--profile", action="store_true", help="where the time of pyrite.train goes, in place of it")
    arguments = parser.parse_args()
    if not arguments.profile:
        print(f"load {load_average()} before")
        print(row(arguments.rounds, arguments.epochs, arguments.fused))
        return
    torch.set_num_threads(1)
    data = load("digits")
    ours(data, arguments.epochs, 0)
    with cProfile.Profile(time.process_time) as profile:
        ours(data, arguments.epochs, 1)
    pstats.Stats(profile).sort_stats("cumtime").print_stats("pyrite|torch/optim", 60)


if __name__ == "__main__":
    main()
