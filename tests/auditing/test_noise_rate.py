"""How many labels are wrong: on data of known truth, and by the formulas written out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit, softmax

import pyrite
from pyrite.auditing.noise_fit import fit_noise
from pyrite.auditing.noise_model import NoiseFit, log_odds, with_error_odds
from pyrite.auditing.noise_rate import NoiseRate, RateFeatures, estimate_rate
from pyrite.auditing.scores import ModelAgreement

CLASSES, COUNT = 5, 4000


def rate_of(fit: NoiseFit, margins: Any, labels: Any, agreement: ModelAgreement | None = None) -> NoiseRate:
    score = log_odds(fit.log_joint(margins, labels), labels)
    return estimate_rate(RateFeatures.of(fit, margins, labels), score, agreement)


def doubting(seed: int, sharpness: float = 3.0) -> tuple[Any, Any, Any]:
    """Scores whose softmax is the distribution of the true class, which is mostly one of two."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(COUNT, CLASSES)) * sharpness
    chances = softmax(logits, axis=1)
    true = (chances.cumsum(1) > random.random((COUNT, 1))).argmax(1)
    return logits, chances, true


def test_clean_labels_of_classes_that_overlap() -> None:
    """The net is right about its own doubt, which explains all labels that differ."""
    scores, _, true = doubting(0)
    assert (scores.argmax(1) != true).mean() > 0.2
    found = pyrite.audit(true, scores=scores, kind="logits")
    assert found.noise_rate < 0.01
    assert found.noise_interval[0] == 0
    assert found.is_suspect.mean() < 0.01


@pytest.mark.parametrize("noise", ["symmetric(0.3)", "flip(0.3)"])
def test_noise_that_does_not_depend_on_the_sample(noise: str) -> None:
    scores, _, true = doubting(1)
    labels = pyrite.corrupt(true, noise, classes=CLASSES, seed=1).given
    found = pyrite.audit(labels, scores=scores, kind="logits")
    assert found.noise_rate == pytest.approx(0.3, abs=0.05)
    assert found.noise_interval[0] < 0.3 < found.noise_interval[1]


def test_people_who_err_where_the_net_doubts() -> None:
    """One true class per sample, and labels drawn from doubt: a fit of the noise alone finds a part of the errors."""
    random = np.random.default_rng(2)
    logits, chances, _ = doubting(2, sharpness=2.0)
    true = logits.argmax(1)
    labels = (chances.cumsum(1) > random.random((COUNT, 1))).argmax(1)
    careless = random.random(COUNT) < 0.15  # and some of them always press the last key
    labels = np.where(careless, CLASSES - 1, labels)
    wrong = labels != true
    found = pyrite.audit(labels, scores=chances, kind="probabilities")
    margins = logits - logits.max(1, keepdims=True)
    by_fit = fit_noise(margins, labels, 0).best.rate
    assert by_fit < found.noise_rate < wrong.mean() + 0.03
    assert found.noise_interval[0] <= wrong.mean() <= found.noise_interval[1]


