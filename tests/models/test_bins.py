"""The first layer for tables, against numpy."""

import numpy as np
import pytest
import torch

import pyrite
from pyrite.models import build_model
from pyrite.models.layers import TableInputs


def test_bins_rise_from_edge_to_edge() -> None:
    rng = np.random.default_rng(0)
    seen = rng.exponential(size=(500, 2))
    layer = TableInputs(2, None, 4).double()
    layer.fit(torch.from_numpy(seen), seed=0)
    asked = rng.normal(size=(40, 2)) * 3
    found = layer(torch.from_numpy(asked)).numpy()
    np.testing.assert_array_equal(found[:, :2], asked)
    for feature in range(2):
        edges = np.quantile(seen[:, feature], np.linspace(0, 1, 5))
        for place in range(4):
            expected = np.interp(asked[:, feature], edges[place : place + 2], [-1, 1])
            np.testing.assert_allclose(found[:, 2 + 4 * feature + place], expected, atol=1e-6)


def test_a_feature_with_few_values_gets_steps() -> None:
    layer = TableInputs(1, None, 4)
    layer.fit(torch.tensor([0.0, 0, 0, 0, 0, 0, 1, 2]).view(-1, 1), seed=0)
    bins = layer(torch.tensor([[0.0], [1.0], [2.0]]))[:, 1:]
    assert len(torch.unique(bins, dim=0)) == 3
    assert torch.isfinite(bins).all()


def test_nothing_is_further_than_the_limit() -> None:
    bent = TableInputs(1, 3.0, 0)(torch.tensor([[0.0], [0.1], [3.0], [1e6], [-1e6]])).flatten()
    torch.testing.assert_close(bent, torch.tensor([0.0, 0.1 / (1 + 0.01 / 9) ** 0.5, 3 / 2**0.5, 3.0, -3.0]))


def test_a_run_keeps_its_bins(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.exponential(size=(80, 3)).astype(np.float32)
    data = pyrite.Dataset("rows", inputs, np.arange(80) % 2, ("a", "b"))
    run = pyrite.train(data, model="mlp(hidden=(4,), bins=4)", loss="ce", epochs=1, out=tmp_path, progress=False)
    edges = run.model.body[1].edges
    assert (edges != TableInputs(3, None, 4).edges).all()
    assert (edges.diff(dim=1) >= 0).all()


@pytest.mark.parametrize("spec", ["mlp(bins=-1)", "mlp(bins=1.5)", "mlp(limit=0)", "mlp(limit='a')"])
def test_what_makes_no_sense_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"(bins|limit) is"):
        build_model(spec, (3,), 2, 0)
