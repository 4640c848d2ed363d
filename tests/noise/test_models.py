"""What holds of every noise model, and the rule of each."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.draws import Stream, uniforms
from pyrite.noise import CIFAR100_SUPERCLASSES, NOISES, ClassNoise, Flip, Flip2, Flips, Noise, Symmetric, noise_model
from tests.noise.examples import DRAWN, MEASURED, labels

every_drawn = pytest.mark.parametrize(("spec", "classes"), DRAWN.values(), ids=DRAWN.keys())
GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


def with_exact(spec: str) -> str:
    return f"{spec[:-1]}, exact=True)"


# --- the contract ---------------------------------------------------------------------------------------------------


def test_every_registered_noise_is_tested() -> None:
    assert {key.split(",")[0] for key in DRAWN} | MEASURED == set(NOISES)
    assert pyrite.NOISES is NOISES


@every_drawn
def test_spec_string_makes_the_model_again(spec: str, classes: int) -> None:
    model = noise_model(spec)
    assert str(model) == spec
    assert noise_model(str(model)) == model
    assert noise_model(model) is model
    assert eval(repr(model), vars(pyrite.noise)) == model
    if isinstance(model, ClassNoise):
        assert str(noise_model(with_exact(spec))) == with_exact(spec)
        assert noise_model(with_exact(spec)) != model


@every_drawn
def test_rows_are_distributions(spec: str, classes: int) -> None:
    model = noise_model(spec)
    for seed in range(5):
        matrix = model.matrix(classes, seed)
        assert matrix.shape == (classes, classes)
        assert matrix.dtype == np.float64
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(1), 1, rtol=0, atol=1e-12)
        assert np.array_equal(matrix, model.matrix(classes, seed))


@every_drawn
def test_labels_come_by_the_matrix(spec: str, classes: int) -> None:
    """Chi-square over all cells that can be hit, within 4.5 deviations on both sides, and no label where T is 0."""
    true = labels(classes)
    for seed in (0, 1):
        noisy = pyrite.corrupt(true, spec, classes, seed)
        matrix = noise_model(spec).matrix(classes, seed)
        assert np.array_equal(noisy.matrix, matrix)
        assert (noisy.counts[matrix == 0] == 0).all()
        expected = matrix * np.bincount(true, minlength=classes)[:, None]
        cells = expected > 0
        assert expected[cells].min() > 5
        statistic = (((noisy.counts - expected) ** 2)[cells] / expected[cells]).sum()
        freedom = cells.sum() - classes
        assert abs(statistic - freedom) <= 4.5 * np.sqrt(2 * freedom)
        rate = (np.bincount(true, minlength=classes) * (1 - np.diag(matrix))).sum() / len(true)
        assert abs(noisy.rate - rate) <= 4.5 * np.sqrt(rate * (1 - rate) / len(true))


@every_drawn
def test_labels_are_those_of_a_plain_walk(spec: str, classes: int) -> None:
    """Sample by sample: numpy's own numbers, the other classes in their order, the own class last."""
    true, seed = labels(classes, 500), 3
    noisy = pyrite.corrupt(true, spec, classes, seed)
    sequence = np.random.SeedSequence(seed, spawn_key=(0x6E6F6973, 1))
    generator = np.random.Generator(np.random.PCG64(sequence))
    for own, given in zip(true, noisy.given, strict=True):
        left = generator.random()
        drawn = own
        for other in range(classes):
            if other != own:
                left -= noisy.matrix[own, other]
                if left < 0:
                    drawn = other
                    break
        assert given == drawn


@every_drawn
def test_exact_counts(spec: str, classes: int) -> None:
    if not isinstance(noise_model(spec), ClassNoise):
        return
    true = labels(classes, 5003)
    noisy = pyrite.corrupt(true, with_exact(spec), classes, seed=1)
    expected = noisy.matrix * np.bincount(true, minlength=classes)[:, None]
    wrong = expected.sum(1) - np.diag(expected)
    assert np.array_equal(noisy.counts.sum(1) - np.diag(noisy.counts), np.floor(np.round(wrong, 9) + 0.5))
    off = ~np.eye(classes, dtype=bool)
    assert (np.abs(noisy.counts - expected)[off] < 1).all()
    assert (noisy.counts[noisy.matrix == 0] == 0).all()


def test_exact_hits_round_numbers_exactly() -> None:
    true = np.repeat(np.arange(10), 100)
    noisy = pyrite.corrupt(true, "symmetric(0.45, exact=True)", seed=4)
    assert np.array_equal(noisy.counts, np.full((10, 10), 5) + 50 * np.eye(10, dtype=int))
    flipped = pyrite.corrupt(true, "flip2(0.3, exact=True)", seed=4)
    assert set(flipped.counts.flatten().tolist()) == {0, 15, 70}