def test_the_estimate_by_its_formula() -> None:
    scores, _, true = doubting(3)
    labels = pyrite.corrupt(true, "flip(0.2)", classes=CLASSES, seed=3).given
    scores[:, 1] += 0.8 * scores[:, 0]  # which makes the second class like the first
    margins = scores - scores.max(1, keepdims=True)
    fit = fit_noise(margins, labels, 0)
    assert fit.own_surplus > 0.4 * fit.surplus  # errors do not depend on the sample
    chance = softmax(fit.best.sharpness * margins + fit.best.bias[margins.argmax(1)], axis=1)
    first = chance.argmax(1)
    doubted = np.stack([chance[first == one].sum(0) * (np.arange(CLASSES) != one) for one in range(CLASSES)])
    doubted /= doubted.sum(1, keepdims=True)
    elsewhere = np.roll(np.eye(CLASSES), 1, axis=1)
    matrix = 0.8 * np.eye(CLASSES) + 0.2 * (0.87 * doubted + 0.13 * elsewhere)  # errors that doubt explains in part
    best = replace(fit.best, matrix=matrix, smoothing=64.0)
    fit = replace(fit, best=best, parts=(best,), weights=np.ones(1))
    joint = chance * fit.matrix[:, labels].T
    wrong = 1 - joint[np.arange(COUNT), labels] / joint.sum(1)
    low, differ, doubt = wrong.mean(), (first != labels).mean(), 1 - chance.max(1).mean()
    errors = doubts = 0.0
    total = 0.0
    for one in range(CLASSES):
        others = [other for other in range(CLASSES) if other != one]
        weight = (first == one).sum() * fit.matrix[one, others].sum()
        pattern = fit.matrix[one, others] / fit.matrix[one, others].sum()
        by_doubt = chance[first == one][:, others].sum(0)
        by_doubt = 0.7 * by_doubt / by_doubt.sum() + 0.3 / len(others)
        errors += weight * (pattern * np.log(pattern / by_doubt)).sum()
        doubts += weight * (pattern * np.log(pattern * (CLASSES - 1))).sum()
        total += weight
    explained = np.clip((1 - errors / doubts - 0.2) / 0.4, 0, 1)
    assert 0 < explained < 1
    second, first_score = np.sort(scores, axis=1)[:, -2:].T
    gaps = first_score - second
    density = 4 * (gaps < np.median(gaps) / 4).mean()
    own_error = 2.6 * density**5
    assert 0 < own_error < doubt
    # Noise that is certain, and noise of which labels that were not fitted leave one half.
    free = COUNT / (COUNT + 64 * CLASSES**2)
    halved = 0.15 * free * CLASSES * (CLASSES - 1) - 3
    for own_surplus, noisy in ((0.2 * fit.surplus, 1.0), (halved, 0.5)):
        found = rate_of(replace(fit, own_surplus=own_surplus), margins, labels)
        least = noisy * low
        remains = max(own_surplus / fit.surplus, 0)
        beyond = min(2 * explained, 1) * (1 - own_error / doubt) * (1 - remains / 0.6) * (CLASSES - 2) / 8
        beyond *= least / (least + 0.01)
        share = explained * min(2 * (1 - remains / 0.6), 1) * least / (least + doubt)
        rate = least + (1 - (1 - share) * (1 - beyond)) * (differ - least)
        assert found.rate == pytest.approx(rate, abs=1e-6)
        assert expit(logit(wrong) + found.shift).mean() == pytest.approx(rate, abs=1e-6)
        assert found.low < rate < found.high
        assert (found.low > 0) == (noisy == 1)


def test_a_net_that_separates_classes_is_right_where_people_err() -> None:
    """Ten classes, and labels that are drawn from a lower confidence than the classes are separated by."""
    random = np.random.default_rng(6)
    true = random.integers(0, 10, COUNT)
    logits = random.normal(size=(COUNT, 10)) + 8 * np.eye(10)[true]  # the two best are hardly ever close
    logits[np.arange(COUNT), (true + 1) % 10] += 3  # like one class more than like the others
    chances = 0.9 * softmax(0.4 * logits, axis=1) + 0.1 * np.eye(10)[(true + 1) % 10]
    labels = (chances.cumsum(1) > random.random((COUNT, 1))).argmax(1)
    wrong = (labels != true).mean()
    found = pyrite.audit(labels, scores=logits, kind="logits")
    assert (logits.argmax(1) != true).mean() < 0.02
    assert fit_noise(logits - logits.max(1, keepdims=True), labels, 0).best.rate < wrong - 0.05
    assert found.noise_rate == pytest.approx(wrong, abs=0.03)
    assert found.noise_interval[0] <= wrong <= found.noise_interval[1]


def test_a_net_that_misjudges_how_alike_classes_are() -> None:
    """All labels are right, and a noise matrix would explain them better than the net's own confidence."""
    random = np.random.default_rng(7)
    logits = 3 * random.normal(size=(COUNT, CLASSES))
    first = logits.argmax(1)
    alike = logits.copy()  # of what looks like the first class, much is of the second
    alike[first == 0, 1] += 3
    true = (softmax(alike, axis=1).cumsum(1) > random.random((COUNT, 1))).argmax(1)
    fit = fit_noise(logits - logits.max(1, keepdims=True), true, 0)
    assert fit.surplus > 20
    assert fit.own_surplus < 0
    found = pyrite.audit(true, scores=logits, kind="logits")
    assert found.noise_rate < 0.01
    assert found.noise_interval[0] == 0


def test_probabilities_are_bayes_rule_with_the_matrix_that_is_returned() -> None:
    """If all classes have the same rate, dividing the rows of the changed matrix by their sums changes nothing."""
    scores, _, true = doubting(4)
    labels = pyrite.corrupt(true, "symmetric(0.3)", classes=CLASSES, seed=4).given
    matrix = np.full((CLASSES, CLASSES), 0.1 / (CLASSES - 1))
    np.fill_diagonal(matrix, 0.9)
    changed = with_error_odds(matrix, 0.7)
    assert changed.sum(1) == pytest.approx(np.ones(CLASSES))
    chance = log_softmax(scores, axis=1)
    before, after = (log_odds(chance + np.log(each).T[labels], labels) for each in (matrix, changed))
    assert after == pytest.approx(before + 0.7)


