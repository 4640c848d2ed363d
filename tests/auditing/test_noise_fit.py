"""The noise that is found, against noise that was drawn from the very model that is fitted."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.metrics import average_precision_score

from pyrite.auditing.noise_fit import Table, fit_noise, fit_once
from pyrite.auditing.noise_model import Noise, NoiseFit, log_odds
from pyrite.auditing.noise_steps import Statistics, fit_biases, fit_common, newton_step, smoothed
from pyrite.auditing.scores import top_two, typical_gap
from pyrite.soft_margin import margins as margins_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NOISY = np.array([[0.7, 0.2, 0.07, 0.03], [0.04, 0.86, 0.05, 0.05], [0.1, 0.1, 0.6, 0.2], [0.15, 0.06, 0.05, 0.74]])
BIAS = np.array([0.3, -0.3, 0.1, -0.1])


class Drawn(NamedTuple):
    logits: Floats
    margins: Floats
    true: Ints
    given: Ints


def pick(chances: Floats, random: np.random.Generator) -> Ints:
    """A column of each row, by its chances."""
    return np.minimum((chances.cumsum(1) < random.random((len(chances), 1))).sum(1), chances.shape[1] - 1)


def draw(
    matrix: Floats, samples: int, seed: int, sharpness: float = 1.3, bias: Floats | None = None, spread: float = 3.0
) -> Drawn:
    """Labels of the model, with one row of the bias for all samples or one for each preferred class."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, spread, (samples, len(matrix)))
    margins = margins_of(torch.from_numpy(logits)).numpy()
    rows = np.broadcast_to(0.0 if bias is None else bias, matrix.shape)[margins.argmax(1)]
    true = pick(softmax(sharpness * margins + rows, axis=1), random)
    return Drawn(logits, margins, true, pick(matrix[true], random))


def likelihood(drawn: Drawn, sharpness: float, bias: Floats, matrix: Floats) -> float:
    """The mean log-likelihood of the given labels, written out class by class."""
    joint = log_softmax(sharpness * np.clip(drawn.margins, -30, 30) + bias[drawn.margins.argmax(1)], axis=1)
    for true in range(len(matrix)):
        joint[:, true] += np.log(matrix[true, drawn.given])
    return float(logsumexp(joint, axis=1).mean())


# --- the model comes back -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several() -> list[tuple[Drawn, NoiseFit]]:
    found = []
    for seed in range(10):
        drawn = draw(NOISY, 6000, seed, bias=BIAS)
        found.append((drawn, fit_noise(drawn.margins, drawn.given, seed)))
    return found


def test_what_was_drawn_is_found() -> None:
    drawn = draw(NOISY, 40_000, 0, bias=BIAS)
    found = fit_noise(drawn.margins, drawn.given, 0)
    assert found.can_tell
    # The spread over ten other simulations of this size: 0.016 of the sharpness, 0.05 of a bias, 0.005 of a chance.
    assert found.best.sharpness == pytest.approx(1.3, abs=0.06)
    assert found.best.bias.mean(0) == pytest.approx(BIAS, abs=0.15)
    assert abs(found.best.bias - BIAS).max() < 0.6  # of one preferred class and a rare true one
    assert found.matrix == pytest.approx(NOISY, abs=0.02)
    assert abs(found.best.rate - (drawn.true != drawn.given).mean()) < 4 * found.rate_error
    assert (abs(found.matrix - NOISY) < 4 * found.matrix_error).all()
    assert 0 < found.rate_error < 0.01


def test_errors_are_the_spread(several: list[tuple[Drawn, NoiseFit]]) -> None:
    """A spread over ten is good to a quarter, an error from twenty draws to a sixth: they agree within a factor of 2,
    and the sixteen of the matrix in their root mean square within 1.4."""
    spread = np.std([found.best.rate for _, found in several], ddof=1)
    said = np.sqrt(np.mean([found.rate_error**2 for _, found in several]))
    assert 0.5 < spread / said < 2
    spread = np.std([found.matrix for _, found in several], axis=0, ddof=1)
    said = np.sqrt(np.mean([found.matrix_error**2 for _, found in several], axis=0))
    assert 1 / 1.4 < np.sqrt((spread**2).sum() / (said**2).sum()) < 1.4


