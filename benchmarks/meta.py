"""What a step with learned weights costs, over a plain cross-entropy step of the same net.

    python -m benchmarks.meta [--rounds 7] [--models resnet32 fast_cnn] [--threads 2]

Batches of 100 training and 100 meta images of 32 x 32, channels last, SGD with momentum, float32. Runs are interleaved:
each round makes one step of every form, and a figure is the median over rounds of its time over that round's plain
step. Memory is the peak of what torch allocates in a step, over that of the plain step. "double backward" is the public
way: a graph of the gradient through the virtual step, and a pass of its own for the real one.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

import pyrite
from benchmarks.memory import peak_bytes
from pyrite.data import Batch, Batches
from pyrite.methods import Context, Learner, WeightNet, method
from pyrite.models import build_model

FORMS = {
    "plain": "erm(ce)",
    "exact": "meta_weight",
    "lean": "meta_weight(gradient='lean')",
    "exact, every 5": "meta_weight(every=5)",
    "l2rw": "l2rw",
}


def images(seed: int) -> Batches:
    rows = np.random.default_rng(seed)
    return Batches(
        rows.integers(256, size=(100, 3, 32, 32), dtype=np.uint8), rows.integers(10, size=100), batch_size=100, seed=0
    )


def learner(model: str) -> Learner:
    net = build_model(model, (3, 32, 32), 10, seed=0).to(memory_format=torch.channels_last)
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


def forms(model: str) -> dict[str, Callable[[], object]]:
    batch = next(iter(images(0)))
    made: dict[str, Callable[[], object]] = {}
    for name, spec in FORMS.items():
        made_by = learner(model)
        context = Context(images(0), lambda number, epochs, own=made_by: own, epochs=1, classes=10, meta=images(1))
        learning = method(spec).start(context)
        made[name] = lambda learning=learning: learning.step(batch)
    made["double backward"] = double_backward(learner(model), batch, next(iter(images(1))))
    return made


def double_backward(own: Learner, batch: Batch, meta: Batch) -> Callable[[], None]:
    net, ce = WeightNet(), nn.CrossEntropyLoss(reduction="none")
    inputs, guide = own.ready(batch.inputs), own.ready(meta.inputs)

    def step() -> None:
        weights = dict(own.model.named_parameters())
        first = ce(functional_call(own.model, weights, (inputs,)), batch.labels)
        trust = net(first.detach().unsqueeze(1)).squeeze(1)
        virtual = torch.autograd.grad(first @ trust / trust.sum(), list(weights.values()), create_graph=True)
        moved = {name: w - 0.01 * g for (name, w), g in zip(weights.items(), virtual, strict=True)}
        value = pyrite.MAE()(functional_call(own.model, moved, (guide,)), meta.labels)
        gradients = torch.autograd.grad(value, list(net.parameters()))
        with torch.no_grad():
            for weight, part in zip(net.parameters(), gradients, strict=True):
                weight -= 1e-3 * part
        losses = ce(own.scores(inputs), batch.labels)
        own.optimiser.zero_grad()
        (losses * net(losses.detach().unsqueeze(1)).squeeze(1).detach()).mean().backward()
        own.update()

    return step


def seconds(run: Callable[[], object], times: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - began) / times


def measure(model: str, rounds: int) -> None:
    made = forms(model)
    for run in made.values():
        run()
    ratios: dict[str, list[float]] = {name: [] for name in made}
    base = []
    for _ in range(rounds):
        # Five steps of what does its work in every fifth.
        taken = {name: seconds(run, 5 if "every" in name else 1) for name, run in made.items()}
        base.append(taken["plain"])
        for name, value in taken.items():
            ratios[name].append(value / taken["plain"])
    plain = peak_bytes(made["plain"])
    print(f"\n{model}: a plain step takes {1e3 * statistics.median(base):.0f} ms and {plain / 2**20:.0f} MiB")
    for name, run in made.items():
        # The first of five is the one that learns: four steps are made unseen, then one is looked at.
        for _ in range(4 if "every" in name else 0):
            run()
        print(f"{name:16} time {statistics.median(ratios[name]):5.2f}  memory {peak_bytes(run) / plain:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="What a step with learned weights costs.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--models", nargs="+", default=["resnet32", "fast_cnn"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"pyrite {pyrite.__version__}, torch {torch.__version__}, {given.threads} threads, {given.rounds} rounds")
    for model in given.models:
        measure(model, given.rounds)


if __name__ == "__main__":
    main()