def test_two_models_that_disagree_are_less_trusted() -> None:
    scores, _, true = doubting(5)
    labels = pyrite.corrupt(true, "flip(0.2)", classes=CLASSES, seed=5).given
    margins = scores - scores.max(1, keepdims=True)
    fit = fit_noise(margins, labels, 0)
    share = float((labels != scores.argmax(1)).mean())
    agreements = (None, ModelAgreement(0.0, share, 0.0), ModelAgreement(0.9, share, share))
    alone, agree, differ = (rate_of(fit, margins, labels, each) for each in agreements)
    assert alone.rate == differ.rate
    assert alone.rate < agree.rate <= alone.high
    assert agree.rate == pytest.approx(share, abs=0.03)
    lower = rate_of(fit, margins, labels, ModelAgreement(0.5, 0.2, 0.3))
    assert share > 0.3
    belief = softmax(fit.best.sharpness * margins + fit.best.bias[margins.argmax(1)], axis=1)
    upper = 0.25 + 2 * np.sqrt(0.25 * 0.75 / (COUNT / 2)) + 0.1 * (1 - belief.max(1).mean())
    assert lower.high == pytest.approx(upper)
    assert lower.high < alone.high


def test_two_classes_and_a_net_that_is_sure_of_some_errors() -> None:
    """Errors of the net that do not depend on its doubt look like wrong labels, and are counted by its near ties."""
    random = np.random.default_rng(8)
    doubt = 3 * random.normal(size=COUNT)
    sure = random.random(COUNT) < 0.05
    true = ((random.random(COUNT) < expit(doubt)) ^ sure).astype(np.int64)
    scores = np.stack([np.zeros(COUNT), doubt], 1)
    margins = scores - scores.max(1, keepdims=True)
    typical = np.median(abs(doubt))
    errors = 0.4 * (abs(doubt) < typical / 4).mean()
    for noise, least, most in ((0.0, 0.0, 0.02), (0.2, 0.17, 0.23)):
        labels = np.where(random.random(COUNT) < noise, 1 - true, true)
        fit = fit_noise(margins, labels, 0)
        by_fit = expit(log_odds(fit.best.log_joint(margins, labels), labels)).mean()
        assert by_fit > most
        found = rate_of(fit, margins, labels)
        assert found.rate == pytest.approx((by_fit - errors) / (1 - 2 * errors), abs=1e-6)
        assert least <= found.rate <= most
        assert found.low <= (labels != true).mean() <= found.high
    separated = np.where(true == 1, 1, -1) * random.uniform(3, 20, COUNT)
    scores = np.stack([np.zeros(COUNT), separated], 1)
    labels = np.where(random.random(COUNT) < 0.2, 1 - true, true)
    found = rate_of(fit_noise(scores - scores.max(1, keepdims=True), labels, 0), scores, labels)
    assert found.rate == pytest.approx((labels != true).mean(), abs=0.01)  # without near ties nothing is subtracted


def test_what_would_narrow_the_interval_is_what_was_not_given() -> None:
    scores, _, true = doubting(6)
    labels = pyrite.corrupt(true, "flip(0.2)", classes=CLASSES, seed=6).given
    noisier = scores + np.random.default_rng(6).normal(size=scores.shape)
    second, points = "scores of a second model", "embeddings"
    for more, said, unsaid in (
        ({"scores": scores}, (second, points), ()),
        ({"scores": [scores, noisier]}, (points,), (second,)),
        ({"scores": scores, "embeddings": scores}, (), (second, points)),
    ):
        advice = pyrite.audit(labels, kind="logits", **more).advice  # type: ignore[arg-type]
        one = "the model is always right"
        assert (one if second in said else "the models are right where they agree") in advice  # what decides
        assert "a better model" in advice
        assert "a review of 50 random labels would narrow this" in advice
        assert all(words in advice for words in said)
        assert not any(words in advice for words in unsaid)
    margins = scores - scores.max(1, keepdims=True)
    assert second not in rate_of(fit_noise(margins, labels, 0), margins, labels).advice  # of a run
    certain = 30 * np.eye(CLASSES)[true]
    assert not pyrite.audit(true, scores=certain, kind="logits").advice
