"""Losses as skorch's criterion: by class, by spec, with class and sample weights, cloned, searched, kept and read."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from torch import Tensor, nn

import pyrite

INPUTS, LABELS = (part[:300] for part in load_digits(return_X_y=True))
INPUTS = (INPUTS / 16).astype(np.float32)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Linear(64, 10)

    def forward(self, x: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


class Weighted(NeuralNetClassifier):  # type: ignore[misc]
    """What docs/integrations.md says to write."""

    def get_loss(self, y_pred: Tensor, y_true: Tensor, X: Any = None, training: bool = False) -> Tensor:  # noqa: N803
        return self.criterion_(y_pred, y_true, sample_weight=X["sample_weight"])  # type: ignore[no-any-return]


def net(kind: Any = NeuralNetClassifier, **options: Any) -> Any:
    settings: dict[str, Any] = {"max_epochs": 3, "lr": 0.5, "batch_size": 50, "train_split": None, "verbose": 0}
    softmax = partial(torch.softmax, dim=-1)
    return kind(Net, predict_nonlinearity=softmax, iterator_train__shuffle=False, **settings | options)


def weights(fitted: Any) -> Tensor:
    return fitted.module_.layers.weight.detach()


def fitted(*arguments: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    return net(**options).fit(*arguments or (INPUTS, LABELS))


def test_cross_entropy_is_torchs() -> None:
    weight = torch.linspace(0.5, 2, 10)
    mine = fitted(criterion=pyrite.CE, criterion__weight=weight)
    theirs = fitted(criterion=nn.CrossEntropyLoss, criterion__weight=weight)
    torch.testing.assert_close(weights(mine), weights(theirs), rtol=0, atol=1e-6)
    np.testing.assert_allclose(mine.predict_proba(INPUTS), theirs.predict_proba(INPUTS), rtol=0, atol=1e-6)
    np.testing.assert_allclose(mine.predict_proba(INPUTS).sum(1), 1, rtol=1e-5)


def test_parameters_reach_the_loss() -> None:
    one = fitted(criterion=pyrite.IMAE, criterion__T=8)
    assert str(one.criterion_) == "imae(T=8)"
    assert one.get_params()["criterion__T"] == 8
    spelled = fitted(criterion=pyrite.loss, criterion__spec="imae(T=8)")
    made = fitted(criterion=pyrite.IMAE(T=8))
    for other in (spelled, made):
        assert torch.equal(weights(one), weights(other))
    assert not torch.equal(weights(one), weights(fitted(criterion=pyrite.IMAE, criterion__T=1)))
    one.set_params(criterion__T=2)
    assert str(one.criterion_) == "imae(T=2)"


@pytest.mark.parametrize(
    "options",
    [
        {"criterion": pyrite.IMAE, "criterion__T": 8, "criterion__weight": torch.linspace(0.5, 2, 10)},
        {"criterion": pyrite.loss, "criterion__spec": "0.7*nce + 0.3*mae"},
        {"criterion": pyrite.loss("0.5*imae(T=8) + gce(q=0.7)")},
    ],
    ids=["class", "spec", "loss"],
)
def test_clones_and_copies(options: dict[str, Any], tmp_path: Path) -> None:
    first = fitted(**options)
    torch.manual_seed(0)
    again = clone(first).fit(INPUTS, LABELS)
    assert str(again.criterion_) == str(first.criterion_)
    assert torch.equal(weights(again), weights(first))
    unpickled = pickle.loads(pickle.dumps(first))
    assert str(unpickled.criterion_) == str(first.criterion_)
    np.testing.assert_array_equal(unpickled.predict_proba(INPUTS), first.predict_proba(INPUTS))
    files = {"f_params": tmp_path / "net", "f_criterion": tmp_path / "loss", "f_optimizer": tmp_path / "optimiser"}
    first.save_params(**files)
    read = net(**options).initialize()
    read.load_params(**files)
    assert torch.equal(weights(read), weights(first))
    assert str(read.criterion_) == str(first.criterion_)


def test_a_grid_over_losses() -> None:
    grid = [
        {"criterion": [pyrite.IMAE], "criterion__T": [0.5, 8]},
        {"criterion": [pyrite.loss], "criterion__spec": ["ce"]},
    ]
    torch.manual_seed(0)
    search = GridSearchCV(net(max_epochs=5), grid, cv=2, scoring="accuracy").fit(INPUTS, LABELS)
    assert len(search.cv_results_["params"]) == 3
    assert search.best_score_ > 0.7
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_sample_weights() -> None:
    """The mean is the weighted one: twice the weights change nothing, and weights of 0 leave samples out."""
    share = (np.arange(300) >= 150).astype(np.float32)
    weighted = fitted({"x": INPUTS, "sample_weight": share + 1e-12}, LABELS, kind=Weighted, criterion=pyrite.CE)
    doubled = fitted({"x": INPUTS, "sample_weight": 2 * share + 2e-12}, LABELS, kind=Weighted, criterion=pyrite.CE)
    torch.testing.assert_close(weights(weighted), weights(doubled), rtol=0, atol=1e-6)  # a weighted mean
    even = np.where(np.arange(300) % 2, 0, 1).astype(np.float32)
    halves = fitted({"x": INPUTS, "sample_weight": even}, LABELS, kind=Weighted, criterion=pyrite.CE)
    kept = fitted(INPUTS[::2], LABELS[::2], criterion=pyrite.CE, batch_size=25)
    torch.testing.assert_close(weights(halves), weights(kept), rtol=0, atol=1e-6)
    assert halves.predict({"x": INPUTS}).shape == (300,)
