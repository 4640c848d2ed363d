import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from pyrite.diagnostics import SampleEvidence, Visits


def test_one_sample_by_hand() -> None:
    evidence = SampleEvidence([0, 1])
    for margin, prediction, weight in ((-1.0, 1, 0.5), (2.0, 0, 0.25), (1.0, 1, 0.0), (4.0, 0, 0.25)):
        evidence.update([0], [margin], [prediction], [weight], rate=0.1)
        evidence.end_epoch()
    found = {name: values.tolist() for name, values in evidence.arrays().items()}
    assert found["visits"] == [4, 0]
    assert found["margin_mean"][0] == 1.5
    assert found["margin_variance"][0] == pytest.approx(np.var([-1, 2, 1, 4]))
    assert found["last_margin"][0] == 4.0
    assert found["agreements"] == [2, 0]
    assert found["learned"] == [2, 0]
    assert found["forgotten"] == [1, 0]
    assert found["weight_mean"][0] == 0.25
    # the other was never seen
    assert all(np.isnan(found[name][1]) for name in ("margin_mean", "margin_variance", "last_margin", "weight_mean"))


def test_against_numpy_over_many_epochs() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 50)
    margins, weights = rng.normal(3, 5, (30, 50)), rng.random((30, 50))
    predictions = rng.integers(0, 3, (30, 50))
    evidence = SampleEvidence(labels)
    for margin, weight, prediction in zip(margins, weights, predictions, strict=True):
        for rows in np.array_split(rng.permutation(50), 4):
            evidence.update(rows, margin[rows], prediction[rows], weight[rows], rate=0.1)
        evidence.end_epoch()
    agrees = predictions == labels
    np.testing.assert_allclose(evidence.margin_mean, margins.mean(0), rtol=1e-12)
    np.testing.assert_allclose(evidence.margin_variance, margins.var(0), rtol=1e-12)
    np.testing.assert_allclose(evidence.weight_mean, weights.mean(0), rtol=1e-12)
    assert evidence.agreements.tolist() == agrees.sum(0).tolist()
    rises = np.diff(agrees.astype(int), axis=0, prepend=0)
    assert evidence.learned.tolist() == (rises == 1).sum(0).tolist()
    assert evidence.forgotten.tolist() == (rises == -1).sum(0).tolist()


def test_variance_far_from_zero_keeps_its_digits() -> None:
    evidence = SampleEvidence([0])
    for margin in (1e8 + 1, 1e8 + 2, 1e8 + 3):
        evidence.update([0], [margin], [0])
        evidence.end_epoch()
    assert evidence.margin_variance[0] == pytest.approx(2 / 3, rel=1e-6)


