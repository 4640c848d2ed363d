"""The margins of all classes, averaged over epochs."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pyrite.diagnostics import TrainingObserver
from pyrite.diagnostics.class_margins import ClassMargins, epoch_weight

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SAMPLES, CLASSES = 30, 3
WEIGHTS = (0.5, 0.0, 2.0, 1.25)


def visits(seed: int) -> list[tuple[Ints, Floats]]:
    """Batches of an epoch: most samples once, some twice, some never."""
    random = np.random.default_rng(seed)
    index = random.permutation(
        np.concatenate([random.choice(SAMPLES, 24, replace=False), random.integers(0, SAMPLES, 6)])
    )
    return [(part, random.normal(0, 5, (len(part), CLASSES))) for part in np.array_split(index, 4)]


def by_hand(epochs: int) -> Floats:
    """Sample by sample, visit by visit."""
    total, share = np.zeros((SAMPLES, CLASSES)), np.zeros(SAMPLES)
    for epoch in range(epochs):
        seen = set()
        for index, margins in visits(epoch):
            for sample, row in zip(index.tolist(), margins, strict=True):
                if sample not in seen:
                    seen.add(sample)
                    total[sample] += WEIGHTS[epoch] * row
                    share[sample] += WEIGHTS[epoch]
    with np.errstate(invalid="ignore"):
        return total / share[:, None]


def feed(kept: ClassMargins, epoch: int, batches: slice = slice(None)) -> None:
    for index, margins in visits(epoch)[batches]:
        kept.record(index, margins)


@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_a_weighted_mean_of_first_visits(epochs: int) -> None:
    kept = ClassMargins(SAMPLES, CLASSES)
    for epoch in range(epochs):
        feed(kept, epoch)
        kept.end_epoch(WEIGHTS[epoch])
    wanted = by_hand(epochs)
    assert np.isnan(wanted).any() == (epochs < 4)
    np.testing.assert_allclose(kept.mean, wanted, rtol=1e-5, atol=1e-5)  # and NaN where nobody came
    assert kept.mean.dtype == np.float32


def test_the_epoch_under_way_does_not_count() -> None:
    kept = ClassMargins(SAMPLES, CLASSES)
    feed(kept, 0)
    assert np.isnan(kept.mean).all()
    kept.end_epoch()
    before = kept.mean
    feed(kept, 1)
    assert np.array_equal(kept.mean, before, equal_nan=True)


def test_the_first_visit_counts_also_within_a_batch() -> None:
    kept = ClassMargins(2, 2)
    kept.record([1, 1, 0], torch.tensor([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]))
    kept.record(torch.tensor([1]), [[9.0, 9.0]])
    kept.end_epoch()
    assert kept.mean.tolist() == [[3.0, -3.0], [1.0, -1.0]]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_says_nothing(odd: float) -> None:
    kept = ClassMargins(3, 2)
    kept.record([0, 1], [[odd, 1.0], [2.0, -2.0]])
    kept.record([0], [[5.0, -5.0]])  # the first that says something
    kept.record([2], [[1.0, odd]])
    kept.end_epoch()
    assert kept.mean[:2].tolist() == [[5.0, -5.0], [2.0, -2.0]]
    assert np.isnan(kept.mean[2]).all()


def test_two_processes_are_one() -> None:
    """Each sees half of the batches; what both saw counts as the first of them saw it."""
    whole = ClassMargins(SAMPLES, CLASSES)
    parts = [ClassMargins(SAMPLES, CLASSES) for _ in range(2)]
    for epoch in range(3):
        feed(whole, epoch)
        for rank, part in enumerate(parts):
            feed(part, epoch, slice(2 * rank, 2 * rank + 2))
        states = [part.epoch_state() for part in parts]
        assert sum(len(state["index"]) for state in states) < 2 * SAMPLES  # only what was seen travels
        for kept in (whole, *parts):
            if kept is not whole:
                kept.merge(states)
            kept.end_epoch(WEIGHTS[epoch])
    for part in parts:
        assert np.array_equal(part.mean, whole.mean, equal_nan=True)


def test_a_state_in_mid_epoch() -> None:
    whole, begun, resumed = (ClassMargins(SAMPLES, CLASSES) for _ in range(3))
    for kept in (whole, begun):
        feed(kept, 0)
        kept.end_epoch(0.5)
        feed(kept, 1, slice(0, 2))
    state = begun.state_dict()
    feed(begun, 2)  # what comes after is not in it
    begun.end_epoch()
    feed(resumed, 3)  # and what was there before is forgotten
    resumed.load_state_dict(state)
    for kept in (whole, resumed):
        feed(kept, 1, slice(2, 4))
        kept.end_epoch(2.0)
    assert whole.mean.tobytes() == resumed.mean.tobytes()


def test_a_state_of_another_shape_changes_nothing() -> None:
    kept = ClassMargins(SAMPLES, CLASSES)
    feed(kept, 0)
    kept.end_epoch()
    before = kept.mean
    with pytest.raises(ValueError, match=r"the state has the shape \(30, 4\), this is \(30, 3\)"):
        kept.load_state_dict(ClassMargins(SAMPLES, 4).state_dict())
    assert np.array_equal(kept.mean, before, equal_nan=True)


def test_too_many_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.diagnostics.class_margins._LARGEST", SAMPLES * CLASSES - 1)
    kept, other = ClassMargins(SAMPLES, CLASSES), ClassMargins(SAMPLES, CLASSES)
    assert not kept.kept
    feed(kept, 0)
    kept.merge([kept.epoch_state(), other.epoch_state()])
    kept.end_epoch()
    other.load_state_dict(kept.state_dict())
    assert kept.mean.shape == other.mean.shape == (0, CLASSES)
    assert sum(array.nbytes for array in kept.state_dict().values()) == 0
    assert ClassMargins(SAMPLES - 1, CLASSES).kept


@pytest.mark.parametrize(
    ("index", "margins", "said"),
    [
        ([0, 1], np.zeros((2, 4)), r"margins have the shape \(2, 4\), for 2 samples of 3 classes"),
        ([0], np.zeros((2, 3)), r"margins have the shape \(2, 3\), for 1 samples"),
        ([-1], np.zeros((1, 3)), "index is -1 at index 0"),
        ([0], np.zeros(3), "margins has the shape"),
    ],
)
def test_what_does_not_fit(index: Any, margins: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ClassMargins(SAMPLES, CLASSES).record(index, margins)


# --- how much an epoch says -----------------------------------------------------------------------------------------


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


def test_an_observer_passes_it_on() -> None:
    given = np.arange(SAMPLES) % CLASSES
    observer, alone = TrainingObserver(given, classes=CLASSES), ClassMargins(SAMPLES, CLASSES)
    assert observer.class_margins is not None
    for epoch, unseen in enumerate((True, False, True)):
        random = np.random.default_rng(epoch)
        index, margins = random.permutation(SAMPLES), random.normal(size=(SAMPLES, CLASSES))
        prediction = np.where(np.arange(SAMPLES) < 6 * epoch, given[index], (given[index] + 1) % CLASSES)
        observer.update(index, np.zeros(SAMPLES), prediction)
        for kept in (observer.class_margins, alone):
            kept.record(index, margins, unseen=unseen)
        line = observer.end_epoch()
        assert line["train_accuracy"] == 6 * epoch / SAMPLES
        right = float((margins.argmax(1) == given[index]).mean()) if unseen else None
        assert line["unseen_accuracy"] == right
        alone.end_epoch(epoch_weight(6 * epoch / SAMPLES, right))
    assert np.array_equal(observer.class_margins.mean, alone.mean, equal_nan=True)
    assert TrainingObserver(given).class_margins is None


def test_observers_exchange_and_save_it() -> None:
    given = np.arange(SAMPLES) % CLASSES
    one, two, whole = (TrainingObserver(given, classes=CLASSES) for _ in range(3))
    for observer, batches in ((one, slice(0, 2)), (two, slice(2, 4)), (whole, slice(0, 4))):
        assert observer.class_margins is not None
        feed(observer.class_margins, 0, batches)
    states = [one.epoch_state(), two.epoch_state()]
    one.merge(states)
    later = TrainingObserver(given, classes=CLASSES)
    later.load_state_dict(one.state_dict())
    for observer in (one, later, whole):
        observer.end_epoch()
    for observer in (one, later):
        assert observer.class_margins is not None
        assert whole.class_margins is not None
        assert observer.class_margins.mean.tobytes() == whole.class_margins.mean.tobytes()