def test_exact_shares_what_is_left_over_fairly() -> None:
    """40 over 9 others is 4 each and 4 more: over many seeds no class may get them more often."""
    true = np.zeros(100, dtype=int)
    extra = sum(pyrite.corrupt(true, "symmetric(0.4, exact=True)", 10, seed).counts[0, 1:] - 4 for seed in range(900))
    assert extra.sum() == 900 * 4
    assert np.abs(extra - 400).max() < 4.5 * np.sqrt(900 * 4 / 9 * 5 / 9)


def test_exact_chooses_samples_evenly() -> None:
    """Every place is chosen alike often."""
    true = np.zeros(50, dtype=int)
    chosen = sum(pyrite.corrupt(true, "symmetric(0.4, exact=True)", 3, seed).is_wrong for seed in range(1000))
    assert np.abs(chosen - 400).max() < 4.5 * np.sqrt(1000 * 0.4 * 0.6)


@every_drawn
def test_golden_labels(spec: str, classes: int) -> None:
    """What seed 7 means, for ever: the same on any machine and with any version."""
    true = labels(classes, 40)
    assert pyrite.corrupt(true, spec, classes, seed=7).given.tolist() == GOLDEN[spec]
    if isinstance(noise_model(spec), ClassNoise):
        assert pyrite.corrupt(true, with_exact(spec), classes, seed=7).given.tolist() == GOLDEN[with_exact(spec)]


@every_drawn
def test_global_random_state_is_left_alone(spec: str, classes: int) -> None:
    def state() -> list[Any]:
        return [part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()]  # noqa: NPY002

    before = state()
    first = pyrite.corrupt(labels(classes, 1000), spec, classes, seed=2)
    assert state() == before
    np.random.seed(99)  # noqa: NPY002
    assert pyrite.corrupt(labels(classes, 1000), spec, classes, seed=2) == first


@every_drawn
def test_a_label_depends_on_its_place_and_class_alone(spec: str, classes: int) -> None:
    """So labels drawn for the first half are those of the whole, and other samples' labels do not matter."""
    true = labels(classes, 2000)
    whole = pyrite.corrupt(true, spec, classes, seed=5)
    half = pyrite.corrupt(true[:1000], spec, classes, seed=5)
    assert np.array_equal(half.given, whole.given[:1000])
    other = true.copy()
    other[1000:] = other[1000:][::-1]
    assert np.array_equal(pyrite.corrupt(other, spec, classes, seed=5).given[:1000], half.given)


@pytest.mark.parametrize("name", ["symmetric", "uniform", "flip", "flip2", "asymmetric"])
def test_more_noise_keeps_what_is_wrong_wrong(name: str) -> None:
    true = labels(10, 5000)
    wrong = [pyrite.corrupt(true, f"{name}({rate})", 10, seed=1).is_wrong for rate in (0, 0.1, 0.4, 1)]
    assert not wrong[0].any()
    for less, more in itertools.pairwise(wrong):
        assert (more >= less).all()
        assert more.sum() > less.sum()


def test_seeds_differ() -> None:
    true = labels(10, 1000)
    given = [pyrite.corrupt(true, "symmetric(0.4)", 10, seed).given for seed in range(5)]
    assert len({array.tobytes() for array in given}) == 5


