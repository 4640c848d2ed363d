import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from pyrite.data import load


def test_digits():
    data = load("digits")
    assert data.inputs.shape == (1437, 1, 8, 8)
    assert data.inputs.dtype == np.uint8
    assert data.test.inputs.shape == (360, 1, 8, 8)
    # Together they are scikit-learn's set, every image once.
    whole = np.rint(load_digits().images * 255 / 16).astype(np.uint8).reshape(1797, 64)
    ours = np.concatenate([data.inputs, data.test.inputs]).reshape(1797, 64)
    np.testing.assert_array_equal(np.sort(ours.view("S64").ravel()), np.sort(whole.copy().view("S64").ravel()))
    counts = np.bincount(data.test.labels)
    assert counts.min() >= 34
    assert counts.max() <= 37


def test_digits_are_the_same_every_time():
    data = load("digits")
    np.testing.assert_array_equal(load("digits").test.inputs, data.test.inputs)
    assert data.test.labels[:12].tolist() == [4, 5, 4, 0, 6, 7, 3, 5, 2, 0, 3, 6]


def test_blobs():
    data = load("blobs(classes=4, features=6, samples=400, spread=0.1, seed=3)")
    assert data.inputs.shape == (400, 6)
    assert data.inputs.dtype == np.float32
    assert np.bincount(data.labels).tolist() == [100] * 4
    assert len(data.test) == 80
    centres = np.stack([data.inputs[data.labels == k].mean(0) for k in range(4)])
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, atol=0.05)
    # The deviation of 2,400 numbers around their centres: 0.1 to four standard errors.
    assert abs((data.inputs - centres[data.labels]).std() - 0.1) < 4 * 0.1 / np.sqrt(2 * 2400)


def test_seeds():
    first, again, other = (load(f"blobs(seed={seed})").inputs for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_two_features_put_the_centres_on_a_circle():
    data = load("blobs(classes=5, spread=0)")
    angle = np.arctan2(data.inputs[:, 1], data.inputs[:, 0]) % (2 * np.pi)
    np.testing.assert_allclose(angle, 2 * np.pi * data.labels / 5, atol=1e-6)


def test_gratings_can_be_told_apart_but_not_by_one_pixel():
    data = load("gratings(classes=3, samples=300)")
    assert data.inputs.shape == (300, 3, 16, 16)
    assert data.inputs.dtype == np.uint8
    # The spectrum of a class has its peak in one place, whatever the phase.
    spectrum = np.abs(np.fft.rfft2(data.inputs[:, 0] - 127.5)).reshape(300, -1)
    test = np.abs(np.fft.rfft2(data.test.inputs[:, 0] - 127.5)).reshape(len(data.test), -1)
    model = LogisticRegression(max_iter=2000).fit(spectrum / 1000, data.labels)
    assert model.score(test / 1000, data.test.labels) > 0.95
    model = LogisticRegression(max_iter=2000).fit(data.inputs[:, 0, 3, 3:4] / 255, data.labels)
    assert model.score(data.test.inputs[:, 0, 3, 3:4] / 255, data.test.labels) < 0.6


def test_what_is_refused(refused):
    for spec, said in (
        ("blobs(classes=1)", "classes is 1"),
        ("blobs(samples=2)", "fewer than 3 classes"),
        ("blobs(features=0)", "features is 0"),
        ("blobs(spread=-1)", "spread is -1"),
        ("blobs(seed=-1)", "seed is -1"),
        ("gratings(size=1)", "size is 1"),
    ):
        assert said in refused(load, spec)
