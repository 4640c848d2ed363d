"""Self-correction against the same steps written out by hand, forward correction, and matrices that are known."""

from itertools import chain, pairwise, repeat
from pathlib import Path

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import Batches
from pyrite.losses import Forward
from pyrite.methods import Context, Learner, Trainer, method
from pyrite.methods.self_corrected import SelfCorrectedTrainer, cross_fitted, find_noise, matrix_by_anchors
from pyrite.models import Network
from pyrite.training import fit
from tests.children import differing
from tests.training.together import clusters

RNG = np.random.default_rng(0)
TRUE = np.repeat(np.arange(4), 100)
INPUTS = (6 * np.eye(4)[TRUE] + RNG.normal(size=(400, 4))).astype(np.float32)
WRONG = RNG.random(400) < 0.25
GIVEN = np.where(WRONG, (TRUE + RNG.integers(1, 4, 400)) % 4, TRUE)
EPOCHS, STEPS = 5, 8


def learner(number: int = 0, epochs: int = 1) -> Learner:
    """Its rate falls along a line to 0 at the end of its schedule, of 8 steps an epoch."""
    torch.manual_seed(number)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).double()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
    return Learner(net, optimiser, lambda step: max(0.0, 1 - step / (STEPS * epochs)), precision="float64")


def context(labels: np.ndarray = GIVEN, epochs: int = EPOCHS) -> Context:
    return Context(Batches(INPUTS, labels, batch_size=50, seed=0), learner, epochs=epochs, classes=4)


def by_hand(momentum: float) -> tuple[torch.nn.Module, list[torch.Tensor], torch.Tensor]:
    """The net, its averaged weights and the matrix, after three epochs of cross entropy and two of targets."""
    own, data = learner(epochs=EPOCHS), Batches(INPUTS, GIVEN, batch_size=50, seed=0)
    average = [weight.detach().clone() for weight in own.model.parameters()]
    matrix, memory = torch.eye(4), torch.zeros(400, 4)
    for step, (inputs, labels, index) in enumerate(chain.from_iterable(repeat(data, EPOCHS))):
        if step == 3 * STEPS:
            judge = learner().model
            for weight, mean in zip(judge.parameters(), average, strict=True):
                weight.data = mean.clone()
            scores = judge(torch.from_numpy(INPUTS).double()).detach()
            matrix, memory = find_noise(scores, torch.from_numpy(GIVEN))[0], scores.log_softmax(1)
        log_p = own.model(inputs.double()).log_softmax(1)
        target = torch.nn.functional.one_hot(labels, 4).double()
        if step >= 3 * STEPS:
            memory[index] = momentum * memory[index] + (1 - momentum) * log_p.detach()
            joint = matrix[:, labels].T * memory[index].exp()
            target = joint / joint.sum(1, keepdim=True)
        for group in own.optimiser.param_groups:
            group["lr"] = 0.3 * (1 - step / (EPOCHS * STEPS))
        own.optimiser.zero_grad()
        (-(target * log_p).sum(1)).mean().backward()
        own.optimiser.step()
        new = 1 / (1 + min(0.02 * EPOCHS * STEPS, 0.1 * (step + 1)))
        average = [
            (1 - new) * mean + new * weight.detach()
            for mean, weight in zip(average, own.model.parameters(), strict=True)
        ]
    return own.model, average, matrix


@pytest.mark.parametrize("momentum", [0, 0.7, 1])
def test_a_run_is_the_algorithm_by_hand(momentum: float) -> None:
    own = context()
    trainer = method(f"self_corrected(at=0.6, momentum={momentum})").start(own)
    fit(trainer, own.batches, EPOCHS)
    net, average, matrix = by_hand(momentum)
    assert 0.15 < 1 - matrix.diagonal().mean() < 0.35  # a quarter is wrong
    torch.testing.assert_close(trainer.arrays()["matrix"], matrix, rtol=1e-6, atol=1e-9)
    for weight, expected in zip(trainer.learners[0].model.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=1e-9)
    for weight, expected in zip(trainer.model.parameters(), average, strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=1e-9)


def test_without_memory_it_is_forward_correction() -> None:
    """The gradient with respect to the scores, of a step after the audit."""
    own = context(epochs=2)
    trainer = method("self_corrected(at=0.5, momentum=0)").start(own)
    fit(trainer, own.batches, 1)
    trainer.begin_epoch(2)
    step = trainer.step(next(iter(own.batches)))
    scores = step.scores.clone().requires_grad_()
    Forward(trainer.arrays()["matrix"])(scores, step.labels).backward()
    assert (step.gradient != 0).any()
    torch.testing.assert_close(step.gradient, scores.grad, rtol=1e-6, atol=1e-9)


