"""How fast the small nets train, and how far the default net comes on CIFAR-10 in ten epochs.

    python -m benchmarks.models             images a second of a training step, batch 128, images of CIFAR's size
    python -m benchmarks.models --cifar10   train the default net on the clean labels, from the folder PYRITE_DATA

The nets take turns, so that what else the machine does hits them alike. What is trained and how, stands in ``Recipe``.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import pyrite
from pyrite.data import Batches, CropFlip, Dataset, Statistics
from pyrite.models import architecture

SMALL = ("fast_cnn", "mlp", "cnn4", "cnn8", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "wrn(28, 2)")


@dataclass(frozen=True)
class Recipe:
    """Nesterov SGD, a rate that rises for a fifth of the time and then falls to nothing, flips and shifts."""

    model: str = "fast_cnn"
    epochs: int = 10
    batch_size: int = 256
    rate: float = 0.4
    momentum: float = 0.85
    decay: float = 2e-3
    smoothing: float = 0.0
    shift: int = 2
    seed: int = 0

    def rate_at(self, share: float) -> float:
        """The learning rate when this share of the steps is done."""
        rise = 0.2
        return self.rate * (0.2 + 0.8 * share / rise if share < rise else (1 - share) / (1 - rise))


def step(net: nn.Module, optimiser: torch.optim.Optimizer, inputs: Tensor, labels: Tensor, smoothing: float) -> None:
    optimiser.zero_grad()
    cross_entropy(net(inputs), labels, label_smoothing=smoothing).backward()
    optimiser.step()


def optimiser_of(net: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    return torch.optim.SGD(
        net.parameters(), lr=recipe.rate, momentum=recipe.momentum, weight_decay=recipe.decay, nesterov=True
    )


def speeds(names: tuple[str, ...], steps: int, batch: int = 128) -> dict[str, float]:
    """Images a second in the median of the steps."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(batch, 3, 32, 32, generator=generator).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), generator=generator)
    nets = [architecture(name).build((3, 32, 32), 10, seed=0).to(memory_format=torch.channels_last) for name in names]
    optimisers = [optimiser_of(net, Recipe()) for net in nets]
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(steps + 1):
        for name, net, optimiser in zip(names, nets, optimisers, strict=True):
            began = time.perf_counter()
            step(net, optimiser, inputs, labels, smoothing=0)
            times[name].append(time.perf_counter() - began)
    return {name: batch / statistics.median(taken[1:]) for name, taken in times.items()}  # the first is slower


def parts(data: Dataset, held_out: int) -> tuple[Dataset, Dataset]:
    """What is trained on and what is tested on: the official parts, or the training part without its last images, and
    these. A recipe is chosen with images held out, never with those it is judged by in the end.
    """
    assert data.test is not None
    if not held_out:
        return data, data.test
    cut = len(data) - held_out
    first, last = (
        Dataset(data.name, data.inputs[rows], data.labels[rows], data.classes)
        for rows in (slice(cut), slice(cut, None))
    )
    return first, last


def train(data: Dataset, test: Dataset, recipe: Recipe, samples: int | None) -> Iterator[tuple[int, float, float]]:
    """The accuracy on the test images after each epoch, and the seconds it took to train it."""
    assert isinstance(data.inputs, np.ndarray)
    index = None if samples is None else np.arange(samples)
    scale = Statistics.of(data.inputs, index)
    batches = Batches(
        data.inputs,
        data.labels,
        batch_size=recipe.batch_size,
        seed=recipe.seed,
        index=index,
        augment=CropFlip(pad=recipe.shift, edge="reflect"),
        normalise=scale,
        drop_last=True,
    )
    plain = Batches(data.inputs, data.labels, batch_size=2048, seed=recipe.seed, index=index, normalise=scale)
    net = architecture(recipe.model).build(
        data.inputs.shape[1:], len(data.classes), recipe.seed, inputs=next(iter(plain)).inputs
    )
    net = net.to(memory_format=torch.channels_last)
    optimiser, done, total = optimiser_of(net, recipe), 0, recipe.epochs * len(batches)
    for epoch in range(1, recipe.epochs + 1):
        began = time.perf_counter()
        net.train()
        for batch in batches:
            optimiser.param_groups[0]["lr"] = recipe.rate_at(done / total)
            inputs = batch.inputs.contiguous(memory_format=torch.channels_last)
            step(net, optimiser, inputs, batch.labels, recipe.smoothing)
            done += 1
        seconds = time.perf_counter() - began
        yield epoch, accuracy(net, test, scale), seconds


@torch.inference_mode()
def accuracy(net: nn.Module, data: Dataset, scale: Statistics) -> float:
    """The share of images that get the right class: each is looked at once, as it is."""
    net.eval()
    batches = Batches(data.inputs, data.labels, batch_size=500, seed=0, shuffle=False, normalise=scale)
    right = sum(int((net(batch.inputs).argmax(1) == batch.labels).sum()) for batch in batches)
    return right / len(data)


def show_speeds(steps: int) -> None:
    print(f"images a second, training step, batch 128, float32, channels_last; median of {steps}; {versions()}")
    for name, speed in speeds(SMALL, steps).items():
        net = architecture(name).build((3, 32, 32), 10, seed=0)
        print(f"{name:12} {count(net) / 1e6:8.2f} M {speed:8.0f} /s")


def show_training(recipe: Recipe, samples: int | None, held_out: int) -> None:
    print(f"{recipe}; samples {samples or 'all'}; {versions()}", flush=True)
    word = f"accuracy on {held_out} held out" if held_out else "test accuracy"
    final = 0.0
    for epoch, final, seconds in train(*parts(pyrite.data.load("cifar10"), held_out), recipe, samples):
        print(f"epoch {epoch:3}  {word} {100 * final:6.2f} %  {seconds:6.1f} s", flush=True)
    print(f"final {word} {100 * final:.2f} %, seed {recipe.seed}")


def count(net: nn.Module) -> int:
    return sum(weight.numel() for weight in net.parameters())


def versions() -> str:
    return f"pyrite {pyrite.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads"


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the nets, or the default net on clean CIFAR-10.")
    parser.add_argument("--cifar10", action="store_true", help="train on CIFAR-10 instead of measuring speeds")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--samples", type=int, help="train on the first so many images only")
    parser.add_argument("--held-out", type=int, default=0, help="test on so many training images, which are left out")
    fields = Recipe()
    for name in Recipe.__dataclass_fields__:
        default = getattr(fields, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    given = vars(parser.parse_args())
    if given["cifar10"]:
        show_training(
            Recipe(**{name: given[name] for name in Recipe.__dataclass_fields__}), given["samples"], given["held_out"]
        )
    else:
        show_speeds(given["steps"])


if __name__ == "__main__":
    main()
