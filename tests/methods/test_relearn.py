"""Relearning against the same steps written out by hand, and the choice of labels against known flips."""

from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import Batches, CropFlip, Dataset
from pyrite.methods import Bench, Learner, Stages, method
from pyrite.methods.relearn import by_anchors, trusted
from pyrite.training import fit
from pyrite.training.plan import resolve
from tests.children import differing
from tests.training.together import clusters

RNG = np.random.default_rng(0)
TRUE = np.repeat(np.arange(4), 100)
INPUTS = (6 * np.eye(4)[TRUE] + RNG.normal(size=(400, 4))).astype(np.float32)
WRONG = RNG.random(400) < 0.25
GIVEN = np.where(WRONG, (TRUE + RNG.integers(1, 4, 400)) % 4, TRUE)


def learner(number: int = 0, epochs: int = 1) -> Learner:
    """Its rate falls along a line to 0 at the end of its schedule, of 8 steps an epoch."""
    torch.manual_seed(number)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).double()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
    return Learner(net, optimiser, lambda step: max(0.0, 1 - step / (8 * epochs)), precision="float64")


def batches() -> Batches:
    return Batches(INPUTS, GIVEN, batch_size=50, seed=0)


def descend(own: Learner, data: Batches, epochs: int, kept: np.ndarray, share: float) -> None:
    """Cross entropy with a rate that falls from ``share`` of the whole rate to 0."""
    total = epochs * len(data)
    for step, (inputs, labels, index) in enumerate(chain.from_iterable(repeat(data, epochs))):
        rows = torch.from_numpy(kept[index.numpy()])
        for group in own.optimiser.param_groups:
            group["lr"] = 0.3 * share * (1 - step / total)
        own.optimiser.zero_grad()
        torch.nn.functional.cross_entropy(own.model(inputs.double()[rows]), labels[rows]).backward()
        own.optimiser.step()


def test_a_run_is_the_algorithm_by_hand() -> None:
    bench = Bench(batches(), learner, epochs=5, classes=4)
    trainer = method("relearn(erm(ce), at=0.6, doubt=0.3)").start(bench)
    fit(trainer, bench.batches, 5)
    assert isinstance(trainer, Stages)
    kept = trainer.known["kept"].numpy()
    assert 0.6 < kept.mean() < 0.9  # a quarter is wrong

    own, data = learner(epochs=3), batches()
    descend(own, data, 3, np.ones(400, bool), 1.0)
    with torch.no_grad():
        scores = own.model(torch.from_numpy(INPUTS).double())
    audit = pyrite.audit(GIVEN, scores=scores.numpy(), kind="logits", progress=False)
    assert (kept == (audit.wrong_probability < 0.3)).all()
    own.optimiser = torch.optim.SGD(own.model.parameters(), lr=0.3, momentum=0.9)
    descend(own, data, 2, kept, 0.4)  # where the schedule of all five epochs is after three
    for weight, by_hand in zip(trainer.learners[0].model.parameters(), own.model.parameters(), strict=True):
        torch.testing.assert_close(weight, by_hand, rtol=1e-9, atol=1e-12)


def test_wrong_labels_are_left_out_and_right_ones_kept() -> None:
    """Scores of a net that knows the classes, and labels of which a quarter was changed."""
    scores = torch.from_numpy(INPUTS)
    kept = trusted(scores, torch.from_numpy(GIVEN), 0.2, seed=0).numpy()
    assert kept[~WRONG].mean() > 0.95
    assert kept[WRONG].mean() < 0.05


def test_clean_labels_are_all_kept() -> None:
    kept = trusted(torch.from_numpy(INPUTS), torch.from_numpy(TRUE), 0.2, seed=0)
    assert kept.double().mean() > 0.98


@pytest.mark.parametrize("rows", [0, 10, 49])
def test_too_few_labels_are_all_kept(rows: int) -> None:
    """Those without scores, and those that are not trained on, do not count."""
    scores, labels = torch.tensor(INPUTS), torch.tensor(GIVEN)
    labels[350:] = -1
    scores[rows:350] = torch.nan
    assert trusted(scores, labels, 0.2, seed=0).tolist() == [True] * 350 + [False] * 50


