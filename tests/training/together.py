"""Trainings that one process and several must end alike."""

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import pyrite
import pyrite.training.run_folder
from pyrite.data import Dataset
from pyrite.processes import rank, sync_batch_norm
from tests.children import speak_to
from tests.contracts.toys import TOYS
from tests.examples import CLASSES, METHOD_EXAMPLES, instance

WEIGHTS = [1.0, 2.0, 0.5, 3.0, 1.5]


def features() -> Dataset:
    """45 samples: with a batch of 11 the last has one sample, fewer than there are processes."""
    return _made("features", lambda rows, count: rows.normal(size=(count, 4)).astype(np.float32))


def clusters() -> Dataset:
    """Enough samples, and clear enough, for an audit to find wrong labels in a run of two epochs."""
    true = np.arange(240) % CLASSES
    inputs = (6 * np.eye(CLASSES)[true] + np.random.default_rng(0).normal(size=(240, CLASSES))).astype(np.float32)
    return Dataset("clusters", inputs, true, tuple("abcde"))


def images() -> Dataset:
    return _made("images", lambda rows, count: rows.integers(256, size=(count, 3, 12, 12), dtype=np.uint8))


def _made(name: str, inputs: Any) -> Dataset:
    rows = np.random.default_rng(0)
    classes = tuple("abcde")
    labels = rows.integers(CLASSES, size=45)
    test = Dataset("test", inputs(rows, 23), rows.integers(CLASSES, size=23), classes)
    return Dataset(name, inputs(rows, 45), labels, classes, test=test)