def test_right_labels_are_learned_with_cross_entropy() -> None:
    """No noise is found, so that all weights are those of cross entropy to the last bit."""
    own, plain = context(TRUE), context(TRUE)
    trainer, other = method("self_corrected(at=0.5)").start(own), method("erm(ce)").start(plain)
    fit(trainer, own.batches, EPOCHS)
    fit(other, plain.batches, EPOCHS)
    assert trainer.facts() == {"estimated_noise_rate": 0.0}
    for weight, expected in zip(trainer.learners[0].model.parameters(), other.model.parameters(), strict=True):
        assert weight.equal(expected)


def test_the_matrix_of_known_flips_is_found() -> None:
    found = find_noise(torch.from_numpy(INPUTS), torch.from_numpy(GIVEN))[0]
    counts = np.zeros((4, 4))
    np.add.at(counts, (TRUE, GIVEN), 1)
    np.testing.assert_allclose(
        found, counts / counts.sum(1, keepdims=True), atol=0.06
    )  # a cell of 10 has an error of 0.03


@pytest.mark.parametrize("rows", [0, 10, 49])
def test_too_few_labels_say_nothing(rows: int) -> None:
    """Those without scores, and those that are not trained on, do not count."""
    scores, labels = torch.tensor(INPUTS), torch.tensor(GIVEN)
    labels[350:] = -1
    scores[rows:350] = torch.nan
    assert find_noise(scores, labels)[0].equal(torch.eye(4, dtype=torch.float64))


def test_scores_that_say_nothing_find_no_noise() -> None:
    scores = torch.randn(400, 4, generator=torch.manual_seed(0))
    assert find_noise(scores, torch.from_numpy(GIVEN))[0].equal(torch.eye(4, dtype=torch.float64))


def noisy_posteriors(noise: float, sure: float, seed: int = 0) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Scores that are exactly P(given | x): 4 classes, each taken for the next with probability ``noise``.

    Of the share ``sure`` of the samples the class is certain, of the others it is the class or the one after the next.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 3000)
    doubtful = rng.random(3000) < 1 - sure
    truth = np.eye(4)[first] * np.where(doubtful, 0.5, 1.0)[:, None] + 0.5 * doubtful[:, None] * np.eye(4)[first - 2]
    true = np.where(doubtful & (rng.random(3000) < 0.5), (first + 2) % 4, first)
    given = np.where(rng.random(3000) < noise, (true + 1) % 4, true)
    matrix = (1 - noise) * np.eye(4) + noise * np.roll(np.eye(4), 1, 1)
    return torch.from_numpy(np.log(truth @ matrix + 1e-9)), given, matrix


def test_noise_that_a_net_predicts_as_doubt_is_found_by_anchors() -> None:
    """By the likelihood of the labels there is no noise, as the scores explain them; the surest samples show it."""
    scores, given, matrix = noisy_posteriors(0.3, 2 / 3)
    np.testing.assert_allclose(find_noise(scores, torch.from_numpy(given))[0], matrix, atol=1e-6)


def test_classes_that_are_alike_are_no_noise() -> None:
    """As above without wrong labels: a net that is sure of some samples of every class doubts the others rightly."""
    scores, given, _ = noisy_posteriors(0.0, 2 / 3)
    assert matrix_by_anchors(scores, torch.from_numpy(given)) is None


def test_anchors_of_a_net_that_misjudges_itself_are_not_believed() -> None:
    """Half of its predictions are of another class, or its probabilities are those of a net that has hardly learned."""
    scores, given, _ = noisy_posteriors(0.3, 2 / 3)
    labels = torch.from_numpy(given)
    assert matrix_by_anchors(scores, labels) is not None
    misled = torch.where((torch.arange(3000) % 2 == 0)[:, None], scores.roll(2, 1), scores)
    assert matrix_by_anchors(misled, labels) is None
    assert matrix_by_anchors(scores / 4, labels) is None


def test_a_resumed_run_has_the_same_targets(tmp_path: Path) -> None:
    """It is stopped after the audit: matrix, memory and averaged weights must come from the saved state."""
    answers = chain(repeat(False, 44), [True])  # 24 steps an epoch
    options = {"method": "self_corrected(at=0.5)", "noise": "symmetric(0.3)", "epochs": 2, "batch_size": 9}
    options |= {"model": "mlp(hidden=[6])", "lr": 0.1, "progress": False}
    whole = pyrite.train(clusters(), out=tmp_path / "whole", **options)
    assert 0.1 < whole.history[-1]["estimated_noise_rate"] < 0.5
    run = pyrite.train(clusters(), out=tmp_path / "run", stop=lambda: next(answers), **options)
    assert not run.finished
    assert len(run.history) == 1
    pyrite.train(clusters(), resume=run.path, progress=False)
    assert differing(whole.path, run.path) == []