def test_scores_that_say_nothing_leave_nothing_out() -> None:
    assert trusted(torch.randn(400, 4, generator=torch.manual_seed(0)), torch.from_numpy(GIVEN), 0.2, seed=0).all()


def test_a_net_that_disagrees_with_most_labels_is_not_believed() -> None:
    """It takes two of the four classes for others; by the audit alone most labels would be left out."""
    taken = np.array([1, 0, 2, 3])[TRUE]
    taken[: len(taken) * 3 // 4 : 2] = (taken[: len(taken) * 3 // 4 : 2] + 2) % 4
    scores = torch.from_numpy(8.0 * np.eye(4)[taken] + RNG.normal(size=(400, 4)))
    audit = pyrite.audit(TRUE, scores=scores.numpy(), kind="logits", progress=False)
    assert audit.can_tell
    assert (audit.wrong_probability < 0.2).mean() < 0.5
    assert trusted(scores, torch.from_numpy(TRUE), 0.2, seed=0).all()


def noisy_posteriors(noise: float, sure: float, seed: int = 0) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Scores that are exactly P(given | x): 4 classes, each taken for the next with probability ``noise``.

    Of two thirds of the samples the class is certain, of the others it is the class or the one after the next.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 3000)
    doubtful = rng.random(3000) < 1 - sure
    truth = np.eye(4)[first] * np.where(doubtful, 0.5, 1.0)[:, None] + 0.5 * doubtful[:, None] * np.eye(4)[first - 2]
    true = np.where(doubtful & (rng.random(3000) < 0.5), (first + 2) % 4, first)
    given = np.where(rng.random(3000) < noise, (true + 1) % 4, true)
    matrix = (1 - noise) * np.eye(4) + noise * np.roll(np.eye(4), 1, 1)
    return torch.from_numpy(np.log(truth @ matrix + 1e-9)), given, true


def test_noise_that_a_net_predicts_as_doubt_is_found_by_anchors() -> None:
    """By the likelihood of the labels there is no noise, as the scores explain them; the surest samples show it."""
    scores, given, true = noisy_posteriors(0.3, 2 / 3)
    audit = pyrite.audit(given, scores=scores.numpy(), kind="logits", progress=False)
    assert (audit.wrong_probability < 0.2).mean() > 0.9
    kept = trusted(scores, torch.from_numpy(given), 0.2, seed=0).numpy()
    assert kept[given == true].mean() > 0.9
    assert kept[given != true].mean() < 0.1


def test_classes_that_are_alike_are_no_noise() -> None:
    """As above without wrong labels: a net that is sure of some samples of every class doubts the others rightly."""
    scores, given, _ = noisy_posteriors(0.0, 2 / 3)
    assert trusted(scores, torch.from_numpy(given), 0.2, seed=0).double().mean() > 0.98


def test_anchors_of_a_net_that_is_too_sure_are_not_believed() -> None:
    """Half of its predictions are of another class, so that it predicts fewer of the given labels than it says."""
    scores, given, _ = noisy_posteriors(0.3, 2 / 3)
    labels = torch.from_numpy(given)
    assert not by_anchors(scores, labels, 0.2).all()
    misled = torch.where((torch.arange(3000) % 2 == 0)[:, None], scores.roll(2, 1), scores)
    assert by_anchors(misled, labels, 0.2).all()