class Spare(nn.Module):
    """A net with a weight that is not used: weight decay must leave it alone everywhere."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.used, self.spare = nn.Linear(4, CLASSES), nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.used(inputs)
        return scores


def cases() -> dict[str, tuple[Dataset, dict[str, Any]]]:
    """By their names: the data and the options."""
    small: dict[str, Any] = {"model": "mlp(hidden=[6], norm=False)", "batch_size": 11}
    found: dict[str, tuple[Dataset, dict[str, Any]]] = {}
    for name in pyrite.LOSSES:  # curves differ in the weight of a sample alone, so two stand for all
        if name in ("ce", "imae") or not isinstance(instance(name), pyrite.Curve):
            found[name] = features(), small | {"loss": instance(name)}
    weighted = f"0.5*gce(weight={WEIGHTS}) + nce(weight={WEIGHTS})"
    more: dict[str, dict[str, Any]] = {
        "weighted": small | {"loss": f"ce(weight={WEIGHTS})"},
        "weighted-sum": small | {"loss": weighted},
        "weighted-peer": small | {"loss": f"peer(ce, weight={WEIGHTS})"},
        "ignored": small | {"loss": "ce(ignore_index=3)"},
        "peers-in-a-sum": small | {"loss": "ce + 0.5*peer(mae)"},
        "pieces": small | {"loss": "gce", "accumulate": 3},
        "adam": small | {"loss": "ce", "optimiser": "adam(lr=0.01)", "clip": 0.1, "validation": 0.2},
        "batch-norm": {"model": "mlp(hidden=[6, 5])", "batch_size": 11, "loss": "ce"},
        "spare": {"model": Spare(), "batch_size": 11, "loss": "ce"},
        # A net that each process made for itself: all begin with the first one's.
        "own": {"model": Spare(int(os.environ.get("RANK", "0"))), "batch_size": 11, "loss": "ce"},
        "meta": small | {"method": "meta_weight(size=13, hidden=5, lr=0.5)"},
        "meta-norm": {
            "model": "mlp(hidden=[6])",
            "batch_size": 8,
            "method": "meta_weight(ce, size=9, normalise='sum')",
        },
        "meta-lean": small | {"method": "meta_weight(size=13, gradient='lean', meta='clean')"},
        "meta-nesterov": small | {"method": "meta_weight(size=13, loss=gce(q=0.7), optimiser='nesterov')"},
        "meta-every": small | {"method": "meta_weight(size=13, every=2)"},
        "l2rw": {"model": "mlp(hidden=[6])", "batch_size": 8, "method": "l2rw(mae, size=9)"},
    }
    # Batch norms must see the batch of all processes. By held-out labels all choose the same epoch.
    norms = {"model": "mlp(hidden=[6])", "batch_size": 11, "validation": 0.2}
    for name in [*pyrite.METHODS, *TOYS]:
        more[f"method-{name}"] = norms | {"method": METHOD_EXAMPLES.get(name, name)}
    found |= {name: (features(), options) for name, options in more.items()}
    corrected = {"method": "self_corrected(at=0.5)", "batch_size": 8, "lr": 0.1}
    found["self-corrected"] = clusters(), small | corrected
    found["audited-first"] = clusters(), small | corrected | {"method": "self_corrected(at=0)"}
    for name, model in {"fast_cnn": "fast_cnn(widths=[4, 4, 4])", "wrn": "wrn(depth=10, width=1)"}.items():
        found[name] = images(), {"model": model, "batch_size": 11, "loss": "imae(T=8)", "augment": "crop_flip(pad=1)"}
    return found


def train_all(out: Path) -> None:
    chosen = cases()
    with patch.dict(pyrite.METHODS, TOYS):
        _train(out, chosen)


def _train(out: Path, chosen: dict[str, tuple[Dataset, dict[str, Any]]]) -> None:
    for name, (data, options) in chosen.items():
        pyrite.train(
            data, noise="symmetric(0.3)", epochs=2, precision="float64", out=out / name, progress=False, **options
        )
        if rank():  # from the second on, when it is known who is who
            pyrite.training.run_folder.write = refuse  # type: ignore[attr-defined]


def refuse(path: Path, content: bytes) -> Path:
    raise AssertionError(f"process {rank()} writes {path}")


def fail_all(out: Path) -> dict[str, str]:
    """What is said of trainings that cannot be, which every process must find out at the same time."""
    said = {}
    options: dict[str, Any] = {"model": "mlp(hidden=[6], norm=False)", "batch_size": 11, "progress": False}
    folders = {"occupied": out, "unwritable": Path("/proc/nowhere/run"), "nan": out / "nan"}
    for name, folder in folders.items():
        try:
            pyrite.train(features(), lr=1e30, loss="ce", out=folder, **options)
        except (ValueError, pyrite.RunFailed) as error:
            said[name] = f"{type(error).__name__}: {error}"
    said["comparison"] = _compare(out / "comparison")
    return said


def _compare(out: Path) -> str:
    table = ""
    for _ in range(2):  # the second time the runs are there
        table = pyrite.compare(
            "digits", ["ce", "mae"], out=out, samples=50, epochs=1, model="mlp(hidden=[4])", progress=False
        ).to_markdown()
    return table


def train_and_fail_all(out: Path, place: dict[str, str]) -> None:
    """In a process that was told its place among several."""
    speak_to(out / f"log.{place['RANK']}")
    torch.set_num_threads(1)
    os.environ.update(place)
    train_all(out)
    torch.save(derivatives(slice(3) if rank() == 0 else slice(3, None)), out / f"norm-{rank()}.pt")
    torch.save(projected(slice(4 * rank(), 4 * rank() + 4)), out / f"head-{rank()}.pt")
    (out / f"said-{rank()}.json").write_text(json.dumps(fail_all(out)))


def derivatives(rows: slice) -> list[Tensor]:
    """Of a batch norm, for some rows of a batch: its output, its gradient, and a derivative of that."""
    torch.manual_seed(0)
    values, weights = torch.randn(2, 7, 5, 4, 4, dtype=torch.float64)[:, rows]
    norm = sync_batch_norm(nn.Sequential(nn.BatchNorm2d(5).double()))
    inputs = (3 * values + 2).requires_grad_()
    out = norm(inputs)
    (once,) = torch.autograd.grad(out, inputs, weights, retain_graph=True)  # by torch's kernels
    (gradient,) = torch.autograd.grad(out, inputs, weights, create_graph=True)  # by plain operations
    (twice,) = torch.autograd.grad((gradient**3).sum(), inputs)
    return [out.detach(), once, gradient.detach(), twice]


def projected(rows: slice) -> Tensor:
    """The gradient of the weight of a fused head for some rows of a batch; torch averages it over the processes."""
    torch.manual_seed(0)
    head = pyrite.LinearLoss(pyrite.GCE(), hidden=5, classes=7, chunk=3).double()
    features, labels = torch.randn(8, 5, dtype=torch.float64), torch.arange(8) % 7
    model = DistributedDataParallel(head) if dist.is_initialized() else head
    model(features[rows], labels[rows]).backward()
    assert head.linear.weight.grad is not None
    return head.linear.weight.grad