def test_a_run_of_one_epoch_is_cross_entropy() -> None:
    own, plain = context(epochs=1), context(epochs=1)
    trainer, other = method("self_corrected").start(own), method("erm(ce)").start(plain)
    fit(trainer, own.batches, 1)
    fit(other, plain.batches, 1)
    assert trainer.facts() == {}
    assert trainer.learners[0].model[0].weight.equal(other.learners[0].model[0].weight)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("self_corrected(at=1)", "at is 1"),
        ("self_corrected(momentum=1.5)", "momentum is 1.5"),
        ("self_corrected(erm(ce))", "at is"),
    ],
)
def test_bad_arguments(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(spec)


def heads_of(labels: np.ndarray, embeddings: np.ndarray = INPUTS) -> torch.Tensor:
    return cross_fitted(
        torch.from_numpy(embeddings), torch.from_numpy(labels), classes=4, seed=0, groups=np.arange(len(labels))
    )


def test_a_head_never_saw_the_label_that_it_scores() -> None:
    """Embeddings that identify a sample: a head that had seen its label could follow it."""
    scores = heads_of(GIVEN)
    assert (scores.argmax(1).numpy() == TRUE).mean() > 0.95
    assert (scores.argmax(1).numpy() == GIVEN)[WRONG].mean() < 0.1
    random = RNG.normal(size=(400, 500)).astype(np.float32)
    assert (heads_of(GIVEN, random).argmax(1).numpy() == GIVEN).mean() < 0.4  # 1.0 if it were in the fold


def test_samples_without_a_label_or_an_embedding_have_no_scores() -> None:
    labels, embeddings = GIVEN.copy(), INPUTS.copy()
    labels[:5], embeddings[7] = -1, np.nan
    scores = heads_of(labels, embeddings)
    assert scores.isnan().all(1).nonzero().squeeze(1).tolist() == [0, 1, 2, 3, 4, 7]
    assert scores.isfinite().all(1).sum() == 394


@pytest.mark.parametrize("sites", [1, 3])
def test_few_groups_are_few_folds(sites: int) -> None:
    groups = np.arange(400) % sites
    scores = cross_fitted(torch.from_numpy(INPUTS), torch.from_numpy(GIVEN), classes=4, seed=0, groups=groups)
    assert scores.isfinite().all() if sites > 1 else scores.isnan().all()  # one group cannot be held out


def by_embeddings(labels: np.ndarray) -> Trainer:
    def make(number: int, epochs: int) -> Learner:
        net = Network(torch.nn.Tanh(), torch.nn.Linear(4, 4), (4,))
        return Learner(net, torch.optim.SGD(net.parameters(), lr=0.1))

    given = Context(Batches(INPUTS, labels, batch_size=50, seed=0), make, epochs=EPOCHS, classes=4)
    trainer = method("self_corrected(at=0)").start(given)
    trainer.begin_epoch(1)
    return trainer


def test_labels_are_audited_before_training_by_embeddings() -> None:
    trainer = by_embeddings(GIVEN)
    counts = np.array([[(GIVEN[true == TRUE] == given).mean() for given in range(4)] for true in range(4)])
    assert isinstance(trainer, SelfCorrectedTrainer)
    assert trainer.matrix is not None
    assert trainer.memory is not None
    np.testing.assert_allclose(trainer.matrix, counts, atol=0.08)
    assert trainer.facts()["estimated_noise_rate"] == pytest.approx(WRONG.mean(), abs=0.05)
    likeliest = (trainer.matrix.log().T[torch.from_numpy(GIVEN)] + trainer.memory).argmax(1).numpy()
    assert (likeliest == TRUE).mean() > 0.9  # the given labels: 0.75
    assert by_embeddings(TRUE).facts()["estimated_noise_rate"] == 0


def test_an_audit_by_embeddings_needs_a_net_that_has_them() -> None:
    with pytest.raises(ValueError, match="this net has none"):
        method("self_corrected(at=0)").start(context())


def test_a_run_with_an_audit_by_embeddings_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    options = {"method": "self_corrected(at=0)", "model": "mlp(hidden=[16])", "epochs": 3, "noise": "symmetric(0.3)"}
    options |= {"samples": 600, "seed": 1, "progress": False}
    pyrite.train("digits", out=tmp_path / "whole", **options)
    left = iter([False] * 5)
    pyrite.train("digits", out=tmp_path / "stopped", stop=lambda: next(left, True), **options)
    run = pyrite.train(resume=tmp_path / "stopped", progress=False)
    assert not differing(tmp_path / "whole", tmp_path / "stopped")
    assert run.history[-1]["estimated_noise_rate"] > 0.15


def test_targets_stay_fixed_in_the_second_half_of_fine_tuning() -> None:
    trainer = by_embeddings(GIVEN)
    assert isinstance(trainer, SelfCorrectedTrainer)
    seen = []
    for epoch in range(1, EPOCHS + 1):
        trainer.begin_epoch(epoch)
        for batch in trainer.context.batches:
            trainer.step(batch)
        assert trainer.memory is not None
        seen.append(trainer.memory.clone())
    changes = [not before.equal(after) for before, after in pairwise(seen)]
    assert changes == [True, True, False, False]  # of epochs 2 to 5
