import numpy as np
import pytest

from pyrite.diagnostics import MARGIN_EDGES, MarginHistograms


def test_against_numpy_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(0)
    margin, wrong = rng.normal(0, 12, 1000), rng.random(1000) < 0.3
    histograms = MarginHistograms()
    for part in np.array_split(np.arange(1000), 7):
        histograms.update(margin[part], wrong[part])
    histograms.end_epoch()
    assert histograms.clean is not None
    assert histograms.noisy is not None
    for counts, values in ((histograms.clean, margin[~wrong]), (histograms.noisy, margin[wrong])):
        expected = np.histogram(values, [-np.inf, *MARGIN_EDGES, np.inf])[0]
        assert counts.shape == (1, len(MARGIN_EDGES) + 1)
        assert counts[0].tolist() == expected.tolist()
        inside = np.mean((values >= -20) & (values < 20))
        assert (histograms.density(counts) * np.diff(MARGIN_EDGES)).sum() == pytest.approx(inside)


def test_edges_belong_to_the_bin_on_their_right() -> None:
    histograms = MarginHistograms([-1, 0, 1], truth=False)
    histograms.update([-1, 0, 1, -1.5])
    histograms.end_epoch()
    assert histograms.all.tolist() == [[1, 1, 1, 1]]
    assert (histograms.clean, histograms.noisy) == (None, None)


def test_an_epoch_without_samples_has_density_zero() -> None:
    histograms = MarginHistograms([-1, 0, 1], truth=False)
    assert histograms.all.shape == (0, 4)
    histograms.end_epoch()
    assert histograms.density(histograms.all).tolist() == [[0.0, 0.0]]


def test_merge_and_resume() -> None:
    one, other, both = (MarginHistograms([-1, 0, 1]) for _ in range(3))
    both.update([0.5, 3], [True, False])
    both.end_epoch()
    one.load_state_dict(both.state_dict())
    both.update([0.5, -3, 0.2], [True, True, False])
    one.update([0.5], [True])
    other.update([-3, 0.2], [True, False])
    one.merge(other)
    one.end_epoch()
    both.end_epoch()
    assert one.all.tolist() == both.all.tolist() == [[0, 0, 1, 1], [1, 0, 2, 0]]
    assert one.noisy is not None
    assert one.noisy.tolist() == [[0, 0, 1, 0], [1, 0, 1, 0]]


def test_bad_input() -> None:
    histograms = MarginHistograms([-1, 0, 1])
    for call, words in (
        (lambda: MarginHistograms([0]), "two or more in ascending order"),
        (lambda: MarginHistograms([0, 0]), "two or more in ascending order"),
        (lambda: histograms.update([np.nan], [True]), "margin is nan at index 0"),
        (lambda: histograms.update([0.0]), "is_wrong is missing"),
        (lambda: MarginHistograms(truth=False).update([0.0], [True]), "is_wrong is given"),
        (lambda: histograms.update([0.0], [True, False]), "lengths differ"),
        (lambda: histograms.merge(MarginHistograms()), "other bins"),
        (lambda: histograms.load_state_dict(MarginHistograms().state_dict()), "other bins"),
        (lambda: histograms.load_state_dict({}), "not that of histograms"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