def test_the_first_visit_of_an_epoch_counts_and_padding_does_not() -> None:
    evidence = SampleEvidence([0, 0, 0])
    evidence.update([2, 0, 2], [1.0, 5.0, 9.0], [0, 0, 1], [0.1, 0.5, 0.9], rate=0.3)
    evidence.update([0, 1], [7.0, 3.0], [1, 0], [0.7, 0.3], rate=0.1)
    assert evidence.epoch.margin.tolist() == [5.0, 3.0, 1.0]
    assert evidence.epoch.weight.tolist() == [0.5, 0.3, 0.1]
    assert evidence.epoch.rate.tolist() == [0.3, 0.1, 0.3]
    evidence.end_epoch()
    assert evidence.visits.tolist() == [1, 1, 1]
    assert evidence.agreements.tolist() == [1, 1, 1]
    assert not evidence.epoch.seen.any()
    evidence.update([0], [7.0], [1])
    evidence.end_epoch()
    assert evidence.visits.tolist() == [2, 1, 1]
    assert evidence.weight_mean.tolist() == [0.5, 0.3, 0.1]  # a visit that said no weight has none to count


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_ranks_with_padding_equal_one_process_bit_for_bit(seed: int, ranks: int) -> None:
    rng = np.random.default_rng(seed)
    samples = int(rng.integers(1, 30))
    labels = rng.integers(0, 3, samples)
    alone, shared = SampleEvidence(labels), [SampleEvidence(labels) for _ in range(ranks)]
    for _ in range(3):
        margin, weight = rng.normal(size=samples), rng.random(samples)
        prediction = rng.integers(0, 3, samples)
        alone.update(np.arange(samples), margin, prediction, weight, rate=0.1)
        # As a distributed sampler deals: padded with the first ones until all ranks have as many.
        order = np.resize(rng.permutation(samples), -(-samples // ranks) * ranks)
        for rank, evidence in enumerate(shared):
            rows = order[rank::ranks]
            evidence.update(rows, margin[rows], prediction[rows], weight[rows], rate=0.1)
        states = [evidence.epoch.state_dict() for evidence in shared]
        for evidence in shared:
            evidence.epoch.merge(states)
            evidence.end_epoch()
        alone.end_epoch()
    for evidence in shared:
        assert_same(evidence.state_dict(), alone.state_dict())


def test_of_two_ranks_that_saw_a_sample_the_first_counts() -> None:
    first, second = Visits(2), Visits(2)
    first.record([0], [1.0], [0])
    second.record([0, 1], [2.0, 3.0], [1, 1])
    states = [first.state_dict(), second.state_dict()]
    for visits in (first, second):
        visits.merge(states)
        assert visits.margin.tolist() == [1.0, 3.0]
        assert visits.prediction.tolist() == [0, 1]


def test_resume_in_the_middle_of_an_epoch_is_exact(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 20)
    whole, before, after = (SampleEvidence(labels) for _ in range(3))

    def feed(evidence: SampleEvidence, epoch: int, rows: slice) -> None:
        draws = np.random.default_rng(epoch)
        index = draws.permutation(20)[rows]
        evidence.update(
            index,
            draws.normal(size=20)[rows],
            draws.integers(0, 3, 20)[rows],
            draws.random(20)[rows],
            rate=0.1 / (1 + epoch),
        )

    for evidence in (whole, before):
        feed(evidence, 0, slice(20))
        evidence.end_epoch()
        feed(evidence, 1, slice(7))
    state = before.state_dict()
    before.update([0, 1, 2], [9.0] * 3, [0] * 3)  # a state is a copy: what goes on elsewhere leaves it alone
    before.end_epoch()
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in state.items() if name not in arrays}
    np.savez(f"{tmp_path}/state.npz", **arrays)
    with np.load(f"{tmp_path}/state.npz", allow_pickle=False) as held:
        after.load_state_dict(dict(held) | json.loads(json.dumps(plain)))
    for evidence in (whole, after):
        feed(evidence, 1, slice(7, 20))
        evidence.end_epoch()
    assert_same(after.state_dict(), whole.state_dict())


def test_tensors_are_taken_as_they_come() -> None:
    evidence = SampleEvidence(torch.tensor([0, 1]))
    evidence.update(
        torch.tensor([1]), torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True), torch.tensor([1]), None, 0.1
    )
    evidence.end_epoch()
    assert evidence.arrays()["agreements"].tolist() == [0, 1]


def test_bad_input() -> None:
    evidence = SampleEvidence([0, 1, 2])
    other = SampleEvidence([0, 1]).state_dict()
    broken = evidence.state_dict() | {"visits": np.zeros(2, int)}
    for call, words in (
        (lambda: SampleEvidence([]), "samples is 0"),
        (lambda: SampleEvidence([0, -1]), "labels is -1 at index 1"),
        (lambda: evidence.update([3], [0.0], [0]), "index is 3 at position 0, but there are 3 samples"),
        (lambda: evidence.update([-1], [0.0], [0]), "index is -1 at index 0"),
        (lambda: evidence.update([2, 1], [0.0, np.nan], [0, 0]), "margin of sample 1 is nan"),
        (lambda: evidence.update([2], [0.0], [0], [np.inf]), "weight of sample 2 is inf"),
        (lambda: evidence.update([2], [0.0, 1.0], [0]), "lengths differ: index 1, margin 2"),
        (lambda: evidence.update([2], [0.0], [0, 1]), "lengths differ"),
        (lambda: evidence.update([2], [0.0], [0], rate=-1.0), "rate is -1.0"),
        (lambda: evidence.update([2], [0.0], [0], rate=float("nan")), "rate is nan"),
        (lambda: evidence.load_state_dict(other), "visits of the state has the shape"),
        (lambda: evidence.load_state_dict(broken), "visits of the state has the shape"),
        (lambda: evidence.load_state_dict({}), "the state has no"),
        (lambda: evidence.epoch.merge([Visits(2).state_dict()]), "the state is of 2 samples, these are 3"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert not evidence.epoch.seen.any()


def assert_same(one: dict[str, object], other: dict[str, object]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.asarray(value).dtype == np.asarray(other[name]).dtype, name
        assert np.asarray(value).tobytes() == np.asarray(other[name]).tobytes(), name
