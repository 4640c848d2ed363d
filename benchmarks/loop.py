"""Training by ``pyrite.train`` as a ratio to a plain loop of torch, in processor time.

    python -m benchmarks.loop [--rounds 9] [--epochs 30] [--profile]

Both train the same net on the same samples, with the same optimiser, schedule and batches of the same size, and
evaluate the test part after every epoch. The plain loop writes and records nothing; ``pyrite.train`` does all that it
does by default. Runs are interleaved in one process, with one thread. Processor time does not depend on what other
processes do, or little. Results belong in docs/performance.md, with the machine they were measured on.
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

import torch
import torch.nn.functional as F

import pyrite
from pyrite.data import Dataset, load
from pyrite.models import build_model

GOAL = 1.3
BATCH = 128
MODEL = "mlp"
Training = Callable[[Dataset, int, int], float]


def plain(data: Dataset, epochs: int, seed: int) -> float:
    """The loop that people write; returns the test accuracy."""
    assert data.test is not None
    generator = torch.Generator().manual_seed(seed)
    inputs, tests = (torch.from_numpy(part.numeric).float() for part in (data, data.test))
    std, mean = torch.std_mean(inputs)
    inputs, tests = (inputs - mean) / std, (tests - mean) / std
    labels, answers = (torch.from_numpy(part.labels).long() for part in (data, data.test))
    net = build_model(MODEL, inputs.shape[1:], len(data.classes), seed)
    optimiser = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--profile", action="store_true", help="where the time of pyrite.train goes, in place of it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data, epochs = load("digits"), arguments.epochs
    accuracies = [train(data, epochs, 0) for train in (plain, ours)]
    if arguments.profile:
        with cProfile.Profile() as profile:
            ours(data, epochs, 1)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    taken = [
        (seconds(ours, data, epochs, seed), seconds(plain, data, epochs, seed)) for seed in range(arguments.rounds)
    ]
    low, middle, high = statistics.quantiles([mine / theirs for mine, theirs in taken], n=4, method="inclusive")
    load_now = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    print(
        f"test accuracy after {epochs} epochs: plain {accuracies[0]:.3f}, pyrite.train {accuracies[1]:.3f}; {load_now}"
    )
    print("| training | ÷ | processor time (half of the rounds) | goal | seconds |")
    print("|---|---|---|---|---|")
    mine, theirs = (statistics.median(column) for column in zip(*taken, strict=True))
    what = f"| digits with `{MODEL}`, {epochs} epochs | plain loop | {middle:.2f} ({low:.2f} to {high:.2f}) | ≤ {GOAL}"
    print(f"{what} | {mine:.2f}, {theirs:.2f} |")


if __name__ == "__main__":
    main()
