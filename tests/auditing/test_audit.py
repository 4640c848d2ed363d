"""An audit of given scores."""

import csv
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from cleanlab.rank import get_label_quality_scores
from scipy.special import expit, log_softmax, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

import pyrite
from pyrite.auditing import Audit
from pyrite.auditing.probabilities import likely_classes
from pyrite.report.audit_page import write_audit_page

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLASSES = 4
NAMES = ("cat", 'a "quoted", name', "two\nlines", "a\rreturn")


def draw(samples: int = 600, seed: int = 0, strength: float = 4.0, noise: float = 0.25) -> tuple[Floats, Ints, Ints]:
    """Logits of a net that knows the true class fairly well; given labels, and true ones."""
    random = np.random.default_rng(seed)
    true = np.arange(samples) % CLASSES
    logits = random.normal(size=(samples, CLASSES)) + strength * np.eye(CLASSES)[true]
    moved = (true + random.integers(1, CLASSES, samples)) % CLASSES
    return logits, np.where(random.random(samples) < noise, moved, true), true


@pytest.fixture(scope="module")
def drawn() -> tuple[Floats, Ints, Ints]:
    return draw()


@pytest.fixture(scope="module")
def found(drawn: tuple[Floats, Ints, Ints]) -> Audit:
    logits, given, _ = drawn
    return pyrite.audit(given, scores=logits, kind="logits", classes=NAMES)


@pytest.fixture(scope="module")
def unknown(drawn: tuple[Floats, Ints, Ints]) -> Audit:
    """Of labels that have nothing to do with the scores."""
    return pyrite.audit(np.random.default_rng(1).integers(0, 4, 600), scores=drawn[0], kind="logits", classes=NAMES)


def same(one: Audit, other: Audit, near: float = 1e-9) -> None:
    assert one.score == pytest.approx(other.score, abs=near)
    assert one.wrong_probability == pytest.approx(other.wrong_probability, abs=near)
    assert one.likelihoods == pytest.approx(other.likelihoods, abs=near)
    assert one.matrix == pytest.approx(other.matrix, abs=near)
    assert one.matrix_error == pytest.approx(other.matrix_error, abs=near)
    assert (one.noise_rate, one.threshold) == pytest.approx((other.noise_rate, other.threshold), abs=near)
    assert (one.suggested == other.suggested).all()


# --- whatever scores come as ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda s: (s.tolist(), "logits"),
        lambda s: (np.asfortranarray(s), "logits"),
        lambda s: (torch.from_numpy(s).requires_grad_(), "logits"),
    ],
)
def test_the_same_numbers(
    form: Callable[[Floats], tuple[Any, Any]], drawn: tuple[Floats, Ints, Ints], found: Audit
) -> None:
    scores, kind = form(drawn[0])
    same(pyrite.audit(drawn[1], scores=scores, kind=kind), found, 0)


@pytest.mark.parametrize(
    ("form", "near"),
    [
        # By rounding alone the search may stop a step earlier or later, which is far below its standard error.
        (lambda s: (softmax(s, axis=1), "probabilities"), 0.001),
        (lambda s: (log_softmax(s, axis=1), "log-probabilities"), 0.001),
        (lambda s: (s + np.linspace(-50, 50, len(s))[:, None], "logits"), 0.001),
        (lambda s: (s.astype(np.float32), "logits"), 0.001),
        (lambda s: (torch.from_numpy(s).float(), "logits"), 0.001),
        # Eleven and eight bits of a logit: one of 8 is off by 0.004 and 0.03. The weights of smoothings move, too.
        (lambda s: (s.astype(np.float16), "logits"), 0.02),
        (lambda s: (log_softmax(s, axis=1).astype(np.float16), "log-probabilities"), 0.02),
        (lambda s: (torch.from_numpy(s).bfloat16(), "logits"), 0.1),
    ],
)
def test_one_net_one_answer(
    form: Callable[[Floats], tuple[Any, Any]], near: float, drawn: tuple[Floats, Ints, Ints], found: Audit
) -> None:
    scores, kind = form(drawn[0])
    other = pyrite.audit(drawn[1], scores=scores, kind=kind)
    assert other.wrong_probability == pytest.approx(found.wrong_probability, abs=near)
    assert other.likelihoods == pytest.approx(found.likelihoods, abs=near)
    assert other.matrix == pytest.approx(found.matrix, abs=near)
    assert other.noise_rate == pytest.approx(found.noise_rate, abs=near / 20)
    assert (other.is_suspect == found.is_suspect).mean() > 0.995


