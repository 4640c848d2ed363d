"""The record: numbers against their definitions, several processes, resume in the middle of an epoch."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given as drawn_from, settings, strategies as st
from sklearn.metrics import roc_auc_score

import pyrite
from pyrite.comparing import Comparison, Row
from pyrite.diagnostics import MARGIN_EDGES, Tally, epoch_weight, subset_accuracies, weight_statistics
from pyrite.methods import Step
from pyrite.report.figures import run_figure
from pyrite.report.page import write_page
from pyrite.training import COLUMNS, METRICS, Record
from pyrite.training.metrics import SAMPLE_COLUMNS, Metric

Array = npt.NDArray[Any]
SAMPLES, CLASSES = 40, 3
RATES = (0.1, 0.05, 0.01)
GIVEN, TRUE = np.random.default_rng(0).integers(0, CLASSES, (2, SAMPLES))
OF_EPOCH = {name for name, metric in METRICS.items() if metric.source in ("epoch", "held-out")}


def drawn(epoch: int, samples: int = SAMPLES) -> dict[str, Array]:
    rng = np.random.default_rng(epoch)
    return {
        "index": rng.permutation(samples),
        "margin": rng.normal(0, 5, samples),
        "prediction": rng.integers(0, CLASSES, samples),
        "weight": rng.random(samples),
        "trust": rng.random(samples),
        "margins": rng.normal(0, 5, (samples, CLASSES)),
    }


def feed(record: Record, epoch: int, rows: slice = slice(None), unseen: bool = False) -> None:
    values = drawn(epoch)
    for part in np.array_split(np.arange(SAMPLES)[rows], 4):
        one = {name: array[part] for name, array in values.items()}
        record.update_margins(one["index"], one.pop("margins"), unseen=unseen)
        record.update(**one, learning_rate=RATES[epoch])


def record_of(**options: Any) -> Record:
    return Record(GIVEN, TRUE, classes=CLASSES, **options)


def assert_same(one: Record, other: Record) -> None:
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == theirs[name].dtype, name
            assert value.tobytes() == theirs[name].tobytes(), name
        else:
            assert value == theirs[name], name


# --- numbers --------------------------------------------------------------------------------------------------------


def test_a_run_against_its_definition() -> None:
    record, wrong = record_of(), GIVEN != TRUE
    sums = np.zeros(6)
    for epoch, rate in enumerate(RATES):
        feed(record, epoch)
        line = record.end_epoch(test=Tally(7 - epoch, 10), validation_ce=0.5, own=2.0)
        values = drawn(epoch)
        index = values["index"]
        subsets = subset_accuracies(values["prediction"], GIVEN[index], TRUE[index])
        shares = subsets.fractions()
        names = {
            "train_accuracy": "given",
            "clean_accuracy": "clean",
            "memorised": "memorised",
            "recovered": "recovered",
        }
        assert {name: line[name] for name in names} == {name: shares[subset] for name, subset in names.items()}
        assert subsets.true is not None
        assert line["hybrid_accuracy"] == (7 - epoch + subsets.true.hits) / (SAMPLES + 10)
        assert (line["test_accuracy"], line["validation_ce"], line["own"]) == ((7 - epoch) / 10, 0.5, 2.0)
        assert line["margin_size"] == np.median(np.abs(values["margin"]))
        for place, part in enumerate((np.ones(SAMPLES, bool), ~wrong[index], wrong[index])):
            sums[2 * place : 2 * place + 2] += rate * part.sum(), rate * values["weight"][part].sum()
        alpha, clean, noisy = 2 * sums[1] / sums[0], sums[3] / sums[2], sums[5] / sums[4]
        weights = [line[name] for name in ("alpha", "clean_weight", "noisy_weight", "snr")]
        assert weights == pytest.approx([alpha, clean, noisy, clean / noisy], rel=1e-13)
        for name, value in weight_statistics(values["weight"]).items():
            assert line[f"weight_{name}"] == pytest.approx(value, rel=1e-13)
        for name in ("margin", "trust"):
            assert line[f"{name}_auc"] == pytest.approx(roc_auc_score(wrong[index], -values[name]))
        means = record.columns["margin_mean"]
        assert line["margin_mean_auc"] == pytest.approx(roc_auc_score(wrong, -means))
        assert set(line) == OF_EPOCH | {"own"}
    json.dumps(record.history)
    assert [line["epoch"] for line in record.history] == [1, 2, 3]


def test_every_metric_is_on_the_page_and_in_words() -> None:
    page = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()
    saved = [name for name, column in SAMPLE_COLUMNS.items() if column.saved]
    of_line = [name for name in METRICS if name in OF_EPOCH]
    assert [name for name in (*of_line, *saved) if f"`{name}`" not in page] == []
    assert all(entry.explanation for entry in (*METRICS.values(), *SAMPLE_COLUMNS.values()))


def test_samples_against_numpy_over_many_epochs() -> None:
    rng = np.random.default_rng(0)
    margins, weights = rng.normal(3, 5, (30, SAMPLES)), rng.random((30, SAMPLES))
    predictions = rng.integers(0, CLASSES, (30, SAMPLES))
    record = Record(GIVEN)
    for margin, weight, prediction in zip(margins, weights, predictions, strict=True):
        for rows in np.array_split(rng.permutation(SAMPLES), 4):
            record.update(rows, margin[rows], prediction[rows], weight[rows], 0.1)
        record.end_epoch()
    found, agrees = record.arrays(), predictions == GIVEN
    np.testing.assert_allclose(found["margin_mean"], margins.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found["margin_variance"], margins.var(0), rtol=1e-12)
    np.testing.assert_allclose(found["weight_mean"], weights.mean(0), rtol=1e-12)
    assert np.array_equal(found["last_margin"], margins[-1])
    assert np.isnan(found["last_trust"]).all()
    assert found["visits"].tolist() == [30] * SAMPLES
    assert found["agreements"].tolist() == agrees.sum(0).tolist()
    changes = np.diff(agrees.astype(int), axis=0, prepend=0)
    assert found["learned"].tolist() == (changes == 1).sum(0).tolist()
    assert found["forgotten"].tolist() == (changes == -1).sum(0).tolist()


def test_one_sample_by_hand() -> None:
    record = Record([0, 1])
    for margin, prediction, weight in ((-1.0, 1, 0.5), (2.0, 0, 0.25), (1.0, 1, None), (4.0, 0, 0.0)):
        record.update([0], [margin], [prediction], None if weight is None else [weight])
        record.end_epoch()
    found = {name: values.tolist() for name, values in record.arrays().items()}
    assert (found["visits"], found["agreements"], found["learned"], found["forgotten"]) == (
        [4, 0],
        [2, 0],
        [2, 0],
        [1, 0],
    )
    assert (found["margin_mean"][0], found["margin_variance"][0]) == (1.5, pytest.approx(np.var([-1, 2, 1, 4])))
    assert found["weight_mean"][0] == 0.25  # a visit without a weight has none to count
    unknown = ("margin_mean", "margin_variance", "last_margin", "weight_mean", "last_trust")
    assert all(np.isnan(found[name][1]) for name in unknown)  # the other was never seen


def test_variance_far_from_zero_keeps_its_digits() -> None:
    record = Record([0])
    for margin in (1e8 + 1, 1e8 + 2, 1e8 + 3):
        record.update([0], [margin], [0])
        record.end_epoch()
    assert record.columns["margin_variance"][0] == pytest.approx(2 / 3, rel=1e-6)


def test_alpha_is_the_mean_norm_of_the_gradients_autograd_finds() -> None:
    generator = torch.Generator().manual_seed(0)
    loss, record = pyrite.loss("gce(q=0.7)"), Record([0] * 96)
    above, below = 0.0, 0.0
    for number, rate in enumerate((0.1, 0.05, 0.01)):
        scores = torch.randn(32, 10, generator=generator, dtype=torch.float64, requires_grad=True)
        labels = torch.randint(10, (32,), generator=generator)
        loss(scores, labels).mul(32).backward()
        assert scores.grad is not None
        above += rate * float(scores.grad.abs().sum())
        below += rate * 32
        margin = pyrite.margin(scores, labels)
        index = torch.arange(32 * number, 32 * number + 32)
        record.update(index, margin, scores.argmax(1), loss.weight_at(margin), rate)
    assert record.end_epoch()["alpha"] == pytest.approx(above / below, rel=1e-9)


def test_a_gradient_has_a_length_whatever_its_sign() -> None:
    record = Record([0, 1], [0, 0])
    record.update([0, 1], [0.0, 0.0], [0, 0], [0.3, -0.1], 0.1)
    line = record.end_epoch()
    assert (line["alpha"], line["noisy_weight"], line["snr"]) == pytest.approx((0.4, -0.1, -3.0))


@pytest.mark.parametrize(
    ("true", "weight", "rate", "known"),
    [
        ([0, 0], None, 0.1, set()),
        ([0, 0], [0.5, 0.5], 0.0, set()),
        (None, [0.5, 0.5], 0.1, {"alpha"}),
        ([0, 1], [0.5, 0.5], 0.1, {"alpha", "clean_weight"}),  # no wrong label
        ([0, 0], [0.5, 0.0], 0.1, {"alpha", "clean_weight", "noisy_weight"}),  # wrong labels weigh nothing
    ],
)
def test_weights_are_none_where_nothing_is_known(true: Any, weight: Any, rate: float, known: set[str]) -> None:
    record = Record([0, 1], true)
    record.update([0, 1], [0.0, 0.0], [0, 0], weight, rate)
    line = record.end_epoch()
    names = {"alpha", "clean_weight", "noisy_weight", "snr"}
    assert {name for name in names if line[name] is not None} == known


def test_without_truth_the_names_stay() -> None:
    known, unknown = record_of(), Record(GIVEN, classes=CLASSES)
    for record in (known, unknown):
        feed(record, 0)
        record.end_epoch(test=Tally(1, 2))
    with_truth, without = known.history[0], unknown.history[0]
    assert with_truth.keys() == without.keys()
    truth = {"clean_accuracy", "memorised", "recovered", "hybrid_accuracy", "snr", "clean_weight", "noisy_weight"}
    truth |= {"margin_auc", "margin_mean_auc", "trust_auc"}
    assert {name for name in without if without[name] is None and with_truth[name] is not None} == truth
    assert all(with_truth[name] == without[name] for name in with_truth.keys() - truth)
    assert np.array_equal(unknown.arrays()["margins"], known.arrays()["margins"])
    assert "noisy_margins" not in unknown.arrays()


def test_an_epoch_that_saw_nothing() -> None:
    record = Record([0, 1], true=[0, 0])
    line = record.end_epoch()
    assert {name for name, value in line.items() if value is not None} == {"epoch", "learning_rate"}


def test_histograms_against_numpy_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(0)
    margin, wrong = rng.normal(0, 12, 1000), rng.random(1000) < 0.3
    margin[:3] = -20, 0, 20  # an edge belongs to the bin on its right
    record = Record(np.zeros(1000, int), wrong.astype(int))
    record.update(np.arange(1000), margin, np.zeros(1000, int))
    record.end_epoch()
    record.end_epoch()
    arrays = record.arrays()
    assert arrays["margin_edges"].tolist() == list(MARGIN_EDGES)
    for name, values in (("margins", margin), ("noisy_margins", margin[wrong])):
        expected = np.histogram(values, [-np.inf, *MARGIN_EDGES, np.inf])[0]
        assert arrays[name].tolist() == [expected.tolist(), [0] * len(expected)]
    few = Record([0] * 4, edges=[-1, 0, 1])
    few.update(range(4), [-1, 0, 1, -1.5], [0] * 4)
    few.end_epoch()
    assert few.histograms.tolist() == [[[1, 1, 1, 1]]]


def test_a_new_number_is_one_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is in the history, in the table, at a logger, in the plot of a run and on the page of a comparison."""
    high = Metric("mean margin", lambda epoch: epoch.margin.mean(), heading="high", percent=False, drawn=("run",))
    sure = Metric("sure of held-out labels", lambda batch: batch.margin > 0, "held-out", "sure")
    for name, metric in (("high", high), ("sure", sure)):
        monkeypatch.setitem(METRICS, name, metric)  # type: ignore[arg-type]  # users read it only
        monkeypatch.setitem(COLUMNS, name, metric)  # type: ignore[arg-type]
    logged: dict[str, float] = {}
    options: dict[str, Any] = {
        "model": "mlp(hidden=[8])",
        "samples": 200,
        "epochs": 2,
        "validation": 0.2,
        "out": tmp_path,
    }
    run = pyrite.train(
        "digits", loss="ce", observers=[pyrite.Logged(lambda values, step: logged.update(values))], **options
    )
    line = pyrite.Run.load(run.path).history[run.epoch - 1]
    assert line["sure"] <= line["validation_accuracy"]
    assert {name: run.table[name] for name in ("high", "sure")} == {name: line[name] for name in ("high", "sure")}
    assert {f"epoch/{name}" for name in ("high", "sure")} <= logged.keys()
    assert "mean margin" in [text.get_text() for text in run_figure(run).legends[0].get_texts()]
    comparison = Comparison(tmp_path, (Row("ce", (run,)),))
    page = write_page(comparison, tmp_path / "page.html").read_text()
    assert all(f'<th scope="col">{metric.explanation}</th>' in page for metric in (high, sure))
    assert comparison.table().headings[-2:] == ("high", "sure")


