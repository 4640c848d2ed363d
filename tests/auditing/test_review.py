"""An audit after a review."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import pyrite
from pyrite.auditing import Audit
from pyrite.auditing.noise_rate import shift_to_mean
from pyrite.auditing.review import CHECKED, random_check
from tests.report.audits import cannot_tell, make_audit

CLASSES = ("cat", "=dog", "emu")


def noisy(samples: int = 1500, doubt: float = 2.0, seed: int = 0) -> tuple[Audit, np.ndarray]:
    """An audit of given scores, and the true labels. A fifth of the labels is wrong."""
    random = np.random.default_rng(seed)
    true = np.arange(samples) % 3
    scores = doubt * np.eye(3)[true] + random.normal(size=(samples, 3))
    given = np.where(random.random(samples) < 0.2, (true + 1) % 3, true)
    return pyrite.audit(given, scores=scores, kind="logits", classes=CLASSES), true


def decide(audit: Audit, true: np.ndarray, rows: Any) -> dict[int, str]:
    return {int(row): "keep" if audit.labels[row] == true[row] else "relabel" for row in rows}


def write(path: Path, audit: Audit, true: np.ndarray, rows: Any) -> Path:
    lines = ["index,path,old,new,score,decision"]
    for row in np.asarray(rows).tolist():
        old, new = (
            f"'{name}" if name.startswith("=") else name for name in (CLASSES[audit.labels[row]], CLASSES[true[row]])
        )
        lines.append(f"{row},,{old},{new},0.5,{'keep' if old == new and row % 2 else 'relabel'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_random_check_corrects_a_rate_that_is_wrong() -> None:
    """An audit that claims far too little; a hundred random labels and the first suspects tell."""
    audit, true = noisy()
    low = pyrite.auditing.Audit(**{**vars_of(audit), "score": audit.score - 2.5, "noise_rate": 0.08})
    wrong = (audit.labels != true).mean()
    rows = np.union1d(random_check(len(audit)), low.ranking[:50])
    after = low.reviewed(decide(audit, true, rows))
    assert low.wrong_probability.mean() < wrong - 0.05
    assert after.noise_interval[0] <= wrong <= after.noise_interval[1]
    assert abs(after.noise_rate - wrong) < 0.05
    assert after.wrong_probability.mean() == pytest.approx(after.noise_rate, abs=0.005)
    assert after.is_suspect.sum() > low.is_suspect.sum()
    assert np.diag(after.matrix).mean() < np.diag(audit.matrix).mean() + 0.1
    np.testing.assert_allclose(after.matrix.sum(1), 1)


def vars_of(audit: Audit) -> dict[str, Any]:
    return {name: getattr(audit, name) for name in audit.__dataclass_fields__}


def test_reviewed_labels_are_what_was_decided(tmp_path: Path) -> None:
    audit, true = noisy()
    rows = np.concatenate([audit.ranking[:40], audit.ranking[-5:]])
    after = audit.reviewed(write(tmp_path / "corrections.csv", audit, true, rows))
    wrong = audit.labels[rows] != true[rows]
    assert 5 <= (~wrong).sum() < 45
    np.testing.assert_allclose(after.wrong_probability[rows], wrong, atol=1e-6)
    np.testing.assert_array_equal(after.suggested[rows], true[rows])
    np.testing.assert_allclose(after.posterior[rows, true[rows]], 1, atol=1e-3)
    np.testing.assert_array_equal(after.is_suspect[rows], wrong)
    np.testing.assert_allclose(after.likelihoods.sum(1), 1, atol=1e-6)
    # The order of all others stays.
    rest = ~np.isin(np.arange(len(audit)), rows)
    np.testing.assert_array_equal(np.argsort(after.score[rest]), np.argsort(audit.score[rest]))
    text = after.to_csv(tmp_path / "suspects.csv").read_text()
    assert text.splitlines()[0] == "index,path,given,suggested,wrong_probability,score,suspect,reviewed,no_class"
    assert text.count(",relabel,") == wrong.sum()
    assert after.review is not None
    assert after.summary()["review"]["reviewed"] == 45
    assert f"45 labels were reviewed and {wrong.sum()} of them are wrong" in after.review.sentence


def test_the_same_from_a_file_and_from_a_mapping(tmp_path: Path) -> None:
    audit, true = noisy()
    rows = audit.ranking[:30]
    first = audit.reviewed(write(tmp_path / "corrections.csv", audit, true, rows))
    second = audit.reviewed(decide(audit, true, rows))
    np.testing.assert_array_equal(first.score, second.score)
    assert first.noise_interval == second.noise_interval
    third = first.reviewed(decide(audit, true, rows))  # which replaces the review
    np.testing.assert_array_equal(third.score, second.score)


def test_the_random_check_ends_at_the_first_label_not_seen() -> None:
    audit, true = noisy()
    order = random_check(len(audit))
    assert len(order) == CHECKED == len(set(order.tolist()))
    decisions = decide(audit, true, np.delete(order, [4, 9]))
    review = audit.reviewed(decisions).review
    assert review is not None
    assert review.checked == (4, int((audit.labels != true)[order[:4]].sum()))
    decisions |= {int(order[4]): "unsure"} | decide(audit, true, [order[9]])
    review = audit.reviewed(decisions).review
    assert review is not None
    rest = np.delete(order, 4)
    assert review.checked == (99, int((audit.labels != true)[rest].sum()))
    assert review.check is not None
    assert f"{review.checked[1]} of 99 randomly checked labels are wrong" in review.sentence


def test_labels_chosen_otherwise_do_not_speak_for_others() -> None:
    """Somebody looks for wrong labels among those that are no suspects, and finds twenty."""
    audit, true = noisy()
    queue = np.concatenate([np.flatnonzero(audit.is_suspect), random_check(len(audit))])
    hidden = np.setdiff1d(np.flatnonzero(audit.labels != true), queue)[:20]
    assert len(hidden) == 20
    rows = audit.ranking[:30]
    without, found = audit.reviewed(decide(audit, true, rows)), audit.reviewed(decide(audit, true, [*rows, *hidden]))
    rest = ~np.isin(np.arange(len(audit)), hidden)
    np.testing.assert_array_equal(found.score[rest], without.score[rest])
    assert 0.005 < found.noise_rate - without.noise_rate <= 20 / len(audit)


def test_the_interval_of_the_audit_limits_that_of_few_decisions() -> None:
    """With each decision less, and not at all from thirty on."""
    audit, true = noisy()
    limited = pyrite.auditing.Audit(**{**vars_of(audit), "noise_interval": (0.15, 0.3)})
    wide = pyrite.auditing.Audit(**{**vars_of(audit), "noise_interval": (0.0, 1.0)})

    def intervals(count: int) -> list[tuple[float, float]]:
        decisions = decide(audit, true, audit.ranking[:count])
        return [each.reviewed(decisions).noise_interval for each in (limited, wide)]

    (low, high), (lowest, highest) = intervals(3)
    assert (low, high) == (max(lowest, 0.9 * 0.15), min(highest, 1 - 0.9 * 0.7))
    assert low > lowest
    assert high < highest
    assert intervals(30)[0] == intervals(30)[1]


@pytest.mark.parametrize("how", ["head", "random", "both"])
@pytest.mark.parametrize("claimed", [0.001, 0.05, 0.3])
def test_reviews_are_safe_whatever_the_audit_claims(claimed: float, how: str) -> None:
    """Truths from 0 to 40 %, audits that begin elsewhere; the ranking of labels that were not reviewed stays."""
    covered = []
    for truth in (0.0, 0.01, 0.08, 0.25, 0.4):
        random = np.random.default_rng(int(1000 * truth))
        evidence = 2 * random.normal(size=1000)
        wrong = random.random(1000) < expit(evidence + shift_to_mean(evidence, max(truth, 1e-9)))
        score = 0.7 * evidence + shift_to_mean(0.7 * evidence, claimed)
        audit, interval = noisy(1000)[0], (claimed / 2, 2 * claimed)
        fields = {
            "score": score,
            "noise_rate": claimed,
            "noise_interval": interval,
            "threshold": 0.5 * expit(score.max()),
        }
        audit = pyrite.auditing.Audit(**{**vars_of(audit), **fields})
        head, checked = audit.ranking[:100], random_check(1000)
        rows = {"head": head, "random": checked, "both": np.union1d(head[:50], checked[:50])}[how]
        after = audit.reviewed({int(row): "drop" if wrong[row] else "keep" for row in rows})
        covered.append(after.noise_interval[0] - 1e-6 <= wrong.mean() <= after.noise_interval[1] + 1e-6)
        rest = np.setdiff1d(np.arange(1000), rows)
        assert (np.diff(after.score[rest[np.argsort(score[rest])]]) >= 0).all()
        assert after.wrong_probability.mean() == pytest.approx(after.noise_rate)
    assert sum(covered) >= 4 + (how == "head")


def test_a_head_of_wrong_labels_does_not_speak_for_the_rest() -> None:
    """99 right decisions on the first 100 labels of an audit of 20,000 that finds 1 %: the rest is not like these."""
    random = np.random.default_rng(0)
    evidence = 3 * random.normal(size=20_000)
    wrong = random.random(20_000) < expit(evidence + shift_to_mean(evidence, 0.08))
    audit, _ = noisy(20_001)
    fields = {"score": evidence + shift_to_mean(evidence, 0.01), "noise_rate": 0.01, "noise_interval": (0.0, 0.05)}
    columns = {name: getattr(audit, name)[:20_000] for name in ("labels", "index", "choices", "likelihoods")}
    audit = pyrite.auditing.Audit(**{**vars_of(audit), **columns, **fields, "evidence": {}, "probabilities": None})
    rows = audit.ranking[:100]
    after = audit.reviewed({int(row): "drop" if wrong[row] else "keep" for row in rows})
    assert wrong[rows].mean() > 0.9
    assert after.noise_rate < 0.25
    assert after.noise_interval[0] < wrong.mean() < after.noise_interval[1]


def test_the_given_class_is_a_choice_after_a_review() -> None:
    """With twelve classes only five choices are kept, and that may not be one of them before."""
    random = np.random.default_rng(0)
    true = np.arange(1200) % 12
    scores = np.eye(12)[true] + random.normal(size=(1200, 12))
    given = np.where(random.random(1200) < 0.2, random.integers(0, 12, 1200), true)
    audit = pyrite.audit(given, scores=scores, kind="logits")
    audit = pyrite.auditing.Audit(**{**vars_of(audit), "choices": (given[:, None] + np.arange(1, 6)) % 12})
    rows = audit.ranking[-20:]
    after = audit.reviewed(dict.fromkeys(rows.tolist(), "keep"))
    rest = np.setdiff1d(np.arange(1200), rows)
    own = after.choices[rest] == given[rest, None]
    assert own.any(1).all()
    assert after.likelihoods[rest][own] == pytest.approx(1 - after.wrong_probability[rest], abs=1e-12)


def test_a_ranking_gets_its_random_check() -> None:
    audit = cannot_tell()
    after = audit.reviewed({100 + int(row): "drop" if row < 15 else "keep" for row in random_check(60)})
    assert not after.can_tell
    assert after.warnings[-1].startswith("60 labels were reviewed and 15 of them are wrong; 15 of 60 randomly checked")
    assert after.summary()["review"]["random_check"]["value"] == 0.25


def test_bad_decisions(tmp_path: Path) -> None:
    audit, true = noisy()
    with pytest.raises(ValueError, match="sample 1500 is not among the 1,500 audited samples"):
        audit.reviewed({3: "keep", 1500: "keep"})
    with pytest.raises(ValueError, match="the decision on sample 3 is 'kept'"):
        audit.reviewed({3: "kept"})
    with pytest.raises(ValueError, match="none of the 2 decisions is keep, relabel or drop"):
        audit.reviewed({3: "unsure", 4: "unsure"})
    with pytest.raises(ValueError, match="none of the 0 decisions is keep"):
        audit.reviewed({})
    other, _ = noisy(seed=1)
    path = write(tmp_path / "other.csv", other, true, range(50))
    with pytest.raises(ValueError, match="the file belongs to other data"):
        audit.reviewed(path)
    ranking = audit.to_csv(tmp_path / "suspects.csv")
    with pytest.raises(ValueError, match="is a ranking without decisions"):
        audit.reviewed(ranking)
    with pytest.raises(ValueError, match="no such file"):
        audit.reviewed(tmp_path / "none.csv")
    part = make_audit()
    with pytest.raises(ValueError, match="sample 3 is not among the 60 audited samples"):
        part.reviewed({3: "keep"})
