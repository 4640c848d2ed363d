"""The curriculum against a root finder, and against its algorithm written out by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

import pyrite
from pyrite.data import Batches, Growth
from pyrite.methods import Context, Learner, Trainer, method
from pyrite.methods.curriculum import largest_exponent
from pyrite.training import fit

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), np.arange(40) % 5


def learner(number: int = 0, epochs: int = 1) -> Learner:
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9), precision="float64")


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.8])
def test_the_exponent_is_the_root(keep: float) -> None:
    p = ROWS.uniform(size=200) ** 3
    root = brentq(lambda q: np.mean(p**q) - keep, 0, 50)
    assert largest_exponent(torch.from_numpy(np.log(p)), keep, most=50) == pytest.approx(root, rel=1e-6)
    assert largest_exponent(torch.from_numpy(np.log(p)), keep, most=root / 2) == root / 2


@pytest.mark.parametrize("log_p", [[0.0, 0.0], [-1e-12]])
def test_labels_that_are_predicted_leave_the_largest_exponent(log_p: list[float]) -> None:
    assert largest_exponent(torch.tensor(log_p, dtype=torch.float64), 0.5, most=0.9) == 0.9


def test_labels_beyond_doubt_and_impossible_ones() -> None:
    """Half of the labels have the probability exp(-1e6): the mean of p^q is 1/2 for any exponent worth the name."""
    assert largest_exponent(torch.tensor([0.0, -1e6], dtype=torch.float64), 0.5, most=1) == 1
    assert largest_exponent(torch.tensor([-1e6], dtype=torch.float64), 0.5, most=1) < 1e-6
    assert largest_exponent(torch.tensor([-1.0], dtype=torch.float64), 1, most=1) == 0


def started(spec: str, classes: int = 5) -> tuple[Trainer, Batches]:
    """A trainer of the first 30 rows, with the last 10 held out."""
    train = Batches(INPUTS, LABELS, batch_size=10, seed=0, index=np.arange(30))
    context = Context(train, learner, epochs=6, classes=classes, held_out=train.in_order(index=np.arange(30, 40)))
    return method(spec).start(context), train


@pytest.mark.parametrize("classes", [5, 10, 1000])
def test_it_begins_where_all_classes_are_equally_likely(classes: int) -> None:
    trainer, _ = started("curriculum(keep=0.5)", classes)
    assert classes ** -trainer.facts()["exponent"] == pytest.approx(0.5)


@pytest.mark.parametrize(("keep", "gain"), [(0.6, 0.0), (1.0, 4.0), (0.8, 2.0)])
def test_a_run_is_the_algorithm_by_hand(keep: float, gain: float) -> None:
    """Three steps an epoch, so that the exponent changes after every one."""
    trainer, data = started(f"curriculum(keep={keep}, gain={gain})")
    fit(trainer, data, 6)

    own, q = learner(), -math.log(keep) / math.log(5)
    scale = min(5 ** max(q, 1e-3), 2.5)
    data = Batches(INPUTS, LABELS, batch_size=10, seed=0, index=np.arange(30))
    exponents = []
    for _ in range(6):
        for inputs, labels, _index in data:
            q = max(q, 1e-3)
            p = own.model.train()(inputs.double()).softmax(1).gather(1, labels[:, None]).squeeze(1)
            own.optimiser.zero_grad()
            (scale * (1 - p**q) / q).mean().backward()
            own.optimiser.step()
            seen = p.detach().numpy()
            with torch.no_grad():
                scores = own.model.eval()(torch.from_numpy(INPUTS[30:]).double())
            unseen = scores.softmax(1).numpy()[np.arange(10), LABELS[30:]]
            root = brentq(lambda e, seen=seen: np.mean(seen**e) - keep, -1e-9, 1) if seen.mean() < keep < 1 else 1.0
            q = max(root if keep < 1 else 0.0, min(1.0, gain * (seen.mean() - unseen.mean())))
            scale = min(1 / np.mean(seen ** max(q, 1e-3)), 2.5)
            exponents.append(q)
    for one, other in zip(trainer.learners[0].weights, own.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)
    assert trainer.facts()["exponent"] == pytest.approx(max(q, 1e-3), rel=1e-6)
    assert max(exponents) > min(exponents) + 0.05


def test_wrong_labels_of_real_digits_are_not_memorised(tmp_path: Path) -> None:
    runs = [
        pyrite.train(
            "digits", method=spec, noise="symmetric(0.4)", model="mlp", epochs=15, out=tmp_path / spec, keep="last"
        )
        for spec in ("curriculum", "erm(ce)")
    ]
    ours, theirs = (run.history[-1] for run in runs)
    assert ours["memorised"] < theirs["memorised"] / 2
    assert ours["test_accuracy"] > theirs["test_accuracy"] + 0.05


@pytest.mark.parametrize(("augmented", "held_out", "keep"), [(True, True, 1), (True, False, 0.5), (False, True, 0.5)])
def test_what_suits_a_run_is_filled_in(augmented: bool, held_out: bool, keep: float) -> None:
    settled = method("curriculum").resolve_defaults(augmented=augmented, held_out=held_out)
    assert str(settled) == f"curriculum(keep={keep}, gain=4, most=1)"
    given = method("curriculum(keep=0.7)")
    assert given.resolve_defaults(augmented=augmented, held_out=held_out) == given


def test_held_out_images_are_as_large_as_those_that_are_trained_on() -> None:
    images = np.random.default_rng(0).integers(0, 256, (24, 3, 24, 24), np.uint8)
    data = Batches(images, np.arange(24) % 5, batch_size=8, seed=0, index=np.arange(16), growth=Growth(0.5, 3))
    net = pyrite.build_model("fast_cnn(widths=[4, 4, 4])", (3, 24, 24), 5, seed=0)
    sides: dict[bool, list[int]] = {True: [], False: []}
    net.register_forward_pre_hook(lambda module, inputs: sides[module.training].append(inputs[0].shape[-1]))
    own = Learner(net, torch.optim.SGD(net.parameters(), lr=0.1))
    held_out = data.in_order(index=np.arange(16, 24))
    context = Context(data, lambda number, epochs: own, epochs=3, classes=5, held_out=held_out)
    fit(method("curriculum").start(context), data, 3)
    assert sides[True] == sides[False] == [12, 12, 18, 18, 24, 24]


def test_without_held_out_samples_only_what_is_learned_counts() -> None:
    ends = []
    for spec in ("curriculum", "curriculum(keep=0.5, gain=0)"):
        data = Batches(INPUTS, LABELS, batch_size=10, seed=0)
        trainer = method(spec).start(Context(data, learner, epochs=3, classes=5))
        fit(trainer, data, 3)
        ends.append(trainer.facts()["exponent"])
    assert ends[0] == ends[1] > 0.01


@pytest.mark.parametrize("argument", ["keep=0", "keep=1.1", "gain=-1", "most=0", "most=2"])
def test_impossible_arguments(argument: str) -> None:
    with pytest.raises(ValueError, match=argument.replace("=", " is ")):
        method(f"curriculum({argument})")