# --- first visits, margins of all classes --------------------------------------------------------------------------


def test_the_first_visit_of_an_epoch_counts_and_padding_does_not() -> None:
    record = Record([0, 0, 0], classes=2)
    record.update([2, 0, 2], [1.0, 5.0, 9.0], [0, 0, 1], [0.1, 0.5, 0.9], 0.3)
    record.update([0, 1], [7.0, 3.0], [1, 0], [0.7, 0.3], 0.1)
    record.update_margins([1, 1, 0], torch.tensor([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]))
    record.update_margins(torch.tensor([1]), [[9.0, 9.0]])
    line = record.end_epoch()
    assert line["alpha"] == pytest.approx(2 * (0.3 * 0.6 + 0.1 * 0.3) / 0.7)
    found = record.arrays()
    assert found["last_margin"].tolist() == [5.0, 3.0, 1.0]
    assert (found["visits"].tolist(), found["agreements"].tolist()) == ([1, 1, 1], [1, 1, 1])
    assert found["class_margins"][:2].tolist() == [[3.0, -3.0], [1.0, -1.0]]
    assert np.isnan(found["class_margins"][2]).all()
    record.update([0], [7.0], [1])
    record.end_epoch()
    assert record.columns["visits"].tolist() == [2, 1, 1]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_of_margins_that_is_not_finite_is_skipped(odd: float) -> None:
    record = Record([0, 1, 1], classes=2)
    record.update_margins([0, 1], [[odd, 1.0], [2.0, -2.0]])
    record.update_margins([0], [[5.0, -5.0]])  # the first that is finite
    record.update_margins([2], [[1.0, odd]])
    record.end_epoch()
    assert record.class_margins[:2].tolist() == [[5.0, -5.0], [2.0, -2.0]]
    assert np.isnan(record.class_margins[2]).all()


