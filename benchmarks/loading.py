"""The loader's share of a training step: ResNet-20, batch 128, images of CIFAR's size.

    python -m benchmarks.loading

Steps with and without the loader alternate, so that what else the machine does hits both alike. The images are random,
which no part of the loader can notice.
"""

import argparse
import statistics
import time
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad, relu

from pyrite.data import Batches, CropFlip, Statistics


class Block(nn.Module):
    """Two convolutions and a shortcut without weights."""

    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.grow = channels - before
        self.stride = 2 if self.grow else 1
        self.first = nn.Conv2d(before, channels, 3, self.stride, 1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        out = self.norms[1](self.second(relu(self.norms[0](self.first(x)))))
        shortcut = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.grow))
        return relu(out + shortcut)


def resnet20() -> nn.Module:
    """He et al., 2016: 0.27 million weights."""
    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    blocks = [Block(before, channels) for before, channels in pairwise(widths)]
    head = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*head, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description="The loader's share of a ResNet-20 step at batch 128.")
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50_000, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, 50_000)
    batches = Batches(images, labels, seed=0, augment=CropFlip(), normalise=Statistics.of(images))
    model = resnet20()
    assert 0.26e6 < sum(p.numel() for p in model.parameters()) < 0.28e6
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    began = time.perf_counter()
    stream = iter(batches)
    batch = next(stream)
    first = time.perf_counter() - began
    loading, training = [], []
    for number in range(steps + 5):
        began = time.perf_counter()
        batch = next(stream)
        loaded = time.perf_counter()
        optimiser.zero_grad()
        cross_entropy(model(batch.inputs), batch.labels).backward()
        optimiser.step()
        if number >= 5:  # the first are slower
            loading.append(loaded - began)
            training.append(time.perf_counter() - loaded)
    load, train = statistics.median(loading), statistics.median(training)
    share = 100 * load / (load + train)
    print(f"threads {torch.get_num_threads()}, median of {steps} steps of 128 images")
    print(f"loading a batch      {1e3 * load:8.2f} ms")
    print(f"training on it       {1e3 * train:8.2f} ms")
    print(f"starting an epoch    {1e3 * first:8.2f} ms, once")
    print(f"the loader's share   {share:8.2f} % of a step (goal: at most 5 %)")


if __name__ == "__main__":
    main()