def test_rates_are_not_off_to_one_side(several: list[tuple[Drawn, NoiseFit]]) -> None:
    off = [(found.best.rate - (drawn.true != drawn.given).mean()) / found.rate_error for drawn, found in several]
    assert abs(np.mean(off)) < 3 / np.sqrt(len(off)) + 0.3  # over 40 simulations the mean was -0.17


def test_true_labels_of_a_calibrated_net() -> None:
    for seed in range(3):
        drawn = draw(np.eye(5), 5000, seed, sharpness=1.0)
        found = fit_noise(drawn.margins, drawn.true, seed)
        assert (drawn.margins.argmax(1) != drawn.true).mean() > 0.15  # the net errs, the labels do not
        assert found.best.rate < 0.02
        assert found.best.sharpness == pytest.approx(1, abs=0.15)
        assert found.can_tell


def test_random_labels_say_nothing() -> None:
    for seed in range(3):
        drawn = draw(NOISY, 800, seed)
        found = fit_noise(drawn.margins, np.random.default_rng(seed).integers(0, 4, 800), seed)
        assert not found.can_tell
        assert found.rate_error == np.inf


@pytest.mark.parametrize("classes", [2, 20, 100])
def test_random_scores_say_nothing(classes: int) -> None:
    """A matrix of many classes has so many entries that it explains the labels that it is fitted to."""
    random = np.random.default_rng(0)
    scores, labels = random.normal(size=(400, classes)), random.integers(0, classes, 400)
    found = fit_noise(scores - scores.max(1, keepdims=True), labels, 0)
    assert not found.can_tell
    assert found.unseen_gain < 400 * found.best.gain


# --- the likeliest point --------------------------------------------------------------------------------------------


def test_no_point_near_by_is_likelier() -> None:
    drawn = draw(NOISY, 20_000, 3, bias=BIAS)
    found = fit_noise(drawn.margins, drawn.given, 0).best
    best = likelihood(drawn, found.sharpness, found.bias, found.matrix)
    frequency = np.bincount(drawn.given) / len(drawn.given)
    assert found.gain == pytest.approx(best - (frequency * np.log(frequency)).sum(), abs=1e-5)
    random = np.random.default_rng(0)
    # The prior counts as a sample a class; nearer than that the likelihood may rise a little.
    for size in (0.02, 0.1):
        for _ in range(5):
            sharpness, bias = found.sharpness + size * random.normal(), found.bias + size * random.normal(size=(4, 4))
            matrix = found.matrix * np.exp(size * random.normal(size=(4, 4)))
            matrix /= matrix.sum(1, keepdims=True)
            for point in (
                (sharpness, found.bias, found.matrix),
                (found.sharpness, bias, found.matrix),
                (found.sharpness, found.bias, matrix),
            ):
                assert likelihood(drawn, *point) < best + 1e-6
    assert likelihood(drawn, found.sharpness * 1.2, found.bias, found.matrix) < best - 1e-4  # it can tell


@pytest.mark.parametrize("classes", [2, 3])
def test_the_likeliest_biases_are_those_of_another_search(classes: int) -> None:
    """Without noise, with the same priors, by a search that knows no derivatives; two classes, of which one is rare."""
    drawn = draw(np.eye(classes), 300, 0, bias=np.linspace(0, -4, classes))
    table = Table.of(drawn.margins, drawn.true)
    distances, labels, rows = table.margins.T.astype(np.float64), table.labels, np.arange(300)
    start = Noise.initial(classes)
    start = replace(start, matrix=smoothed(np.eye(classes), 1.0), smoothing=np.inf)

    def cost(point: Floats, groups: Ints, centre: Floats) -> float:
        bias = point[1:].reshape(-1, classes)
        chances = softmax(point[0] * distances + bias[groups], axis=1) @ start.matrix
        prior = ((point[0] - 6) / 6) ** 2 + ((bias - centre) ** 2).sum()
        return float(0.5 * prior - np.log(chances[rows, labels]).sum())

    common = fit_common(table.samples(rows), start, 1e-12)
    best = minimize(cost, np.array([6.0, *np.zeros(classes)]), (0 * rows, 0.0), options={"gtol": 1e-7}).x
    assert [common.sharpness, *common.bias[0]] == pytest.approx(best, abs=1e-3)
    found = fit_biases(table.samples(rows, own_biases=True), common, 1e-12)
    begin = np.array([common.sharpness, *np.tile(common.bias[0], classes)])
    best = minimize(cost, begin, (distances.argmax(1), common.bias[0]), options={"gtol": 1e-7}).x
    assert [found.sharpness, *found.bias.ravel()] == pytest.approx(best, abs=1e-3)