def test_the_same_in_another_process() -> None:
    code = (
        "import pyrite, sys; from tests.noise.examples import labels; "
        "print(pyrite.corrupt(labels(10, 40), 'flip2(rate=0.4)', 10, seed=7).given.tolist()); "
        "assert 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == GOLDEN["flip2(rate=0.4)"]


# --- the rule of each -----------------------------------------------------------------------------------------------


def test_symmetric_and_uniform_by_hand() -> None:
    np.testing.assert_allclose(noise_model("symmetric(0.3)").matrix(4), 0.7 * np.eye(4) + 0.1 * (1 - np.eye(4)))
    np.testing.assert_allclose(noise_model("uniform(0.4)").matrix(4), 0.6 * np.eye(4) + 0.1)
    assert np.array_equal(noise_model("symmetric(1)").matrix(2), [[0, 1], [1, 0]])


def test_flip_has_one_other_class_and_flip2_two() -> None:
    for seed in range(20):
        one, two = Flip(0.4).matrix(10, seed), Flip2(0.4).matrix(10, seed)
        np.testing.assert_allclose(np.sort(one, axis=1)[:, -3:], np.tile([0, 0.4, 0.6], (10, 1)), atol=1e-15)
        np.testing.assert_allclose(np.sort(two, axis=1)[:, -4:], np.tile([0, 0.2, 0.2, 0.6], (10, 1)), atol=1e-15)
        np.testing.assert_allclose(np.diag(one), np.full(10, 0.6), atol=1e-15)
        np.testing.assert_allclose(np.diag(two), np.full(10, 0.6), atol=1e-15)


@pytest.mark.parametrize(("model", "targets"), [(Flip(1.0), 1), (Flip2(1.0), 2)])
@pytest.mark.parametrize("classes", [3, 7])
def test_flip_targets_are_uniform_over_the_other_classes(model: Noise, targets: int, classes: int) -> None:
    seeds = 3000
    hits = sum((model.matrix(classes, seed) > 0).astype(int) for seed in range(seeds))
    share = targets / (classes - 1)
    assert (np.diag(hits) == 0).all()
    off = hits[~np.eye(classes, dtype=bool)]
    assert np.abs(off - seeds * share).max() <= 4.5 * np.sqrt(seeds * share * (1 - share))


def test_flip_matrices_come_from_the_seed_and_not_from_the_rate() -> None:
    assert np.array_equal(Flip(0.2).matrix(10, 1) > 0, Flip(0.4).matrix(10, 1) > 0)
    assert not np.array_equal(Flip(0.2).matrix(10, 1), Flip(0.2).matrix(10, 2))
    noisy = [pyrite.corrupt(labels(10, 100), "flip(0.4)", 10, seed) for seed in (1, 2)]
    assert np.array_equal(noisy[0].matrix, Flip(0.4).matrix(10, 1))
    assert np.array_equal(noisy[1].matrix, Flip(0.4).matrix(10, 2))


def test_two_classes() -> None:
    assert np.array_equal(Flip(0.25).matrix(2), [[0.75, 0.25], [0.25, 0.75]])
    with pytest.raises(ValueError, match="needs 3 or more"):
        Flip2(0.25).matrix(2)


def test_asymmetric_maps_by_name() -> None:
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    pairs = ["truck automobile", "bird airplane", "cat dog", "dog cat", "deer horse"]
    expected = np.eye(10)
    for own, other in (map(names.index, pair.split()) for pair in pairs):
        expected[own, own], expected[own, other] = 0.6, 0.4
    np.testing.assert_allclose(noise_model("asymmetric(0.4)").matrix(10), expected)
    expected = np.eye(10)
    for own, other in [(7, 1), (2, 7), (5, 6), (6, 5), (3, 8)]:
        expected[own, own], expected[own, other] = 0.6, 0.4
    np.testing.assert_allclose(noise_model("asymmetric(0.4, map='mnist')").matrix(10), expected)


def test_superclasses() -> None:
    assert len(CIFAR100_SUPERCLASSES) == 20
    assert sorted(own for group in CIFAR100_SUPERCLASSES for own in group) == list(range(100))
    # By the names of five fine classes, whose numbers are their places in the alphabet.
    people = (2, 11, 35, 46, 98)  # baby, boy, girl, man, woman
    trees = (47, 52, 56, 59, 96)  # maple, oak, palm, pine, willow
    assert people in CIFAR100_SUPERCLASSES
    assert trees in CIFAR100_SUPERCLASSES
    assert all(len(group) == 5 and list(group) == sorted(group) for group in CIFAR100_SUPERCLASSES)


def test_cifar100_goes_round_within_the_superclass_and_blocks_do_not() -> None:
    by_class = {own: group for group in CIFAR100_SUPERCLASSES for own in group}
    inside = noise_model("asymmetric(1, map='cifar100')").matrix(100)
    blocks = noise_model("asymmetric(1, map='cifar100-blocks')").matrix(100)
    for own in range(100):
        target = int(inside[own].argmax())
        assert target in by_class[own]
        assert target != own
        assert int(blocks[own].argmax()) == own // 5 * 5 + (own + 1) % 5
    # A permutation whose fifth power changes nothing, and no smaller one: circles of five.
    for matrix in (inside, blocks):
        assert np.array_equal(matrix.sum(0), np.ones(100))
        assert np.array_equal(np.linalg.matrix_power(matrix.astype(int), 5), np.eye(100))
    assert np.array_equal(inside[2].nonzero()[0], [11])  # baby -> boy
    assert np.array_equal(inside[98].nonzero()[0], [2])  # woman -> baby
    assert sum(int(blocks[own].argmax()) in by_class[own] for own in range(100)) < 20


def test_pairs_swap_two_of_each_superclass() -> None:
    chosen = []
    for seed in range(300):
        matrix = noise_model("pairs(0.4)").matrix(100, seed)
        assert np.array_equal(matrix, matrix.T)
        for group in CIFAR100_SUPERCLASSES:
            touched = [own for own in group if matrix[own, own] < 1]
            assert len(touched) == 2
            np.testing.assert_allclose(matrix[np.ix_(touched, touched)], [[0.6, 0.4], [0.4, 0.6]])
        chosen.append(np.diag(matrix) < 1)
        assert abs((1 - np.diag(matrix)).mean() - 0.4 * 2 / 5) < 1e-12
    assert np.abs(np.sum(chosen, axis=0) - 120).max() <= 4.5 * np.sqrt(300 * 0.4 * 0.6)


def test_rate_one_leaves_nothing_right() -> None:
    for spec in ("symmetric(1)", "flip(1.0)", "flip2(1)", "symmetric(1, exact=True)"):
        assert pyrite.corrupt(labels(10, 20_000), spec, 10).rate == 1


def test_numbers_that_reach_the_last_bit_stay_inside() -> None:
    """A row whose sum rounds below 1, and the largest number below 1."""
    from pyrite.noise.model import _invert

    row = np.full(11, 0.1)
    row[3] = 0
    assert np.cumsum(row)[-1] <= 1 - 2.0**-53
    drawn = _invert(row, 3, np.array([0.0, 1 - 2.0**-53]))
    assert drawn.tolist() == [0, 10]
    # Zero is a number that may be drawn, too, and must not hit a class that cannot be.
    assert _invert(np.array([0.0, 0.5, 0.5]), 2, np.array([0.0])).tolist() == [1]
    assert _invert(np.array([0.0, 0.0, 1.0]), 2, np.array([0.0])).tolist() == [2]
    assert uniforms(0, Stream.LABELS, 100_000).max() < 1


@pytest.mark.parametrize("classes", [2, 3, 4, 10, 61])
def test_flips_join_flip_and_flip2_to_symmetric(classes: int) -> None:
    true = labels(classes, 2000)
    for seed in range(5):
        for one, other in [
            (Flip(0.3), Flips(0.3, 1)),
            *([(Flip2(0.3), Flips(0.3, 2))] if classes > 2 else []),
            (Symmetric(0.3), Flips(0.3, classes - 1)),
        ]:
            assert np.array_equal(one.matrix(classes, seed), other.matrix(classes, seed))
            drawn = [pyrite.corrupt(true, noise, classes, seed).given for noise in (one, other)]
            assert np.array_equal(*drawn)


@pytest.mark.parametrize("targets", range(1, 7))
def test_flips_have_so_many_targets_and_keep_them(targets: int) -> None:
    for seed in range(20):
        matrix = Flips(0.6, targets).matrix(8, seed)
        off = ~np.eye(8, dtype=bool)
        assert ((matrix > 0) & off).sum(1).tolist() == [targets] * 8
        np.testing.assert_array_equal(matrix[(matrix > 0) & off], 0.6 / targets)
        np.testing.assert_array_equal(np.diag(matrix), 1 - 0.6)
        assert not ((matrix > 0) & (Flips(0.6, targets + 1).matrix(8, seed) == 0)).any()


def test_flips_choose_every_set_of_targets_equally_often() -> None:
    """Of 4 others 3 are chosen: one of 4 is left out, for each class, chi-square with 5 times 3 degrees of freedom."""
    left_out = np.stack([(Flips(0.3, 3).matrix(5, seed) == 0) for seed in range(2000)]).sum(0)
    off = left_out[~np.eye(5, dtype=bool)]
    assert (np.diag(left_out) == 0).all()
    assert abs(((off - 500) ** 2 / 500).sum() - 15) <= 4.5 * np.sqrt(2 * 15)


@pytest.mark.parametrize("targets", [0, -1, 1.5, True, "2", None])
def test_flips_refuse_what_is_no_number_of_targets(targets: object) -> None:
    with pytest.raises(ValueError, match="targets is"):
        Flips(0.3, targets)  # type: ignore[arg-type]


def test_flips_need_more_classes_than_targets() -> None:
    with pytest.raises(ValueError, match="classes is 3, but flips mistakes a class for 3 others: it needs 4 or more"):
        Flips(0.3, 3).matrix(3)


def test_more_classes_than_a_matrix_has_room_for() -> None:
    with pytest.raises(ValueError, match="a matrix of noise for 1000000001 classes would take"):
        pyrite.corrupt([0, 10**9], "symmetric(0.4)")


def test_masked_labels_are_refused() -> None:
    hidden = np.ma.masked_array([0, 1, 2], [False, True, False])
    with pytest.raises(ValueError, match="labels cannot be read as an array: it is a masked array"):
        pyrite.corrupt(hidden, "symmetric(0.4)")
    assert len(pyrite.corrupt(np.ma.masked_array([0, 1, 2]), "symmetric(0.4)")) == 3
