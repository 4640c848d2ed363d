"""Cross-fitting: every net without its fold, and every fold judged by its net."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import Batch, Batches
from pyrite.methods import ERM, Context, CrossFit, Learner, method
from pyrite.soft_margin import margins

INPUTS = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
LABELS = np.arange(40) % 5


def net(number: int) -> torch.nn.Module:
    return pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()


def learner(number: int, epochs: int = 1) -> Learner:
    made = net(number)
    return Learner(made, torch.optim.SGD(made.parameters(), lr=0.5), precision="float64")


@pytest.mark.parametrize("folds", [2, 3])
def test_a_step_by_hand(folds: int) -> None:
    batches = Batches(INPUTS, LABELS, batch_size=20, seed=3)
    trainer = CrossFit(ERM(pyrite.CE()), folds).start(Context(batches, learner, epochs=1, classes=5))
    fold = trainer.fold
    sizes = torch.bincount(fold)
    assert sizes.max() - sizes.min() <= 1
    for label in range(5):  # every class is spread over the folds
        assert torch.bincount(fold[torch.from_numpy(LABELS) == label], minlength=folds).min() >= 8 // folds
    batch = next(iter(batches))
    step = trainer.step(batch)
    assert step.index.tolist() == batch.index.tolist()
    assert step.unseen is not None
    for number in range(folds):
        alone = learner(number)
        own = fold[batch.index] == number
        assert torch.allclose(step.unseen[own], alone.evaluate(batch.inputs)[own])
        scores = alone.scores(batch.inputs[~own].double())
        shown = fold[batch.index] == (number - 1) % folds
        seen = scores.detach()[shown[~own]]
        assert torch.allclose(step.scores[shown], seen)
        torch.nn.functional.cross_entropy(scores, batch.labels[~own]).backward()
        alone.optimiser.step()
        for mine, hand in zip(trainer.learners[number].weights, alone.weights, strict=True):
            assert torch.allclose(mine, hand)
        weight = 1 - seen.softmax(1).gather(1, batch.labels[shown].unsqueeze(1)).squeeze(1)  # of cross entropy
        assert torch.allclose(step.weight[shown], weight)


def test_a_batch_in_which_one_net_has_a_single_sample() -> None:
    batches = Batches(INPUTS, LABELS, batch_size=20, seed=3)
    trainer = CrossFit(ERM(pyrite.CE())).start(Context(batches, learner, epochs=1, classes=5))
    rows = torch.cat([(trainer.fold == 0).nonzero()[:1, 0], (trainer.fold == 1).nonzero()[:3, 0]])
    batch = Batch(torch.from_numpy(INPUTS)[rows], torch.from_numpy(LABELS)[rows], rows)
    before = [weight.clone() for weight in trainer.learners[1].weights]
    step = trainer.step(batch)
    assert all(torch.equal(one, two) for one, two in zip(before, trainer.learners[1].weights, strict=True))
    assert set(step.index.tolist()) == set(rows[1:].tolist())


def test_labels_of_the_own_fold_are_out_of_reach() -> None:
    batches = Batches(INPUTS, LABELS, batch_size=20, seed=3)
    context = Context(batches, learner, epochs=1, classes=5)
    kept = torch.arange(40) % 2 == 0
    part = context.part(kept, 1, 2)
    assert (part.labels[~kept] == -1).all()
    assert (part.stage(1).labels == part.labels).all()
    first = next(iter(part.make_learner().model.parameters()))
    assert torch.equal(first, next(iter(net(1).parameters())))


def test_a_run_records_scores_of_nets_that_did_not_see_the_label(tmp_path: Path) -> None:
    run = pyrite.train(
        "blobs(samples=200, classes=3, features=4)", method="cross_fit(erm(ce))", model="mlp(hidden=[8])", epochs=1,
        batch_size=1000, noise="symmetric(0.3)", out=tmp_path / "run", progress=False,
    )  # fmt: skip
    # One batch is the whole set, so the margins are those of the untrained nets.
    assert (run.samples["unseen"] == 1).all()
    data = run.dataset()
    from pyrite.data import Statistics

    inputs = torch.from_numpy(Statistics.of(data.numeric).standardise(data.numeric))
    from pyrite.draws import Stream, torch_seed

    nets = [pyrite.build_model(run.config.model, (4,), 3, seed) for seed in (0, torch_seed(0, Stream.NETS, 1))]
    with torch.no_grad():
        both = [margins(each.eval()(inputs)).numpy() for each in nets]
    kept = run.samples["class_margins"]
    near = [np.isclose(kept, each, atol=1e-4).all(1) for each in both]
    assert (near[0] | near[1]).all()
    assert 90 <= near[0].sum() <= 110
    assert run.history[0]["unseen_accuracy"] == pytest.approx((kept.argmax(1) == run.labels["given"]).mean())


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a method"):
        method("cross_fit(ce)")
    with pytest.raises(ValueError, match="folds is 1"):
        method("cross_fit(erm(ce), folds=1)")


@pytest.mark.parametrize("size", [6, 7])
def test_pieces_of_a_batch_without_a_fold_are_large_enough_for_batch_norms(size: int, tmp_path: Path) -> None:
    options: Any = {"model": "cnn4", "samples": 42, "batch_size": size, "accumulate": 3, "epochs": 1, "out": tmp_path}
    assert pyrite.train("digits", method="cross_fit(erm(ce))", **options).finished
