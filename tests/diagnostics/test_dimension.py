import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from pyrite.diagnostics import local_intrinsic_dimension


def test_by_hand() -> None:
    # distances from 0: 1, 2, 4
    found = local_intrinsic_dimension([[0.0]], k=3, among=[[1.0], [-2.0], [4.0], [9.0]])
    assert found.tolist() == pytest.approx([2 / (np.log(4) + np.log(2))])


def test_against_distances_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 6)) + 100
    distance = NearestNeighbors(n_neighbors=21).fit(points - 100).kneighbors(points - 100)[0][:, 1:]
    expected = 19 / np.log(distance[:, -1:] / distance[:, :-1]).sum(1)
    np.testing.assert_allclose(local_intrinsic_dimension(points, k=20), expected, rtol=1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_is_the_dimension_of_what_is_sampled(dimension: int) -> None:
    # Around a point, the k-1 log ratios are independent with the mean 1/d, whatever k: so 1/LID has the mean 1/d. Its
    # standard error is 1/(d sqrt((k-1) n)), n centres each with a cloud of its own. Dividing by k would be off by six.
    rng = np.random.default_rng(dimension)
    k, centres = 10, 400
    inverse = []
    for _ in range(centres):
        ball = rng.normal(size=(500, dimension))
        ball *= (rng.random((500, 1)) ** (1 / dimension)) / np.linalg.norm(ball, axis=1, keepdims=True)
        flat = np.zeros((500, 8))
        flat[:, :dimension] = ball  # in a space of more dimensions
        inverse.append(1 / local_intrinsic_dimension(np.zeros((1, 8)), k=k, among=flat)[0])
    error = 1 / np.sqrt((k - 1) * centres)
    assert dimension * np.mean(inverse) == pytest.approx(1, abs=4 * error)


def test_itself_and_duplicates_are_no_neighbours() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 3)) * 1e3
    twice = np.repeat(points, 2, axis=0)
    once = local_intrinsic_dimension(points, k=5)
    np.testing.assert_allclose(local_intrinsic_dimension(points, k=5, among=points), once)
    assert np.isfinite(local_intrinsic_dimension(twice, k=5)).all()
    apart = np.vstack([points, points + 1e-6])  # near, yet not the same
    assert np.all(local_intrinsic_dimension(apart, k=5) < once.min())


def test_what_cannot_be_said() -> None:
    assert np.isnan(local_intrinsic_dimension([[0.0], [1.0]], k=2)).all()  # one neighbour each
    assert np.isnan(local_intrinsic_dimension(np.zeros((9, 2)), k=3)).all()  # all in one place
    assert np.isnan(local_intrinsic_dimension([[0.0]], k=2, among=[[1.0]])).all()
    corners = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    assert local_intrinsic_dimension([[0.0, 0.0]], k=4, among=corners).tolist() == [np.inf]
    assert local_intrinsic_dimension(np.zeros((0, 2)), k=2, among=corners).tolist() == []


def test_bad_input() -> None:
    for call, words in (
        (lambda: local_intrinsic_dimension([[0.0, np.nan]]), r"points is nan at index \(0, 1\)"),
        (lambda: local_intrinsic_dimension([0.0]), "points has the shape"),
        (lambda: local_intrinsic_dimension([[0.0]], k=1), "k is 1"),
        (lambda: local_intrinsic_dimension([[0.0]], among=[[0.0, 1.0]]), "points have 1 dimensions, among has 2"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
