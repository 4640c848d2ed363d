"""How fast the small nets train: images a second of a training step, batch 128, images of CIFAR's size.

    python -m benchmarks.models [--steps 10]

The nets take turns, so that what else the machine does hits them alike. How far the default net comes on CIFAR-10,
``pyrite train cifar10 --loss ce --epochs 10`` says.
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import pyrite
from pyrite.models import architecture

SMALL = ("fast_cnn", "mlp", "cnn4", "cnn8", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "wrn(28, 2)")


def speeds(names: tuple[str, ...], steps: int, batch: int = 128) -> dict[str, float]:
    """Images a second in the median of the steps."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(batch, 3, 32, 32, generator=generator).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), generator=generator)
    nets = [architecture(name).build((3, 32, 32), 10, seed=0).to(memory_format=torch.channels_last) for name in names]
    optimisers = [torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True) for net in nets]
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(steps + 1):
        for name, net, optimiser in zip(names, nets, optimisers, strict=True):
            began = time.perf_counter()
            optimiser.zero_grad()
            cross_entropy(net(inputs), labels).backward()
            optimiser.step()
            times[name].append(time.perf_counter() - began)
    return {name: batch / statistics.median(taken[1:]) for name, taken in times.items()}  # the first is slower


def count(net: nn.Module) -> int:
    return sum(weight.numel() for weight in net.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the nets.")
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    versions = f"pyrite {pyrite.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    print(f"images a second, training step, batch 128, float32, channels_last; median of {steps}; {versions}")
    for name, speed in speeds(SMALL, steps).items():
        net = architecture(name).build((3, 32, 32), 10, seed=0)
        print(f"{name:12} {count(net) / 1e6:8.2f} M {speed:8.0f} /s")


if __name__ == "__main__":
    main()
