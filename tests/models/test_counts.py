"""Numbers of parameters and multiplications against those that papers and public code state."""

import pytest
from torch import nn

from tests.models.counting import hollow, multiplications, parameters

IMAGENET, CIFAR, MNIST = (3, 224, 224), (3, 32, 32), (1, 28, 28)


@pytest.mark.parametrize(
    ("spec", "millions"),
    [
        ("resnet20", 0.27),  # He et al., 2016, table 6
        ("resnet32", 0.46),
        ("resnet44", 0.66),
        ("resnet56", 0.85),
        ("resnet110", 1.7),
        ("wrn(depth=40, width=1)", 0.6),  # Zagoruyko & Komodakis, 2016, tables 4 and 5
        ("wrn(depth=40, width=2)", 2.2),
        ("wrn(depth=40, width=4)", 8.9),
        ("wrn(depth=16, width=8)", 11.0),
        ("wrn(depth=28, width=10)", 36.5),
    ],
)
def test_parameters_as_the_papers_say_for_cifar(spec: str, millions: float) -> None:
    places = 2 if millions < 1 and "resnet" in spec else 1
    assert round(parameters(spec, CIFAR, 10) / 1e6, places) == millions


@pytest.mark.parametrize(
    ("spec", "shape", "classes", "published"),
    [
        # torchvision's documentation of its weights
        ("resnet34", IMAGENET, 1000, 21_797_672),
        ("resnet50", IMAGENET, 1000, 25_557_032),
        # torchvision's less what the stem for CIFAR changes: 3 x 3 for 7 x 7, and 10 classes for 1,000
        ("resnet34", CIFAR, 10, 21_797_672 - 3 * 64 * (49 - 9) - 990 * (512 + 1)),
        ("resnet50", CIFAR, 10, 25_557_032 - 3 * 64 * (49 - 9) - 990 * (2048 + 1)),
        # efficientnet_lite_pytorch
        ("efficientnet_lite0", IMAGENET, 1000, 4_652_008),
        ("efficientnet_lite2", IMAGENET, 1000, 6_092_072),
        # pytorchcv's table for CIFAR-10
        ("wrn(depth=16, width=10)", CIFAR, 10, 17_116_634),
        ("wrn(depth=28, width=10)", CIFAR, 10, 36_479_194),
        ("wrn(depth=40, width=8)", CIFAR, 10, 35_748_314),
    ],
)
def test_parameters_as_public_code_has_them(spec: str, shape: tuple[int, ...], classes: int, published: int) -> None:
    assert parameters(spec, shape, classes) == published


def test_inception_has_what_public_code_has_less_the_biases_that_batch_norms_cancel() -> None:
    net = hollow("bninception", IMAGENET, 1000)
    biases = sum(layer.out_channels for layer in net.modules() if isinstance(layer, nn.Conv2d))
    # pytorchcv's bninception, whose convolutions have biases, has 11,295,240.
    assert parameters("bninception", IMAGENET, 1000) + biases == 11_295_240


@pytest.mark.parametrize(
    ("spec", "shape", "classes", "millions", "share"),
    [
        # Strides and poolings do not show in the parameters; they do here.
        ("resnet34", IMAGENET, 1000, 3664, 2e-4),  # torchvision's notes on its weights, to the million
        ("resnet50", IMAGENET, 1000, 4089, 2e-4),
        ("resnet56", CIFAR, 10, 125.49, 1e-4),  # Lin et al., 2020 (HRank), what they prune
        ("wrn(depth=28, width=10)", CIFAR, 10, 5246.98, 1e-3),  # pytorchcv, which adds what norms and ReLUs cost
        ("bninception", IMAGENET, 1000, 2048.06, 0.01),
    ],
)
def test_multiplications(spec: str, shape: tuple[int, ...], classes: int, millions: float, share: float) -> None:
    assert multiplications(spec, shape, classes) / 1e6 == pytest.approx(millions, rel=share)


def test_the_plain_nets_by_hand() -> None:
    four = 1 * 32 * 9 + 2 * 32 + 32 * 64 * 9 + 2 * 64 + 64 * 7 * 7 * 128 + 2 * 128 + 128 * 10 + 10
    assert parameters("cnn4", MNIST, 10) == four == 421_866
    convolutions = 9 * (3 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 196 + 196 * 196)
    norms = 2 * (64 + 64 + 128 + 128 + 196 + 196 + 256)
    eight = convolutions + norms + 196 * 4 * 4 * 256 + 256 * 10 + 10
    assert parameters("cnn8", CIFAR, 10) == eight == 1_638_762


def test_the_default_nets_by_hand() -> None:
    convolutions = 9 * (24 * 32 + 32 * 32 + 32 * 64 + 64 * 64 + 64 * 128 + 128 * 128)
    fast = 24 + convolutions + 4 * (32 + 64 + 128) + 128 * 10
    assert parameters("fast_cnn", CIFAR, 10) == fast == 294_808
    mlp = 20 * 256 + 256 * 256 + 4 * 256 + 256 * 10 + 10
    assert parameters("mlp", (20,), 10) == mlp == 74_250
    assert parameters("linear", (20,), 10) == 20 * 10 + 10