def test_class_margins_are_a_mean_weighted_by_held_out_labels() -> None:
    record, total, weights = record_of(), np.zeros((SAMPLES, CLASSES)), 0.0
    for epoch, unseen in enumerate((True, False, True)):
        feed(record, epoch, unseen=unseen)
        before = record.class_margins
        line = record.end_epoch()
        values = drawn(epoch)
        assert not np.array_equal(record.class_margins, before)
        right = float((values["margins"].argmax(1) == GIVEN[values["index"]]).mean()) if unseen else None
        assert line["unseen_accuracy"] == right
        weight = epoch_weight(line["train_accuracy"], right)
        total[values["index"]] += weight * values["margins"]
        weights += weight
    np.testing.assert_allclose(record.class_margins, total / weights, rtol=1e-5, atol=1e-5)
    assert record.class_margins.dtype == np.float32
    assert record.arrays()["unseen"].all()
    assert "class_margins" not in Record(GIVEN).arrays()


def test_too_many_class_margins_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.training.record._LARGEST", SAMPLES * CLASSES - 1)
    record, other = record_of(), record_of()
    feed(record, 0)
    record.merge([record.epoch_state(), other.epoch_state()])
    record.end_epoch()
    other.load_state_dict(record.state_dict())
    assert not record.keeps_margins
    assert record.history[0]["unseen_accuracy"] is None
    assert "class_margins" not in other.arrays()
    assert Record(GIVEN[:-1], classes=CLASSES).keeps_margins


