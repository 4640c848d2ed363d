"""Nets side by side are the nets that they would be alone, and know nothing of the labels they are to judge."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import pyrite
from pyrite.data import Batches, Dataset
from pyrite.estimator.nets import collapsed, train_together
from pyrite.estimator.rows import Rows, assign_folds, inner_statistics
from pyrite.methods import ERM
from pyrite.models import SideBySide, Stacked, build_model
from pyrite.training import resolve


def nets(count: int = 3) -> list[nn.Module]:
    return [build_model("mlp(hidden=(8, 8), limit=3, bins=4)", (5,), 3, seed) for seed in range(count)]


@pytest.mark.parametrize("kind", [SideBySide, Stacked])
@pytest.mark.parametrize("training", [True, False])
def test_scores_and_statistics_are_those_of_each_alone(kind: type, training: bool) -> None:
    alone = nets()
    together = kind(deepcopy(alone)).train(training)
    inputs = torch.randn(16, 5, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([net.train(training)(inputs) for net in alone])
    torch.testing.assert_close(together(inputs), expected)
    # The batch norms have seen the same, too.
    torch.testing.assert_close(together.eval()(inputs), torch.stack([net.eval()(inputs) for net in alone]))


@pytest.mark.parametrize("kind", [SideBySide, Stacked])
def test_gradients_are_clipped_net_by_net(kind: type) -> None:
    alone = nets(2)
    together = kind(deepcopy(alone))
    inputs = torch.randn(16, 5, generator=torch.Generator().manual_seed(0))
    steep = torch.tensor([100.0, 1e-3])[:, None, None]
    (together(inputs) * steep).sum().backward()
    together.clip_gradients(1.0)
    for place, net in enumerate(alone):
        (net(inputs) * steep[place]).sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    own = [weight.grad for net in alone for weight in net.parameters()]
    found = [weight.grad for weight in together.parameters()]
    if kind is Stacked:  # which holds the weights of a layer the other way round
        found = [gradient[place] for place in range(2) for gradient in found]
        found = [gradient.T if gradient.dim() == 2 else gradient for gradient in found]
    for one, other in zip(own, found, strict=True):
        torch.testing.assert_close(one, other)


def rows(seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    labels = np.arange(60) % 3
    return Dataset("rows", (rng.normal(size=(60, 4)) + labels[:, None]).astype(np.float32), labels, ("a", "b", "c"))


def scores(data: Dataset, weight: np.ndarray, loss: str = "gce(q=0.7)", net: Any = "mlp(hidden=(8,))") -> np.ndarray:
    how = ERM(pyrite.loss(loss))
    job = resolve(
        data, model=net, method=how, epochs=4, batch_size=20, seed=0, validation=0.0, precision="float64"
    )  # fmt: skip
    return train_together(job, weight).scores(np.asarray(data.inputs))


@pytest.mark.parametrize("loss", ["gce(q=0.7)", "imae(T=8)", "peer(ce, alpha=0.5)"])
def test_each_net_learns_as_if_it_were_alone(loss: str) -> None:
    data = rows()
    weight = np.stack([np.ones(60), np.arange(60) % 4 + 0.5])
    both = scores(data, weight, loss)
    assert np.abs(both[0] - both[1]).max() > 1e-3
    np.testing.assert_allclose(scores(data, weight[:1], loss)[0], both[0], rtol=1e-9)


@pytest.mark.parametrize("net", ["mlp(hidden=(8,), limit=3, bins=4)", "mlp(hidden=(8,), norm=False)"])
def test_the_way_down_is_that_of_a_loop_written_by_hand(net: str) -> None:
    """The same batches through torch's own optimiser; the loss is cross entropy, by torch, weighted by hand."""
    data, weight = rows(), np.arange(60) % 4 + 0.5
    config = resolve(data, model=net, method="erm(ce)", epochs=4, batch_size=20, seed=0, validation=0.0).config
    batches = Batches(data.inputs, data.labels, batch_size=20, seed=0)
    whole = torch.from_numpy(np.asarray(data.inputs))
    alone = build_model(net, (4,), 3, 0, whole).double()
    optimiser = torch.optim.SGD(alone.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    total, step = 4 * len(batches), 0
    rates = config.schedule
    assert str(config.optimiser) == "sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.0005)"
    for _ in range(4):
        for inputs, labels, index in batches:
            optimiser.param_groups[0]["lr"] = 0.1 * rates.factor_at(step, len(batches), 4)
            counts = torch.from_numpy(weight)[index]
            each = nn.functional.cross_entropy(alone.train()(inputs.double()), labels, reduction="none")
            optimiser.zero_grad()
            ((each * counts).sum() / counts.sum()).backward()
            optimiser.step()
            step += 1
    assert step == total
    with torch.no_grad():
        expected = alone.eval()(whole.double()).numpy()
    np.testing.assert_allclose(scores(data, weight[None], "ce", net)[0], expected, rtol=1e-9, atol=1e-12)


def test_a_net_of_ones_own_is_copied_and_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    before = deepcopy(net.state_dict())
    found = scores(rows(), np.ones((2, 60)), net=net)
    np.testing.assert_array_equal(found[0], found[1])  # copies of one net on the same batches
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_held_out_scores_do_not_depend_on_held_out_labels() -> None:
    data = rows()
    part = np.arange(60) % 5
    weight = 1.0 * (part != np.arange(5)[:, None])
    held = part == 2
    other = Dataset(data.name, data.inputs, np.where(held, (data.labels + 1) % 3, data.labels), data.classes)
    first, second = scores(data, weight), scores(other, weight)
    np.testing.assert_array_equal(first[2], second[2])
    assert np.abs(first[1] - second[1]).max() > 1e-3


def test_whole_weights_are_written_out() -> None:
    inputs = np.array([[1.0, 2], [0, 0], [1, 2], [-0.0, 0], [1, 2], [9, 9]])
    labels = np.array([0, 1, 0, 1, 1, 0])
    found = Rows.of(inputs, labels, np.array([1.0, 2, 3, 1, 1, 0]), seed=0)
    assert sorted(found.order.tolist()) == [0, 1, 1, 2, 2, 2, 3, 4]
    assert (found.weight == 1).all()
    content = {row: set(found.content[found.order == row].tolist()) for row in range(5)}
    assert content[0] == content[2] != content[4]
    assert content[1] == content[3]


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_other_weights_are_kept_in_proportion(scale: float) -> None:
    found = Rows.of(np.arange(3.0)[:, None], np.array([0, 1, 0]), np.array([0.5, 1.0, 2.5]) * scale, seed=0)
    np.testing.assert_allclose(found.weight[np.argsort(found.order)], [0.375, 0.75, 1.875])


@pytest.mark.parametrize("seed", [0, 1, 2**40])
@pytest.mark.parametrize("whole", [True, False])
def test_the_order_of_rows_is_theirs(seed: int, whole: bool) -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.integers(0, 3, (50, 2)), rng.integers(0, 3, 50)
    weight = rng.integers(1, 4, 50) * (1.0 if whole else 0.3)
    mixed = rng.permutation(50)
    one = Rows.of(inputs, labels, weight, seed)
    other = Rows.of(inputs[mixed], labels[mixed], weight[mixed], seed)
    np.testing.assert_array_equal(inputs[one.order], inputs[mixed][other.order])
    np.testing.assert_array_equal(labels[one.order], labels[mixed][other.order])
    for own, others in zip(one[1:], other[1:], strict=True):
        np.testing.assert_array_equal(own, others)


def test_parts_hold_whole_cells_and_a_share_of_every_class() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    cell = np.unique(np.sort(rng.integers(0, 150, 200)), return_inverse=True)[1]
    part = assign_folds(labels, cell, 5)
    assert all(len(np.unique(part[cell == one])) == 1 for one in np.unique(cell))
    alone = assign_folds(labels, np.arange(200), 5)
    for one in range(3):
        counts = np.bincount(alone[labels == one], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_near_copies_do_not_hide_wrong_labels() -> None:
    rows, true = load_breast_cancer(return_X_y=True)
    random = np.random.default_rng(0)
    wrong = random.random(len(true)) < 0.25
    given = np.where(wrong, 1 - true, true)
    found = []
    for times in (1, 4):
        jitter = 1e-4 * rows.std(0) * random.normal(size=(times, *rows.shape))
        fitted = pyrite.RobustClassifier(model=make_pipeline(StandardScaler(), LogisticRegression())).fit(
            np.concatenate(rows + jitter), np.tile(given, times)
        )
        found.append(fitted.audit_.noise_rate)
    assert found[1] == pytest.approx(found[0], abs=0.04)


def test_times_in_seconds_keep_their_differences() -> None:
    seconds = 1.7e9 + np.arange(100.0)[:, None]
    assert len(np.unique(inner_statistics(seconds).standardise(seconds))) == 100
    assert len(np.unique(seconds.astype(np.float32))) < 5


@pytest.mark.parametrize("far", [1e9, 1e200, 1.7e308])
def test_a_few_values_anywhere_change_little(far: float) -> None:
    column = np.random.default_rng(0).normal(5, 2, size=(1000, 1))
    plain = inner_statistics(column)
    column[:10] = far
    spread = inner_statistics(column)
    np.testing.assert_allclose(spread.mean, plain.mean, atol=0.1)
    np.testing.assert_allclose(spread.std, plain.std, rtol=0.1)
    assert np.isfinite(spread.standardise(column)).all()
    assert inner_statistics(np.zeros((5, 1))).std == (1.0,)


def mixed_table(seed: int, count: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Columns of other scales, one-hot categories, and classes that overlap; three quarters of the labels are 0."""
    rng = np.random.default_rng(seed)
    city, age, income = rng.integers(0, 8, count), rng.normal(45, 15, count), np.exp(rng.normal(10, 1, count))
    score = (np.log(income) - 10) + (age - 45) / 15 + rng.normal(0, 0.5, 8)[city] + rng.normal(0, 1.5, count)
    return np.column_stack([income, age, np.eye(8)[city]]), (score > np.quantile(score, 0.75)).astype(int)


AGAIN = "nets predict one class: again, erm(ce)"


@pytest.mark.parametrize("seed", range(3))
def test_the_default_net_does_not_give_up_the_rare_class(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, labels = mixed_table(seed)
    fitted = pyrite.RobustClassifier(folds=0, random_state=seed, verbose=True).fit(inputs, labels)
    assert AGAIN not in capsys.readouterr().out
    assert (fitted.predict(inputs) == labels).mean() > 0.78


@pytest.mark.parametrize(("loss", "folds"), [("mae", 0), ("gce(q=0.9)", 0), ("mae", 3)])
def test_nets_that_predict_one_class_are_trained_again(
    loss: str, folds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, labels = mixed_table(0)
    options: dict[str, Any] = {"model": "mlp(hidden=(128, 128))", "members": 3, "verbose": True}
    fitted = pyrite.RobustClassifier(loss, folds=folds, **options).fit(inputs, labels)
    assert AGAIN in capsys.readouterr().out
    assert (fitted.predict(inputs) == labels).mean() > 0.78
    for nets, kept in fitted._mixture.models[0].args[0]:
        assert not collapsed(nets.scores(fitted._prepared(inputs))[kept], labels, np.ones((kept.sum(), 600))).any()


@pytest.mark.parametrize("loss", [None, "ce"])
def test_a_fit_without_a_net_that_learns_warns(loss: str | None) -> None:
    classifier = pyrite.RobustClassifier(loss, folds=0, members=2)
    with pytest.warns(UserWarning, match="no net learned to separate the classes"):
        classifier.fit(np.zeros((60, 2)), np.arange(60) % 4 == 0)
    assert np.isfinite(classifier.predict_proba(np.zeros((1, 2)))).all()


def test_nets_collapse_by_their_own_training_labels() -> None:
    labels, one = np.array([0, 0, 0, 1]), np.array([[2.0, 1.0]])
    scores = np.stack([one.repeat(4, 0), np.eye(2)[labels], np.eye(2)[[0, 0, 1, 0]], np.eye(2)[[0, 0, 1, 1]]])
    assert collapsed(scores, labels, np.ones((4, 4))).tolist() == [True, False, True, True]
    only = np.tile([1.0, 1, 1, 0], (4, 1))  # one class is right where the labels are of one class
    assert not collapsed(scores, labels, only).any()