def test_probabilities_of_half_precision(drawn: tuple[Floats, Ints, Ints], found: Audit) -> None:
    """What is below 6e-8 is 0, and the margin far from what it was; who is suspected is the same."""
    other = pyrite.audit(drawn[1], scores=softmax(drawn[0], axis=1).astype(np.float16), kind="probabilities")
    assert (other.is_suspect == found.is_suspect).mean() > 0.99
    assert other.noise_rate == pytest.approx(found.noise_rate, abs=0.005)


def test_uniform_rows_of_half_precision() -> None:
    """250 equal classes: in float16 the logarithms of 0.004 add up to 1.002, and nobody is to blame."""
    scores = np.full((60, 250), np.log(4e-3), np.float16)
    assert abs(np.exp(scores[0].astype(float)).sum() - 1) > 1e-3
    assert not pyrite.audit(np.arange(60), scores=scores, kind="log-probabilities").can_tell


def test_a_file_that_is_mapped_and_labels_of_any_type(
    drawn: tuple[Floats, Ints, Ints], found: Audit, tmp_path: Path
) -> None:
    np.save(tmp_path / "scores.npy", drawn[0])
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    for labels in (drawn[1].astype(np.uint8), torch.from_numpy(drawn[1])):
        same(pyrite.audit(labels, scores=mapped, kind="logits"), found, 0)