def test_observers_see_what_is_left_out_as_it_was() -> None:
    bench = Bench(batches(), learner, epochs=2, classes=4)
    trainer = method("relearn(erm(ce), at=0.5)").start(bench)
    fit(trainer, bench.batches, 1)
    assert isinstance(trainer, Stages)
    with torch.no_grad():
        before = trainer.learners[0].model(torch.from_numpy(INPUTS).double())
    trainer.begin_epoch(2)
    step = trainer.step(next(iter(bench.batches)))
    left_out = ~trainer.known["kept"][step.index]
    assert 0 < left_out.sum() < 50
    assert step.trust is not None
    assert ((step.trust == 0) == left_out).all()
    assert (step.gradient[left_out] == 0).all()
    assert (step.gradient[~left_out] != 0).any(1).all()
    torch.testing.assert_close(step.scores[left_out], before[step.index[left_out]])


def test_a_resumed_run_leaves_out_the_same(tmp_path: Path) -> None:
    """It is stopped in the second stage, whose samples and scores must come from the saved state."""
    answers = chain(repeat(False, 44), [True])  # 24 steps an epoch
    options = {"method": "relearn(erm(ce), at=0.5)", "noise": "symmetric(0.3)", "epochs": 2, "batch_size": 9}
    options |= {"model": "mlp(hidden=[6], norm=False)", "lr": 0.1, "progress": False}
    whole = pyrite.train(clusters(), out=tmp_path / "whole", **options)
    assert 0.5 < whole.history[-1]["kept_share"] < 0.9
    run = pyrite.train(clusters(), out=tmp_path / "run", stop=lambda: next(answers), **options)
    assert not run.finished
    assert len(run.history) == 1
    pyrite.train(clusters(), resume=run.path, progress=False)
    assert differing(whole.path, run.path) == []


def test_by_default_there_is_a_second_stage_only_where_images_are_augmented() -> None:
    features = Dataset("features", INPUTS, GIVEN, tuple("abcd"))
    images = replace(features, inputs=RNG.integers(0, 255, (400, 3, 32, 32)).astype(np.uint8))
    spec = "relearn(curriculum)"
    assert resolve(features, method=spec).recipe.method == "curriculum(keep=0.5, gain=4, most=1)"
    settled = "relearn(curriculum(keep=1, gain=4, most=1), at=0.5, doubt=0.2)"
    assert resolve(images, method=spec).recipe.method == settled
    for without in ({"validation": 0.0}, {"augment": "none"}):
        assert resolve(images, method=spec, **without).recipe.method == "curriculum(keep=0.5, gain=4, most=1)"
    said = resolve(features, method="relearn(curriculum, at=0.7)", epochs=10).recipe
    assert said.method == "relearn(curriculum(keep=0.5, gain=4, most=1), at=0.7, doubt=0.2)"
    assert said.schedule == "linear(warmup=1.4)"


def test_without_settings_of_a_run_the_trainer_decides_itself() -> None:
    pixels = RNG.integers(0, 255, (40, 1, 8, 8)).astype(np.uint8)
    labels = np.arange(40) % 4

    def net(number: int, epochs: int) -> Learner:
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
        return Learner(model, torch.optim.SGD(model.parameters(), lr=0.1))

    shifted = Batches(pixels, labels, seed=0, index=np.arange(30), augment=CropFlip(pad=1))
    held_out = shifted.in_order(index=np.arange(30, 40))
    spec = method("relearn(erm(ce))")
    both = Bench(shifted, net, epochs=2, classes=4, held_out=held_out)
    assert isinstance(spec.start(both), Stages)
    assert not isinstance(spec.start(Bench(shifted, net, epochs=2, classes=4)), Stages)


def test_a_run_of_one_epoch_has_no_second_stage() -> None:
    bench = Bench(batches(), learner, epochs=1, classes=4)
    trainer = method("relearn(erm(ce), at=0.5)").start(bench)
    fit(trainer, bench.batches, 1)
    own = learner(epochs=1)
    descend(own, batches(), 1, np.ones(400, bool), 1.0)
    torch.testing.assert_close(trainer.learners[0].model[0].weight, own.model[0].weight, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("relearn(ce)", "must be a method"),
        ("relearn(erm(ce), at=1)", "at is 1"),
        ("relearn(erm(ce), doubt=0)", "doubt is 0"),
    ],
)
def test_bad_arguments(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(spec)