def test_many_classes_are_fitted_to_the_same_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many classes only the diagonal of the second derivatives is used: the way is longer, the end is the same."""
    drawn = draw(NOISY, 2000, 6, bias=BIAS)
    table = Table.of(drawn.margins, drawn.given)
    found = fit_common(table.samples(np.arange(2000)), Noise.initial(4), 1e-9)
    monkeypatch.setattr("pyrite.auditing.noise_steps._EXACT", 3)
    other = fit_common(table.samples(np.arange(2000)), Noise.initial(4), 1e-9)
    assert other.sharpness == pytest.approx(found.sharpness, abs=0.02)
    assert other.bias == pytest.approx(found.bias, abs=0.02)


def test_what_a_net_learned_from_wrong_labels_is_undone() -> None:
    """A net that finds one class too likely wherever it prefers another, and labels that are wrong in that very way."""
    learned = np.zeros((4, 4))
    learned[0, 1] = learned[2, 3] = -2.5  # the net's score of the second class is too high by this
    drawn = draw(NOISY, 20_000, 8, bias=learned, spread=1.5)
    found = fit_noise(drawn.margins, drawn.given, 0)
    contrast = found.best.bias - found.best.bias.mean(1, keepdims=True)
    assert contrast == pytest.approx(learned - learned.mean(1, keepdims=True), abs=0.6)
    assert found.matrix == pytest.approx(NOISY, abs=0.04)
    common = fit_once(drawn.margins, drawn.given)
    wrong = drawn.true != drawn.given
    together, apart = (
        average_precision_score(wrong, log_odds(each.log_joint(drawn.margins, drawn.given), drawn.given))
        for each in (common, found)
    )
    assert apart > together + 0.005


def test_the_posterior_is_bayes_rule() -> None:
    """The posterior of every part, averaged by the weights of the parts."""
    drawn = draw(NOISY, 3000, 4, bias=BIAS)
    found = replace(fit_noise(drawn.margins, drawn.given, 0), weights=np.array([0.5, 0.3, 0.2, 0.0]))
    other = replace(found.best, matrix=np.roll(np.roll(found.best.matrix, 1, 0), 1, 1), sharpness=0.8)
    found = replace(found, parts=(found.best, other, replace(other, bias=other.bias[:1]), Noise.initial(4)))
    each = np.arange(3000)
    posterior = np.zeros((3000, 4))
    for weight, part in zip(found.weights, found.parts, strict=True):
        rows = np.broadcast_to(part.bias, (4, 4))[drawn.margins.argmax(1)]
        prior = softmax(part.sharpness * np.clip(drawn.margins, -30, 30) + rows, axis=1)
        joint = np.stack([prior[:, k] * part.matrix[k, drawn.given] for k in range(4)], 1)
        posterior += weight * joint / joint.sum(1, keepdims=True)
    joint_log = found.log_joint(drawn.margins, drawn.given)
    assert softmax(joint_log, axis=1) == pytest.approx(posterior, abs=1e-12)
    wrong = 1 - posterior[each, drawn.given]
    odds = log_odds(joint_log, drawn.given)
    assert 1 / (1 + np.exp(-odds)) == pytest.approx(wrong, abs=1e-12)
    own = joint_log[each, drawn.given].copy()
    joint_log[each, drawn.given] = -np.inf
    assert odds == pytest.approx(logsumexp(joint_log, axis=1) - own, rel=1e-12)
    assert found.matrix == pytest.approx(0.5 * found.best.matrix + 0.5 * other.matrix)


def test_smoothings_weigh_by_labels_that_were_not_fitted() -> None:
    """By likelihoods written out, of fits to the other three quarters."""
    drawn = draw(0.8 * np.eye(4) + 0.05, 400, 7, spread=1.0)
    found = fit_noise(drawn.margins, drawn.given, 3)
    table = Table.of(drawn.margins, drawn.given)
    folds = np.random.default_rng(3).permutation(400) % 4
    likely = {}
    for smoothing in (1.0, 8.0, 64.0, 4096.0):
        total = 0.0
        for fold in range(4):
            start = replace(Noise.initial(4), smoothing=smoothing)
            kept, left = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            fit = fit_common(table.samples(kept), start, 1e-5)
            fit = fit_biases(table.samples(kept, own_biases=True), fit, 1e-5)
            margins, given = table.margins[:, left].T, table.labels[left]
            unseen = Drawn(margins, margins.astype(np.float64), given, given)
            total += len(left) * likelihood(unseen, fit.sharpness, fit.bias, fit.matrix)
        likely[smoothing] = total
    weights = {smoothing: np.exp((total - max(likely.values())) / 2) for smoothing, total in likely.items()}
    assert min(weights.values()) > 0.05 * max(weights.values())  # all of them count
    assert [part.smoothing for part in found.parts] == list(weights)
    assert found.weights == pytest.approx(np.array(list(weights.values())) / sum(weights.values()), abs=1e-3)


# --- what must not matter -------------------------------------------------------------------------------------------

# By rounding alone the search may stop a step earlier: a fiftieth of a standard error.
NEAR = 1e-4


@pytest.fixture(scope="module")
def plain() -> tuple[Drawn, NoiseFit]:
    drawn = draw(NOISY, 4000, 5, bias=BIAS)
    return drawn, fit_noise(drawn.margins, drawn.given, 0)


def test_names_of_classes_do_not_matter(plain: tuple[Drawn, NoiseFit]) -> None:
    drawn, found = plain
    order = np.array([2, 0, 3, 1])  # new class i is old class order[i]
    other = fit_noise(drawn.margins[:, order], np.argsort(order)[drawn.given], 0)
    assert other.best.sharpness == pytest.approx(found.best.sharpness, abs=30 * NEAR)
    assert other.best.rate == pytest.approx(found.best.rate, abs=NEAR)
    assert other.best.bias == pytest.approx(found.best.bias[np.ix_(order, order)], abs=100 * NEAR)
    assert other.matrix == pytest.approx(found.matrix[np.ix_(order, order)], abs=2 * NEAR)
    assert other.matrix_error == pytest.approx(found.matrix_error[np.ix_(order, order)], rel=0.02)


def test_the_order_of_samples_does_not_matter(plain: tuple[Drawn, NoiseFit]) -> None:
    drawn, found = plain
    order = np.random.default_rng(0).permutation(4000)
    other = fit_noise(drawn.margins[order], drawn.given[order], 0)
    assert other.best.rate == pytest.approx(found.best.rate, abs=NEAR)
    assert other.matrix == pytest.approx(found.matrix, abs=2 * NEAR)
    joint_log = found.log_joint(drawn.margins, drawn.given)
    assert (found.log_joint(drawn.margins[order], drawn.given[order]) == joint_log[order]).all()


def test_the_same_seed_gives_the_same(plain: tuple[Drawn, NoiseFit]) -> None:
    drawn, found = plain
    again, other = (fit_noise(drawn.margins, drawn.given, seed) for seed in (0, 1))
    assert (again.best.rate, again.rate_error) == (found.best.rate, found.rate_error)
    assert (again.matrix_error == found.matrix_error).all()
    # Another smoothing may be chosen.
    assert other.best.rate == pytest.approx(found.best.rate, abs=found.rate_error / 3)
    assert other.rate_error != found.rate_error


def test_blocks_do_not_matter(plain: tuple[Drawn, NoiseFit], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, found = plain
    monkeypatch.setattr("pyrite.auditing.noise_steps._BLOCK", 3000)
    other = fit_noise(drawn.margins, drawn.given, 0)
    assert other.best.rate == pytest.approx(found.best.rate, abs=NEAR)
    assert other.matrix == pytest.approx(found.matrix, abs=2 * NEAR)
    assert (other.best.gain, other.gain_error) == pytest.approx((found.best.gain, found.gain_error), abs=1e-6)


# --- little to go by ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["absent", "two", "hundred", "certain", "one sample"])
def test_the_matrix_is_always_one(case: str) -> None:
    random = np.random.default_rng(0)
    classes, samples = {"two": (2, 200), "hundred": (100, 150)}.get(case, (4, 200))
    drawn = draw(0.8 * np.eye(classes) + 0.2 / classes, samples, 1)
    margins, given = drawn.margins, drawn.given
    if case == "absent":
        given = np.where(given == 2, 3, given)
    elif case == "one sample":
        given = np.where(given == 2, 3, given)
        given[0] = 2
    elif case == "certain":
        margins = 1e6 * np.sign(margins) * random.random(margins.shape)
    found = fit_noise(margins, given, 0)
    assert found.matrix.sum(1) == pytest.approx(np.ones(classes), abs=1e-12)
    assert (found.matrix >= 0).all()
    for value in (found.best.bias, found.best.sharpness, found.best.rate, found.best.gain, found.gain_error):
        assert np.isfinite(value).all()
    assert np.isfinite(found.matrix_error).all() == np.isfinite(found.rate_error) == found.can_tell
    assert 0 <= found.best.rate < 1
    odds = log_odds(found.log_joint(margins, given), given)
    assert not np.isnan(odds).any()


@pytest.mark.parametrize(("samples", "known"), [(190, False), (210, True)])
def test_biases_of_preferred_classes_take_two_samples_each(samples: int, known: bool) -> None:
    drawn = draw(0.7 * np.eye(10) + 0.03, samples, 9)
    found = fit_noise(drawn.margins, drawn.given, 0)
    assert np.isfinite(found.own_surplus) == known
    assert len(found.best.bias) == (10 if known else 1)


def test_few_samples_are_pulled_together_and_many_are_not() -> None:
    """Of 300 samples of symmetric noise a free matrix would follow chance; of 20,000 of another it is left alone."""
    symmetric = 0.55 * np.eye(10) + 0.05
    few = draw(symmetric, 300, 0)
    found = fit_noise(few.margins, few.given, 0)
    assert found.best.smoothing > 1
    assert abs(found.matrix - symmetric).max() < 0.1
    flipped = 0.6 * np.eye(10) + 0.4 * np.roll(np.eye(10), 1, 1)
    many = draw(flipped, 20_000, 0)
    found = fit_noise(many.margins, many.given, 0)
    assert found.best.smoothing == 1
    assert found.matrix == pytest.approx(flipped, abs=0.03)


def test_without_samples_the_sharpness_is_that_of_the_prior() -> None:
    """A Newton step to the mode of the prior, a normal density with mean 6 and standard deviation 6."""
    nothing, bias = Statistics.none(1, 3), np.zeros((1, 3))
    for sharpness in (5.6, 6.0, 6.4):
        assert newton_step(sharpness, bias, bias, nothing)[0] == pytest.approx(6.0)
    # With samples that have as much information as the prior, and no slope, the step is half as long.
    assert newton_step(6.4, bias, bias, replace(nothing, curvature=1 / 36))[0] == pytest.approx(6.2)


def test_few_samples_told_apart_are_no_certainty() -> None:
    """Where no net errs, the likeliest sharpness is infinite; sixty samples do not say that."""
    random = np.random.default_rng(0)
    true = np.arange(60) % 3
    logits = random.normal(size=(60, 3)) + 6 * np.eye(3)[true]
    given = np.where(random.random(60) < 0.3, (true + 1) % 3, true)
    margins = margins_of(torch.from_numpy(logits)).numpy()
    assert (margins.argmax(1) == true).all()
    found = fit_noise(margins, given, 0)
    assert 2 < found.best.sharpness * typical_gap(*top_two(margins)) < 10
    assert found.best.rate == pytest.approx((given != true).mean(), abs=0.05)
