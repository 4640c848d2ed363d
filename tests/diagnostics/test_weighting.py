import json

import numpy as np
import pytest
import torch

import pyrite
from pyrite.diagnostics import LearningWeights, effective_samples, weight_statistics


def test_alpha_and_snr_by_hand() -> None:
    means = LearningWeights()
    means.update([0.5, 0.1], rate=0.1, is_wrong=[False, True])
    means.update([0.2, 0.2, 0.4], rate=0.01, is_wrong=[False, True, True])
    assert means.alpha == pytest.approx(2 * (0.06 + 0.008) / 0.23)
    assert means.clean == pytest.approx((0.05 + 0.002) / 0.11)
    assert means.noisy == pytest.approx((0.01 + 0.006) / 0.12)
    assert means.snr == pytest.approx((0.052 / 0.11) / (0.016 / 0.12))


def test_alpha_is_the_mean_norm_of_the_gradients_autograd_finds() -> None:
    generator = torch.Generator().manual_seed(0)
    loss, means = pyrite.loss("gce(q=0.7)"), LearningWeights()
    above, below = 0.0, 0.0
    for rate in (0.1, 0.05, 0.01):
        scores = torch.randn(32, 10, generator=generator, dtype=torch.float64, requires_grad=True)
        labels = torch.randint(10, (32,), generator=generator)
        loss(scores, labels).mul(32).backward()
        above += rate * float(scores.grad.abs().sum())
        below += rate * 32
        means.update(loss.weight_at(pyrite.margin(scores, labels)), rate)
    assert means.alpha == pytest.approx(above / below, rel=1e-9)


def test_rates_a_sample_equal_a_rate_a_step_and_parts_equal_the_whole() -> None:
    rng = np.random.default_rng(0)
    weight, wrong = rng.random(40), rng.random(40) < 0.4
    whole, steps, first, second = (LearningWeights() for _ in range(4))
    whole.update(weight, np.repeat([0.1, 0.02], 20), wrong)
    for part, rate, half in ((slice(20), 0.1, first), (slice(20, 40), 0.02, second)):
        steps.update(weight[part], rate, wrong[part])
        half.update(weight[part], rate, wrong[part])
    first.merge(second)
    for other in (steps, first):
        assert (other.alpha, other.snr) == pytest.approx((whole.alpha, whole.snr), rel=1e-14)


def test_a_gradient_has_a_length_whatever_its_sign() -> None:
    means = LearningWeights()
    means.update([0.3, -0.1], rate=0.1, is_wrong=[False, True])
    assert means.alpha == pytest.approx(0.4)
    assert (means.noisy, means.snr) == (pytest.approx(-0.1), pytest.approx(-3.0))


def test_none_where_nothing_is_known() -> None:
    means = LearningWeights()
    assert (means.alpha, means.clean, means.noisy, means.snr) == (None,) * 4
    means.update([0.5], rate=0.0, is_wrong=[True])
    assert (means.alpha, means.snr) == (None, None)
    means.update([0.5], rate=0.1)
    assert (means.alpha, means.snr) == (1.0, None)  # truth unknown
    means.update([0.5], rate=np.float32(0.1), is_wrong=[False])
    assert (means.clean, means.noisy, means.snr) == (0.5, None, None)  # no wrong label
    means.update([0.0], rate=0.1, is_wrong=[True])
    assert (means.noisy, means.snr) == (0.0, None)  # wrong labels weigh nothing


def test_state_goes_through_json_bit_for_bit() -> None:
    means, again = LearningWeights(), LearningWeights()
    means.update([0.1, 0.7], rate=0.3, is_wrong=[True, False])
    again.load_state_dict(json.loads(json.dumps(means.state_dict())))
    assert again.state_dict() == means.state_dict()
    with pytest.raises(ValueError, match="the state holds"):
        again.load_state_dict({"rate": 1.0})


def test_statistics_by_hand() -> None:
    found = weight_statistics([0.0, 1.0, 2.0, 3.0, 4.0])
    assert found == pytest.approx(
        {
            "mean": 2.0,
            "std": 2**0.5,
            "min": 0.0,
            "q05": 0.2,
            "q25": 1.0,
            "median": 2.0,
            "q75": 3.0,
            "q95": 3.8,
            "max": 4.0,
            "effective_share": 100 / 30 / 5,
        }
    )
    assert set(weight_statistics([]).values()) == {None}
    assert weight_statistics([]).keys() == found.keys()
    assert weight_statistics([0.0, 0.0])["effective_share"] is None


def test_effective_samples() -> None:
    assert effective_samples([3.0] * 7) == pytest.approx(7)
    assert effective_samples([0.0, 5.0]) == 1.0
    assert effective_samples([1e-200, 1e-200]) == pytest.approx(2)
    assert effective_samples([1e200, 1e200]) == pytest.approx(2)
    assert effective_samples([0.0]) is None
    assert effective_samples([]) is None


def test_bad_input() -> None:
    means = LearningWeights()
    for call, words in (
        (lambda: means.update([0.1, np.nan], 0.1), "weight is nan at index 1"),
        (lambda: means.update([0.1], -0.1), "rate is -0.1 at index 0"),
        (lambda: means.update([0.1], np.nan), "rate is nan"),
        (lambda: means.update([0.1], 0.1, [True, False]), "lengths differ"),
        (lambda: means.update([0.1, 0.2, 0.3], [0.1, 0.2]), "lengths differ: weight 3, rate 2"),
        (lambda: weight_statistics([np.inf]), "weight is inf at index 0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert means.alpha is None  # nothing of a refused batch was counted