def test_chunks_do_not_matter(drawn: tuple[Floats, Ints, Ints], found: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (4 * 7, 1):
        monkeypatch.setattr("pyrite.auditing.score_tables._BLOCK", size)
        same(pyrite.audit(drawn[1], scores=drawn[0], kind="logits"), found, 1e-12)


def test_of_very_many_a_part_is_fitted(
    drawn: tuple[Floats, Ints, Ints], found: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrite.auditing.from_scores._FITTED", 4 * 400)
    part, again, other = (pyrite.audit(drawn[1], scores=drawn[0], kind="logits", seed=seed) for seed in (0, 0, 1))
    assert len(part) == 600
    same(part, again, 0)
    assert part.noise_rate != other.noise_rate
    assert abs(part.noise_rate - found.noise_rate) < 0.05


def test_impossible_classes_are_no_trouble(drawn: tuple[Floats, Ints, Ints], found: Audit) -> None:
    chances = softmax(drawn[0], axis=1)
    chances[chances < 1e-3] = 0
    chances /= chances.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        logarithms = np.log(chances)
    one = pyrite.audit(drawn[1], scores=chances, kind="probabilities")
    other = pyrite.audit(drawn[1], scores=logarithms, kind="log-probabilities")
    assert np.isfinite(one.score).all()
    assert one.wrong_probability == pytest.approx(other.wrong_probability, abs=1e-9)
    assert (one.is_suspect == found.is_suspect).mean() > 0.98


# --- what it says ---------------------------------------------------------------------------------------------------


def test_columns_fit_together(drawn: tuple[Floats, Ints, Ints], found: Audit) -> None:
    assert len(found) == 600
    assert (found.index == np.arange(600)).all()
    assert (found.labels == drawn[1]).all()
    assert found.wrong_probability == pytest.approx(expit(found.score), abs=1e-15)
    assert sorted(found.ranking.tolist()) == list(range(600))
    assert (np.diff(found.score[found.ranking]) <= 0).all()
    suspects = found.wrong_probability >= found.threshold
    assert (found.is_suspect == suspects).all()
    assert found.is_suspect[found.ranking[: suspects.sum()]].all()
    assert (np.sort(found.choices, 1) == np.arange(4)).all()
    assert found.likelihoods.sum(1) == pytest.approx(np.ones(600), abs=1e-6)  # float32
    assert (np.diff(found.likelihoods, axis=1) <= 0).all()
    assert (found.suggested == found.choices[:, 0]).all()
    own = found.likelihoods[found.choices == found.labels[:, None]]
    assert own == pytest.approx(1 - found.wrong_probability, abs=1e-6)
    assert (found.suggested != found.labels)[found.wrong_probability > 0.76].all()  # another has a third of that
    assert found.matrix.sum(1) == pytest.approx(np.ones(4), abs=1e-12)


def test_the_posterior_has_all_classes_and_the_last_word_of_a_review(found: Audit, unknown: Audit) -> None:
    each = np.arange(600)
    assert found.posterior.sum(1) == pytest.approx(np.ones(600), abs=1e-6)
    assert found.posterior[each, found.labels] == pytest.approx(1 - found.wrong_probability, abs=1e-6)
    assert np.isnan(unknown.posterior).all()
    first, last = found.ranking[[0, -1]].tolist()
    after = found.reviewed({first: "drop", last: "keep"})
    assert after.posterior[each, found.labels] == pytest.approx(1 - after.wrong_probability, abs=1e-6)
    assert after.posterior[first, found.labels[first]] < 1e-3
    assert after.posterior[last, found.labels[last]] > 0.999


def test_five_choices_at_most() -> None:
    random = np.random.default_rng(0)
    given = np.arange(300) % 12
    scores = random.normal(size=(300, 12)) + 3 * np.eye(12)[given]
    found = pyrite.audit(given, scores=scores, kind="logits")
    assert found.choices.shape == found.likelihoods.shape == (300, 5)
    assert all(len(set(row)) == 5 for row in found.choices.tolist())
    assert (np.diff(found.likelihoods, axis=1) <= 0).all()


def test_of_equal_choices_the_given_label_is_first() -> None:
    choices, likelihoods = likely_classes(np.full((3, 6), 1 / 6), np.array([0, 3, 5]))
    assert choices.tolist() == [[0, 1, 2, 3, 4], [3, 0, 1, 2, 4], [5, 0, 1, 2, 3]]
    assert likelihoods == pytest.approx(np.full((3, 5), 1 / 6))


def test_the_threshold_is_the_best_expected_f1(found: Audit) -> None:
    wrong = found.wrong_probability

    def expected(threshold: float) -> float:
        chosen = wrong >= threshold
        return float(2 * wrong[chosen].sum() / (chosen.sum() + wrong.sum()))

    values = {threshold: expected(threshold) for threshold in wrong.tolist()}
    assert values[found.threshold] == pytest.approx(max(values.values()), abs=1e-12)
    assert max(values.values()) > max(expected(0), expected(1)) + 0.05


def test_wrong_labels_are_found(drawn: tuple[Floats, Ints, Ints], found: Audit) -> None:
    _, given, true = drawn
    wrong = given != true
    assert abs(found.noise_rate - wrong.mean()) < 3 * found.noise_rate_error
    assert 0 < found.noise_rate_error < 0.05
    assert roc_auc_score(wrong, found.score) > 0.95
    assert (found.suggested == true).mean() > 0.9 > (given == true).mean()
    assert found.wrong_probability[wrong].mean() > 0.8
    # Calibrated: of those said to be wrong with about this probability, about as many are.
    for low in (0.0, 0.3, 0.7):
        some = (found.wrong_probability >= low) & (found.wrong_probability < low + 0.4)
        sure = np.sqrt(0.25 / some.sum())
        assert abs(found.wrong_probability[some].mean() - wrong[some].mean()) < 3 * sure


def test_confusions_and_the_sentence(found: Audit) -> None:
    first = found.confusions[0]
    suspects = found.is_suspect & (found.suggested != found.labels)
    given, true = NAMES.index(first.given), NAMES.index(first.true)
    count = int((suspects & (found.labels == given) & (found.suggested == true)).sum())
    assert (first.labels, first.fraction) == (count, count / 600)
    assert sum(confusion.labels for confusion in found.confusions) == suspects.sum()
    low, high = (100 * end for end in found.noise_interval)
    words = (
        f"about {100 * found.noise_rate:.1f} % ({low:.0f} to {high:.0f} %) of 600 labels look wrong; "
        f"most often {first.true} labelled as {first.given}"
    )
    assert found.sentence == words
    assert repr(found) == f"<audit: {words}>"


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_csv_in_the_order_of_the_ranking(found: Audit, tmp_path: Path) -> None:
    path = found.to_csv(tmp_path / "new" / "suspects.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    ranked = ["index", "path", "given", "suggested", "wrong_probability", "score", "suspect"]
    assert list(rows[0]) == [*ranked, *found.evidence]
    assert [int(row["index"]) for row in rows] == found.ranking.tolist()
    order = found.ranking
    assert [row["given"] for row in rows] == [NAMES[label] for label in found.labels[order]]
    assert [row["suggested"] for row in rows] == [NAMES[label] for label in found.suggested[order]]
    assert [float(row["wrong_probability"]) for row in rows] == pytest.approx(
        found.wrong_probability[order].tolist(), rel=1e-5
    )
    assert [float(row["score"]) for row in rows] == pytest.approx(found.score[order].tolist(), rel=1e-5)
    assert [row["suspect"] == "1" for row in rows] == found.is_suspect[order].tolist()


def strict(text: str) -> Any:
    """Parsed, with NaN and infinities refused, which JSON does not know."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_a_summary_as_json(found: Audit, tmp_path: Path) -> None:
    told = strict(found.to_json(tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert told == found.summary()
    assert (told["samples"], told["classes"], told["can_tell"]) == (600, list(NAMES), True)
    assert told["noise_rate"] == found.noise_rate
    assert told["suspects"] == found.is_suspect.sum()
    assert np.array_equal(told["matrix"], found.matrix)
    assert told["confusions"][0]["labels"] == found.confusions[0].labels
    assert (told["warnings"], told["data_issues"], told["run"]) == ([], None, None)


def test_what_cannot_be_written(found: Audit, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for write in (found.to_csv, found.to_json):
        with pytest.raises(ValueError, match=r"cannot write .*file/x: "):
            write(tmp_path / "file" / "x")


def test_when_nothing_can_be_told(unknown: Audit, tmp_path: Path) -> None:
    assert not unknown.can_tell
    assert np.isnan(unknown.wrong_probability).all()
    assert np.isnan(unknown.matrix).all()
    assert np.isnan([unknown.noise_rate, unknown.noise_rate_error, unknown.threshold]).all()
    assert not unknown.is_suspect.any()
    assert unknown.confusions == ()
    assert np.isfinite(unknown.score).all()
    assert sorted(unknown.ranking.tolist()) == list(range(600))
    assert unknown.sentence == "wrong labels cannot be identified among 600 labels: the scores do not separate them"
    told = strict(unknown.to_json(tmp_path / "audit.json").read_text())
    assert (told["noise_rate"], told["matrix"], told["threshold"], told["suspects"]) == (None, None, None, 0)
    with unknown.to_csv(tmp_path / "suspects.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 600
    assert {row["wrong_probability"] for row in rows} == {"nan"}
    assert "cannot be identified among 600 labels" in write_audit_page(unknown, tmp_path / "report.html").read_text()


# --- beside cleanlab ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "behind"), [("flip2(0.4)", 0.0), ("symmetric(0.4)", 0.005)])
def test_ranking_beside_cleanlab(noise: str, behind: float) -> None:
    """Measured, ours and the better of theirs: flip2 .928 and .884, symmetric .982 and .980."""
    inputs, true = load_digits(return_X_y=True)
    given = pyrite.corrupt(true, noise, classes=10, seed=0).given
    model = LogisticRegression(max_iter=300)
    scores = cross_val_predict(model, inputs / 16, given, cv=5, method="predict_proba")
    found = pyrite.audit(given, scores=scores, kind="probabilities")
    wrong = given != true
    theirs = max(
        roc_auc_score(wrong, -get_label_quality_scores(given, scores, method=method))
        for method in ("self_confidence", "normalized_margin")
    )
    assert theirs > 0.8
    assert roc_auc_score(wrong, found.score) >= theirs - behind


# --- bad input ------------------------------------------------------------------------------------------------------


def with_value(scores: Floats, row: int, value: float) -> Floats:
    changed = scores.copy()
    changed[row, 2] = value
    return changed


GOOD, LABELS, _ = draw(80)
CHANCES = softmax(GOOD, axis=1)


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (LABELS[:-1], {"scores": GOOD}, "there are 80 rows of scores but 79 labels"),
        (np.append(LABELS[:-1], 4), {"scores": GOOD}, "label 4 at index 79 has no column in the scores, which have 4"),
        (np.append(LABELS[:-1], -1), {"scores": GOOD}, "labels is -1 at index 79, but must be 0 or more"),
        (LABELS / 2, {"scores": GOOD}, "labels has the dtype float64"),
        (["cat"] * 80, {"scores": GOOD}, "labels are texts, such as 'cat': pass the class names"),
        (LABELS, {"scores": with_value(GOOD, 63, np.nan)}, "scores are nan in row 63"),
        (LABELS, {"scores": with_value(GOOD, 7, np.inf)}, "scores are inf in row 7"),
        (LABELS, {"scores": with_value(GOOD, 7, -np.inf)}, "scores are -inf in row 7"),
        (LABELS, {"scores": with_value(CHANCES, 63, np.nan), "kind": "probabilities"}, "scores are nan in row 63"),
        (LABELS, {"scores": with_value(np.log(CHANCES), 6, np.nan), "kind": "log-probabilities"}, "nan in row 6"),
        (LABELS, {"scores": with_value(np.log(CHANCES), 6, np.inf), "kind": "log-probabilities"}, "inf in row 6"),
        (LABELS, {"scores": GOOD, "kind": "probabilities"}, "row 0 of the scores does not contain probabilities: the"),
        (LABELS, {"scores": with_value(CHANCES, 9, 0.9), "kind": "probabilities"}, "row 9 of the scores does not"),
        (LABELS, {"scores": 1.01 * CHANCES, "kind": "probabilities"}, "the sum of its probabilities is 1.01, its"),
        (LABELS, {"scores": CHANCES, "kind": "log-probabilities"}, "row 0 of the scores does not contain log-prob"),
        (LABELS, {"scores": GOOD, "kind": None}, "kind is None, but must be one of logits, probabilities, log-prob"),
        (LABELS, {"scores": GOOD, "kind": "logit"}, "kind is 'logit', but must be one of logits, probabilities"),
        (LABELS, {"scores": GOOD, "classes": ["a", "b"]}, "classes has 2 names, but scores have 4 columns"),
        (LABELS, {"scores": GOOD, "epochs": 3}, "epochs is a training setting, but with given scores nothing is"),
        (LABELS, {"scores": GOOD[0]}, "scores are float64 of shape (4,), but must be numbers: one row per sample"),
        (LABELS, {"scores": GOOD.astype(str)}, "but must be numbers: one row per sample, one column per class"),
        (LABELS, {"scores": [[1.0, 2.0], [3.0]]}, "scores cannot be read as an array"),
        (LABELS * 0, {"scores": GOOD[:, :1]}, "scores have one column: with one class no label can be wrong"),
        (LABELS * 0 + 2, {"scores": GOOD, "classes": "abcd"}, "all labels are 'c': with one class no label can"),
        (LABELS[:49], {"scores": GOOD[:49]}, "there are 49 samples: at least 50 are needed to estimate label noise"),
        (LABELS[:0], {"scores": GOOD[:0]}, "there are 0 samples: at least 50"),
        (LABELS, {"epochs": 2}, "labels or scores are missing: pass samples with labels, audit(X, y)"),
        ("digits", {"scores": GOOD}, "data and runs have their own scores and classes: leave out scores, kind,"),
        ("digits", {"kind": "logits"}, "data and runs have their own scores and classes"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(labels: Any, options: dict[str, Any], said: str) -> None:
    options = options if isinstance(labels, str) or not options else {"kind": "logits"} | options
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        pyrite.audit(labels, **options)
    assert "\n" not in str(error.value)


def test_rows_are_named_by_their_number_in_all_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.auditing.score_tables._BLOCK", 4 * 20)
    with pytest.raises(ValueError, match=r"^scores are nan in row 63$"):
        pyrite.audit(LABELS, scores=with_value(GOOD, 63, np.nan), kind="logits")


def test_labels_that_nobody_doubts() -> None:
    """A net that is sure of every label: at most one is expected to be wrong, and odds are finite."""
    given = np.arange(200) % 4
    found = pyrite.audit(given, scores=np.linspace(20, 40, 200)[:, None] * np.eye(4)[given], kind="logits")
    assert np.isfinite(found.score).all()
    assert found.noise_rate <= 1.001 / 200
    assert found.noise_interval[0] == 0
    assert found.can_tell


def test_fifty_samples_are_enough() -> None:
    assert len(pyrite.audit(LABELS[:50], scores=GOOD[:50], kind="logits")) == 50


def test_a_class_that_never_occurs_is_a_warning() -> None:
    logits, given, _ = draw(400)
    left = given < 3
    found = pyrite.audit(given[left], scores=logits[left], kind="logits", classes=NAMES)
    assert found.warnings == (f"no sample has the label {NAMES[3]!r}",)
    assert found.can_tell
    assert np.isfinite(found.matrix).all()
    wider = np.hstack([logits[left], np.full((left.sum(), 2), -9.0)])
    found = pyrite.audit(given[left], scores=wider, kind="logits")
    assert found.warnings == ("no sample has the label '3', nor those of 2 other classes",)


@pytest.mark.slow
def test_a_large_audit_takes_three_times_the_memory_of_its_scores() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 1_000_000)
    scores = random.normal(size=(len(labels), 10)).astype(np.float32)
    scores[np.arange(len(labels)), labels] += 3
    tracemalloc.start()
    try:
        found = pyrite.audit(labels, scores=scores, kind="logits")
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == len(labels)
    assert taken < 3 * scores.nbytes
