import numpy as np
import pytest

from pyrite.diagnostics import effective_samples, epoch_weight, weight_statistics


@pytest.mark.parametrize(
    ("followed", "held_out", "weight"),
    [
        (0.6, 0.5, 0.25 * 0.4 / 0.5),
        (0.9, 0.6, 0.36 * 0.1 / 0.4),
        (0.3, 0.5, 0.25),  # as much as can be: nothing was learned by heart
        (1.0, 0.5, 1e-6),
        (0.5, 0.0, 1e-6),
        (1.0, 1.0, 1.0),  # labels without a fault, and all of them known
        (0.2, 1.0, 1.0),
        (None, 0.5, 1.0),
        (0.5, None, 1.0),
    ],
)
def test_the_weight_of_an_epoch(followed: float | None, held_out: float | None, weight: float) -> None:
    assert epoch_weight(followed, held_out) == pytest.approx(weight, abs=1e-15)


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
            "effective_fraction": 100 / 30 / 5,
        }
    )
    assert set(weight_statistics([]).values()) == {None}
    assert weight_statistics([]).keys() == found.keys()
    assert weight_statistics([0.0, 0.0])["effective_fraction"] is None


def test_effective_samples() -> None:
    assert effective_samples([3.0] * 7) == pytest.approx(7)
    assert effective_samples([0.0, 5.0]) == 1.0
    assert effective_samples([1e-200, 1e-200]) == pytest.approx(2)
    assert effective_samples([1e200, 1e200]) == pytest.approx(2)
    assert effective_samples([0.0]) is None
    assert effective_samples([]) is None


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="weight is inf at index 0"):
        weight_statistics([np.inf])
