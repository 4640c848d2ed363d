"""Methods side by side against each by itself, and the choice among them on labels of known truth."""

from pathlib import Path

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import Batches, Dataset
from pyrite.methods import Auto, Context, Learner, Select, Trainer, method
from pyrite.methods.members import as_good_as_the_best
from pyrite.training import fit, resolve

RNG = np.random.default_rng(0)
TRUE = np.repeat(np.arange(4), 100)
INPUTS = (4 * np.eye(4)[TRUE] + RNG.normal(size=(400, 4))).astype(np.float32)
GIVEN = np.where(RNG.random(400) < 0.3, (TRUE + RNG.integers(1, 4, 400)) % 4, TRUE)
HELD_OUT = np.arange(0, 400, 5)
TRAINED = np.setdiff1d(np.arange(400), HELD_OUT)


def learner(number: int = 0, epochs: int = 1) -> Learner:
    torch.manual_seed(number)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).double()
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9), precision="float64")


def context(held_out: bool = True) -> Context:
    batches = Batches(INPUTS, GIVEN, batch_size=40, seed=0, index=TRAINED)
    kept_aside = batches.in_order(index=HELD_OUT) if held_out else None
    return Context(batches, learner, epochs=3, classes=4, held_out=kept_aside)


def trained(spec: str, on: Context) -> Trainer:
    trainer = method(spec).start(on)
    fit(trainer, on.batches, 3)
    return trainer


def slower(by: float, clip: float | None) -> Context:
    """A context whose first net is the second of a pair, at a lower rate and with clipped gradients."""

    def make(number: int, epochs: int) -> Learner:
        made = learner(2 * number + 1)
        made.learning_rates, made.clip = [rate / by for rate in made.learning_rates], clip
        return made

    on = context()
    return Context(on.batches, make, epochs=3, classes=4, held_out=on.held_out)


def test_each_method_trains_as_by_itself() -> None:
    """Cross entropy with the first of two initial nets, ELR with the second at a third of the rate, clipped to 1."""
    both = trained("select(erm(ce), elr)", context())
    alone = [trained("erm(ce)", _even()), trained("elr", slower(3, 1.0))]
    for own, other in zip(both.learners, alone, strict=True):
        for weight, expected in zip(own.model.parameters(), other.learners[0].model.parameters(), strict=True):
            assert torch.equal(weight, expected)


def _even() -> Context:
    on = context()
    return Context(on.batches, lambda number, epochs: learner(2 * number), epochs=3, classes=4, held_out=on.held_out)


def test_the_prediction_is_that_of_the_selected_methods() -> None:
    trainer = trained("select(erm(ce), erm(2*mae), elr)", context())
    inputs = torch.from_numpy(INPUTS)
    each = [own.evaluate(inputs).softmax(1).numpy() for own in trainer.learners]
    hits = [probabilities[HELD_OUT].argmax(1) == GIVEN[HELD_OUT] for probabilities in each]
    most = max(int(of_one.sum()) for of_one in hits)
    best = next(of_one for of_one in hits if of_one.sum() == most)
    chosen = [number for number in range(3) if (most - hits[number].sum()) ** 2 <= (best != hits[number]).sum()]
    mean = sum(each[number] for number in chosen) / len(chosen)
    np.testing.assert_allclose(trainer.predict(inputs).softmax(1).numpy(), mean, atol=1e-6)
    assert trainer.facts()["selected"] == len(chosen) == len(trainer.predictors)


def test_observers_see_the_scores_of_all_methods_that_predict() -> None:
    trainer, on = method("select(erm(ce), erm(2*mae), elr)").start(context()), context()
    trainer.selected = [2, 0]  # type: ignore[assignment]
    batch = next(iter(on.batches))
    each = [own.evaluate(batch.inputs).softmax(1) for own in trainer.learners]
    step = trainer.step(batch)
    torch.testing.assert_close(step.scores.softmax(1), (each[0] + each[2]) / 2)
    assert step.losses is not None
    assert float(step.losses.mean()) == pytest.approx(step.loss)  # those of the best


def test_all_predict_if_nothing_is_held_out() -> None:
    assert len(trained("select(erm(ce), elr)", context(held_out=False)).predictors) == 2


def test_one_standard_error_decides() -> None:
    """Of 25 labels that two predictors differ on, 15 to 10 is within it and 16 to 9 is not: 5 and 7 to √25."""
    base = np.zeros((2, 30), bool)
    close, far = base.copy(), base.copy()
    close[0, :15], close[1, 15:25] = True, True
    far[0, :16], far[1, 16:25] = True, True
    assert as_good_as_the_best(list(close)) == [0, 1]
    assert as_good_as_the_best(list(far)) == [0]
    assert as_good_as_the_best(list(far[::-1])) == [1]


def test_a_method_that_memorises_does_not_predict(tmp_path: Path) -> None:
    """On digits of which 40 % have the label of two other classes, cross entropy learns them by heart."""
    options = {"noise": "flip2(0.4)", "model": "mlp", "epochs": 25, "validation": 0.1, "progress": False}
    plain = pyrite.train("digits", loss="ce", keep="last", out=tmp_path / "ce", **options)
    run = pyrite.train("digits", method="select(erm(ce), elr)", out=tmp_path / "both", **options)
    assert run.history[-1]["best_method"] == 2
    assert run.history[-1]["selected"] == 1
    assert run.table["final_test_accuracy"] > plain.table["final_test_accuracy"] + 0.1


def test_the_default_depends_on_augmentation() -> None:
    """Colour images of 32 pixels are shifted and mirrored; features are not."""
    labels = np.arange(40) % 2
    images = Dataset("images", np.zeros((40, 3, 32, 32), np.uint8), labels, ("a", "b"))
    features = Dataset("features", np.zeros((40, 5), np.float32), labels, ("a", "b"))
    assert str(resolve(images).config.method) == "self_corrected(at=0.35, momentum=0.7)"
    assert str(resolve(features).config.method) == (
        "select(erm(ce), curriculum(keep=0.5, gain=4, most=1), elr(coefficient=3, momentum=0.7))"
    )
    assert str(resolve(images, augment="none").config.method).startswith("select(")
    assert str(resolve(images, model="mlp").config.method).startswith("select(")
    assert str(resolve(images, validation=0).config.method).startswith("select(")
    assert str(Auto()) == "auto"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("select(erm(ce))", "needs 2 or more"),
        ("select(erm(ce), ce)", "method 2 is CE"),
        ("select(l2rw(size=20), meta_weight(size=30))", "different meta sets"),
    ],
)
def test_what_cannot_be_selected_from(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(spec)


def test_meta_sets_and_held_out_shares_are_those_of_the_methods() -> None:
    spec = method("select(l2rw(size=20), curriculum)")
    assert isinstance(spec, Select)
    assert spec.meta_set is not None
    assert (spec.meta_set.size, spec.held_out, spec.largest_weight, spec.needs_clipping) == (20, 0.05, 1.0, False)