# --- steps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [0, 1 << 22])
def test_steps_are_recorded_as_if_read_at_once(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    """However many wait on the device; also if only some have a trust, or scores of nets not trained on them."""
    monkeypatch.setattr("pyrite.training.record._WAITING", waiting)
    direct, noted = record_of(), record_of()
    rng = torch.Generator().manual_seed(0)
    steps = []
    for number, rows in enumerate(np.array_split(np.random.default_rng(1).permutation(SAMPLES), 5)):
        scores, gradient = torch.randn(2, len(rows), CLASSES, generator=rng)
        trust = torch.rand(len(rows), generator=rng) if number in (1, 2) else None
        unseen = torch.randn(len(rows), CLASSES, generator=rng) if number in (2, 3) else None
        labels = torch.from_numpy(GIVEN[rows])
        steps.append(Step(torch.from_numpy(rows), labels, scores, gradient, 0.7, 8.0, 0.1, trust, unseen))
    for one in steps:
        noted.after_step(one)
        direct.update(one.index, one.margin, one.prediction, one.weight, 0.1, one.trust)
        values = one.margins if one.unseen is None else pyrite.margins(one.unseen)
        direct.update_margins(one.index, values, unseen=one.unseen is not None)
    assert (noted.steps, direct.steps) == (5, 0)
    noted.end_epoch()
    direct.end_epoch()
    for name, array in direct.arrays().items():
        assert array.tobytes() == noted.arrays()[name].tobytes(), name
    measured = ("loss", "learning_rate")
    assert {n: v for n, v in noted.history[0].items() if n not in measured} == {
        n: v for n, v in direct.history[0].items() if n not in measured
    }
    assert (noted.history[0]["loss"], noted.history[0]["learning_rate"]) == (pytest.approx(0.7), 0.1)


def test_tensors_are_taken_as_they_come() -> None:
    record = Record(torch.tensor([0, 1]))
    margin = torch.tensor([0.5], dtype=torch.bfloat16, requires_grad=True)
    record.update(torch.tensor([1]), margin, torch.tensor([1]), None, 0.1)
    record.end_epoch()
    assert record.columns["agreements"].tolist() == [0, 1]


# --- processes and resume -------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@drawn_from(st.integers(0, 10_000), st.integers(1, 4))
def test_processes_with_padding_equal_one_bit_for_bit(seed: int, processes: int) -> None:
    rng = np.random.default_rng(seed)
    samples = int(rng.integers(1, 30))
    given, true = rng.integers(0, CLASSES, (2, samples))
    alone, *ranks = (Record(given, true, classes=CLASSES) for _ in range(1 + processes))
    for epoch in range(3):
        values = drawn(seed + epoch, samples)
        del values["index"]

        def update(record: Record, rows: Array, values: dict[str, Array] = values, epoch: int = epoch) -> None:
            one = {name: array[rows] for name, array in values.items()}
            record.update_margins(rows, one.pop("margins"), unseen=epoch == 1)
            record.update(rows, **one, learning_rate=0.1)

        update(alone, np.arange(samples))
        # As a distributed sampler deals: padded with the first ones until all processes have as many.
        order = np.resize(rng.permutation(samples), -(-samples // processes) * processes)
        for rank, record in enumerate(ranks):
            update(record, order[rank::processes])
        states = [record.epoch_state() for record in ranks]
        for record in ranks:
            record.merge(states)
            record.end_epoch()
        alone.end_epoch()
    for record in ranks:
        assert_same(record, alone)


def test_of_two_processes_that_saw_a_sample_the_first_counts() -> None:
    first, second = Record([0, 0]), Record([0, 0])
    first.update([0], [1.0], [0])
    second.update([0, 1], [2.0, 3.0], [1, 1])
    states = [first.epoch_state(), second.epoch_state()]
    for record in (first, second):
        record.merge(states)
        record.end_epoch()
        assert record.columns["last_margin"].tolist() == [1.0, 3.0]
        assert record.columns["agreements"].tolist() == [1, 0]


def test_resume_in_the_middle_of_an_epoch_is_exact() -> None:
    whole, before, after = (record_of() for _ in range(3))
    for record in (whole, before):
        feed(record, 0)
        record.end_epoch(test=Tally(2, 3))
        feed(record, 1, slice(17), unseen=True)
    state = before.state_dict()
    feed(before, 2)  # a state is a copy: what comes after is not in it
    before.end_epoch()
    feed(after, 2)  # and what was there before is forgotten
    plain = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
    after.load_state_dict(state | json.loads(json.dumps(plain)))
    for record in (whole, after):
        feed(record, 1, slice(17, SAMPLES), unseen=True)
        record.end_epoch(test=Tally(1, 3))
    assert_same(whole, after)


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda record: Record([]), "samples is 0"),
        (lambda record: Record([0, -1]), "given is -1 at index 1"),
        (lambda record: Record([0, 1], [0, 1, 2]), "lengths differ: given 2, true 3"),
        (lambda record: Record([0], edges=[0, 0]), "two or more in ascending order"),
        (lambda record: record.update([40], [0.0], [0]), "index is 40 at position 0, but there are 40 samples"),
        (lambda record: record.update([-1], [0.0], [0]), "index is -1 at index 0"),
        (lambda record: record.update([2, 1], [0.0, np.nan], [0, 0]), "margin of sample 1 is nan"),
        (lambda record: record.update([2], [0.0], [0], [np.inf]), "weight of sample 2 is inf"),
        (lambda record: record.update([2], [0.0, 1.0], [0]), "lengths differ: index 1, margin 2"),
        (lambda record: record.update([2], [0.0], [0, 1]), "lengths differ"),
        (lambda record: record.update([2], [0.0], [0], None, -1.0), "learning_rate is -1.0"),
        (lambda record: record.update([2], [0.0], [0], None, float("nan")), "learning_rate is nan"),
        (lambda record: record.update_margins([0, 1], np.zeros((2, 4))), r"the shape \(2, 4\), for 2 samples of 3"),
        (lambda record: record.update_margins([0], np.zeros((2, 3))), r"the shape \(2, 3\), for 1 samples"),
        (lambda record: record.update_margins([-1], np.zeros((1, 3))), "index is -1 at index 0"),
        (lambda record: record.update_margins([0], np.zeros(3)), "margins has the shape"),
        (lambda record: record.load_state_dict({}), "the state has no"),
        (
            lambda record: record.load_state_dict(Record(GIVEN[1:], TRUE[1:], classes=3).state_dict()),
            "visits of the state has",
        ),
        (lambda record: record.load_state_dict(Record(GIVEN, classes=3).state_dict()), "histograms of the state has"),
        (lambda record: record.load_state_dict(Record(GIVEN, TRUE, classes=4).state_dict()), "margin_sum of the state"),
    ],
)
def test_bad_input_changes_nothing(call: Callable[[Record], None], words: str) -> None:
    record, other = record_of(), record_of()
    for one in (record, other):
        feed(one, 0)
        one.end_epoch()
        feed(one, 1, slice(0, 20))
    with pytest.raises(ValueError, match=words):
        call(record)
    assert_same(record, other)
