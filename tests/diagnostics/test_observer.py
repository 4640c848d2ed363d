import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pyrite.diagnostics import LearningWeights, Tally, TrainingObserver, subset_accuracies, weight_statistics

RATES = (0.1, 0.05, 0.01)


def epoch_of(seed: int, samples: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "index": rng.permutation(samples),
        "margin": rng.normal(0, 5, samples),
        "prediction": rng.integers(0, 3, samples),
        "weight": rng.random(samples),
    }


def feed(observer: TrainingObserver, drawn: dict[str, np.ndarray], rate: float, rows: slice = slice(None)) -> None:
    for part in np.array_split(np.arange(len(drawn["index"]))[rows], 4):
        observer.update(**{name: values[part] for name, values in drawn.items()}, rate=rate)


@pytest.fixture
def labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, 40), rng.integers(0, 3, 40)


def test_a_run_against_its_definition(labels: tuple[np.ndarray, np.ndarray]) -> None:
    given, true = labels
    observer = TrainingObserver(given, true)
    lines = []
    means = LearningWeights()
    for number, rate in enumerate(RATES):
        drawn = epoch_of(number, 40)
        feed(observer, drawn, rate)
        lines.append(observer.end_epoch(test=Tally(7 - number, 10)))
        index = drawn["index"]
        subsets = subset_accuracies(drawn["prediction"], given[index], true[index])
        means.update(drawn["weight"], rate, (given != true)[index])
        shares = subsets.shares()
        assert [lines[-1][name] for name in ("train_accuracy", "clean_accuracy", "memorised", "recovered")] == [
            shares[name] for name in ("given", "clean", "memorised", "recovered")
        ]
        assert subsets.true is not None
        assert lines[-1]["hybrid_accuracy"] == (7 - number + subsets.true.hits) / 50
        assert lines[-1]["alpha"] == pytest.approx(means.alpha, rel=1e-13)
        assert lines[-1]["snr"] == pytest.approx(means.snr, rel=1e-13)
        for name, value in weight_statistics(drawn["weight"]).items():
            assert lines[-1][f"weight_{name}"] == pytest.approx(value, rel=1e-13)
        assert observer.histograms.clean is not None
        assert observer.histograms.clean[-1].sum() == np.count_nonzero(given == true)
    json.dumps(lines)
    assert observer.epochs == 3
    assert (observer.test.final, observer.test.best_on_test, observer.test.best_epoch) == (0.5, 0.7, 1)
    assert observer.evidence.visits.tolist() == [3] * 40


def test_alpha_runs_within_an_epoch(labels: tuple[np.ndarray, np.ndarray]) -> None:
    observer = TrainingObserver(*labels)
    assert observer.weights.alpha is None
    observer.update([0, 1], [0.0, 0.0], [0, 0], [0.5, 0.1], rate=0.1)
    assert observer.weights.alpha == pytest.approx(0.6)
    observer.update([2, 0], [0.0, 0.0], [0, 0], [0.2, 99.0], rate=0.2)  # sample 0 is padding
    assert observer.weights.alpha == pytest.approx(2 * (0.06 + 0.04) / 0.4)
    assert observer.end_epoch()["alpha"] == pytest.approx(0.5)
    assert observer.weights.alpha == pytest.approx(0.5)


def test_without_truth_nothing_crashes_and_the_names_stay(labels: tuple[np.ndarray, np.ndarray]) -> None:
    known, unknown = TrainingObserver(*labels), TrainingObserver(labels[0])
    lines = []
    for observer in (known, unknown):
        feed(observer, epoch_of(0, 40), 0.1)
        lines.append(observer.end_epoch(test=Tally(1, 2)))
    assert lines[0].keys() == lines[1].keys()
    none = {name for name, value in lines[1].items() if value is None}
    assert none == {
        "unseen_accuracy",  # no margins of all classes are kept here
        "clean_accuracy",
        "memorised",
        "recovered",
        "hybrid_accuracy",
        "snr",
        "clean_weight",
        "noisy_weight",
        "margin_auc",
        "margin_mean_auc",
        "trust_auc",
    }
    assert all(lines[0][name] == lines[1][name] for name in lines[0].keys() - none)
    assert [name for name, value in lines[0].items() if value is None] == [
        "unseen_accuracy",
        "trust_auc",
    ]  # nobody weighed samples
    assert unknown.histograms.all.tolist() == known.histograms.all.tolist()


