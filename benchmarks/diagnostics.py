"""The diagnostics' share of training time: ResNet-20, batch 128, 50,000 samples of 10 classes.

    python -m benchmarks.diagnostics

Training steps and observed batches alternate, so that what else the machine does hits both alike. What is observed is
everything a loop would do for it: margins, weights and predictions from the scores, and all streaming accumulators;
then what the end of an epoch costs. Passes over the test or training set are not among it.

Seconds are those of the processor, on one thread: with more, threads of a busy machine wait for each other, and the
training step, which has most of them, would look dearer than it is. On n threads the share is at most n times this.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import pyrite
from benchmarks.loading import resnet20
from pyrite.diagnostics import Tally, detection
from pyrite.training import Record

SAMPLES, BATCH, CLASSES = 50_000, 128, 10
STEPS = -(-SAMPLES // BATCH)


def observe(record: Record, loss: pyrite.Curve, scores: torch.Tensor, index: np.ndarray) -> list[float]:
    """Seconds to read margins, weights and predictions off the scores, and to write them down."""
    labels = torch.from_numpy(record.given)[torch.from_numpy(index)]
    began = time.process_time()
    with torch.no_grad():
        margin = pyrite.margin(scores, labels)
        weight, prediction = loss.weight_at(margin), scores.argmax(1)
    read = time.process_time()
    record.update(index, margin, prediction, weight, learning_rate=0.1)
    return [read - began, time.process_time() - read]


def main() -> None:
    parser = argparse.ArgumentParser(description="The diagnostics' share of training ResNet-20 at batch 128.")
    parser.add_argument("--steps", type=int, default=30, help="training steps to measure")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, SAMPLES)
    given = np.where(rng.random(SAMPLES) < 0.4, rng.integers(0, CLASSES, SAMPLES), true)
    record, loss = Record(given, true), pyrite.GCE(q=0.7)
    images, model = torch.randn(BATCH, 3, 32, 32), resnet20()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    training, observing = [], []
    order = np.array_split(rng.permutation(SAMPLES), STEPS)
    for number, index in enumerate(order):
        scores = torch.randn(len(index), CLASSES)
        if number < steps + 5:
            began = time.process_time()
            optimiser.zero_grad()
            cross_entropy(model(images), torch.from_numpy(given[index[:1]]).expand(BATCH)).backward()
            optimiser.step()
            if number >= 5:  # the first are slower
                training.append(time.process_time() - began)
        seconds = observe(record, loss, scores, index)
        if 5 <= number < steps + 5:  # those that come cold from a training step, as they would
            observing.append(seconds)
    began = time.process_time()
    record.end_epoch(Tally(8_000, 10_000))
    ending = time.process_time() - began
    began = time.process_time()
    state = record.state_dict()
    saving = time.process_time() - began
    began = time.process_time()
    detection(-record.columns["margin_mean"], given != true, at=[100, 1000])
    detecting = time.process_time() - began
    report(training, observing, ending, saving, detecting, state)


def report(
    training: list[float],
    observing: list[list[float]],
    ending: float,
    saving: float,
    detecting: float,
    state: dict[str, object],
) -> None:
    step = statistics.median(training)
    read, write = (statistics.median(part) for part in zip(*observing, strict=True))
    total = STEPS * (read + write) + ending
    size = sum(value.nbytes for value in state.values() if isinstance(value, np.ndarray))
    print(f"one thread, processor time, median of {len(training)} steps of {BATCH} images")
    print(f"training step               {1e3 * step:9.3f} ms")
    print(f"margins, weights, classes   {1e3 * read:9.3f} ms a batch")
    print(f"all accumulators            {1e3 * write:9.3f} ms a batch")
    print(f"end of an epoch             {1e3 * ending:9.3f} ms")
    print(f"an epoch of {SAMPLES}         {1e3 * total:9.1f} ms, of {STEPS * step:.0f} s training")
    print(f"the diagnostics' share      {100 * total / (STEPS * step):9.3f} % of training (goal: at most 10 %)")
    print(f"state for a resume          {1e3 * saving:9.3f} ms, {size / SAMPLES:.0f} bytes a sample")
    print(f"detection, once             {1e3 * detecting:9.3f} ms")


if __name__ == "__main__":
    main()
