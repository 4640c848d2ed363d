"""The estimated noise rate against mixtures and noise of known rates."""

from pathlib import Path

import numpy as np
import pytest
import torch

import pyrite
from pyrite.methods import CoTeaching, estimate_noise_rate

ROWS = np.random.default_rng(0)


def simulated(rate: float, count: int = 4000, shift: float = 4.0) -> torch.Tensor:
    """Margins of a net that is right about every sample: ``shift`` for right labels, its negative for wrong ones."""
    wrong = ROWS.random(count) < rate
    return torch.from_numpy(np.where(wrong, -shift, shift) + 1.5 * ROWS.normal(size=count))


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4, 0.6])
def test_the_share_of_the_lower_component(rate: float) -> None:
    assert estimate_noise_rate(simulated(rate)) == pytest.approx(rate, abs=0.02)


def test_it_is_the_maximum_of_the_likelihood() -> None:
    """scikit-learn's mixture with tied covariances finds the same share."""
    from sklearn.mixture import GaussianMixture

    margins = simulated(0.3, shift=1.8)
    theirs = GaussianMixture(2, covariance_type="tied", tol=1e-9, max_iter=2000, random_state=0)
    theirs.fit(margins.numpy()[:, None])
    lower = theirs.weights_[theirs.means_[:, 0].argmin()]
    assert estimate_noise_rate(margins) == pytest.approx(lower, abs=1e-3)


def test_none_where_nothing_says_that_labels_are_wrong() -> None:
    assert estimate_noise_rate(torch.from_numpy(np.r_[ROWS.normal(2, 0.5, 500), ROWS.normal(9, 0.5, 900)])) == 0  # hard
    assert estimate_noise_rate(torch.full((50,), 3.0)) == 0
    assert estimate_noise_rate(torch.tensor([])) == 0
    with_gap = torch.cat([simulated(0.4), torch.tensor([torch.nan] * 20)])
    assert estimate_noise_rate(with_gap) == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize(("noise", "off"), [(None, 0.02), ("symmetric(0.2)", 0.06), ("flip2(0.4)", 0.12)])
def test_digits(noise: str | None, off: float, tmp_path: Path) -> None:
    run = pyrite.train(
        "digits", method="co_teaching", noise=noise, model="mlp", epochs=4, out=tmp_path / "run", progress=False
    )
    part = run.labels["part"] == 0
    wrong = (run.labels["given"] != run.labels["true"])[part].mean() if noise else 0.0
    assert "noise_rate_estimated" not in run.history[1]
    assert run.history[-1]["noise_rate_estimated"] == pytest.approx(wrong, abs=off)


def test_rates_that_are_refused() -> None:
    for rate in (-0.1, 1, True, "much"):
        with pytest.raises(ValueError, match="rate is"):
            CoTeaching(rate)  # type: ignore[arg-type]