def test_without_weights_test_or_samples() -> None:
    observer = TrainingObserver([0, 1], true=[0, 0])
    assert set(observer.end_epoch().values()) == {None}  # an epoch that saw nothing
    observer.update([0, 1], [1.0, -1.0], [0, 0])
    line = observer.end_epoch()
    assert (line["clean_accuracy"], line["memorised"], line["recovered"]) == (1.0, 0.0, 1.0)
    assert {value for name, value in line.items() if "weight" in name or name in ("alpha", "snr")} == {None}
    assert (line["test_accuracy"], line["hybrid_accuracy"], observer.test.final) == (None, None, None)


def test_two_ranks_with_padding_equal_one_process(labels: tuple[np.ndarray, np.ndarray]) -> None:
    alone, first, second = (TrainingObserver(*labels) for _ in range(3))
    for number, rate in enumerate(RATES):
        drawn = epoch_of(number, 40)
        feed(alone, drawn, rate)
        feed(first, drawn, rate, slice(23))
        feed(second, drawn, rate, slice(20, 40))  # three of them twice
        states = [observer.epoch_state() for observer in (first, second)]
        first.merge(states)
        second.merge(states)
        assert first.end_epoch() == second.end_epoch() == alone.end_epoch()
    assert_same(first, alone)
    assert_same(second, alone)


def test_resume_in_the_middle_of_an_epoch_is_exact(labels: tuple[np.ndarray, np.ndarray]) -> None:
    whole, before, after = (TrainingObserver(*labels) for _ in range(3))
    for observer in (whole, before):
        feed(observer, epoch_of(0, 40), 0.1)
        observer.end_epoch(test=Tally(2, 3))
        feed(observer, epoch_of(1, 40), 0.1, slice(17))
    state = before.state_dict()
    plain = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
    after.load_state_dict(state | json.loads(json.dumps(plain)))
    lines = []
    for observer in (whole, after):
        feed(observer, epoch_of(1, 40), 0.1, slice(17, 40))
        lines.append(observer.end_epoch(test=Tally(1, 3)))
    assert lines[0] == lines[1]
    assert_same(whole, after)


def test_bad_input(labels: tuple[np.ndarray, np.ndarray]) -> None:
    observer = TrainingObserver(*labels)
    with pytest.raises(ValueError, match="lengths differ: given 2, true 3"):
        TrainingObserver([0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="margin of sample 5 is inf"):
        observer.update([5], [np.inf], [0])
    with pytest.raises(ValueError, match="different setting of truth"):
        observer.load_state_dict(TrainingObserver(labels[0]).state_dict())
    with pytest.raises(ValueError, match="not that of histograms"):
        observer.load_state_dict({})


def assert_same(one: TrainingObserver, other: TrainingObserver) -> None:
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert np.asarray(value).tobytes() == np.asarray(theirs[name]).tobytes(), name


def test_wrong_labels_are_found_by_low_margins_and_low_trust() -> None:
    rows = np.random.default_rng(0)
    given, true = rows.integers(3, size=60), rows.integers(3, size=60)
    observer = TrainingObserver(given, true)
    margins, trusts = rows.normal(size=(2, 60)), rows.random((2, 60))
    for margin, trust in zip(margins, trusts, strict=True):
        observer.update(np.arange(60), margin, given, np.ones(60), 0.1, trust)
        line = observer.end_epoch()
    wrong = given != true
    assert line["margin_auc"] == pytest.approx(roc_auc_score(wrong, -margins[1]))
    assert line["margin_mean_auc"] == pytest.approx(roc_auc_score(wrong, -margins.mean(0)))
    assert line["trust_auc"] == pytest.approx(roc_auc_score(wrong, -trusts[1]))
    assert np.array_equal(observer.evidence.arrays()["last_trust"], trusts[1])
