import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from pyrite.diagnostics import embed_sets, embeddings as embeddings_module, retrieve


def on_circle(*degrees: float) -> np.ndarray:
    turned = np.radians(degrees)
    return np.column_stack([np.cos(turned), np.sin(turned)])


def test_by_hand() -> None:
    # From the query, at 0 degrees: junk, its own camera, a distractor, a match, another person, a match
    found = retrieve(
        on_circle(0),
        on_circle(1, 2, 3, 4, 5, 6) * [[1], [2], [3], [4], [5], [6]],
        query_identity=[7],
        query_camera=[1],
        gallery_identity=[-1, 7, 0, 7, 8, 7],
        gallery_camera=[2, 1, 2, 2, 1, 3],
    )
    # what counts: distractor, match, other, match
    assert found.mean_average_precision == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert found.cmc == {1: 0.0, 5: 1.0, 10: 1.0, 20: 1.0}
    assert found.first_match.tolist() == [2]
    assert (found.queries, found.without_match) == (1, 0)


def test_trapezoids_by_hand() -> None:
    # ranks of the matches: 1 and 3, of four
    found = retrieve(
        on_circle(0),
        on_circle(1, 2, 3, 4),
        query_identity=[7],
        gallery_identity=[7, 8, 7, 8],
        precision="trapezoids",
    )
    assert found.mean_average_precision == pytest.approx(((1 + 1) / 2 + (1 / 2 + 2 / 3) / 2) / 2)


@pytest.mark.parametrize("block", [7, 256])
def test_against_scikit_learn(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings_module, "_BLOCK", block)
    rng = np.random.default_rng(0)
    embeddings, identity, camera = rng.normal(size=(150, 8)), rng.integers(-1, 12, 150), rng.integers(1, 4, 150)
    query = np.flatnonzero(identity > 0)[:40]
    found = retrieve(
        embeddings[query],
        embeddings,  # the queries among them, as MARS has it
        query_identity=identity[query],
        gallery_identity=identity,
        query_camera=camera[query],
        gallery_camera=camera,
    )
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    precisions, firsts = [], []
    for row in query:
        kept = (identity != -1) & ~((identity == identity[row]) & (camera == camera[row]))
        similarity, match = (unit @ unit[row])[kept], (identity == identity[row])[kept]
        precisions.append(average_precision_score(match, similarity))
        firsts.append(1 + int(match[np.argsort(-similarity)].argmax()))
    np.testing.assert_allclose(found.average_precision, precisions, rtol=1e-12)
    assert found.first_match.tolist() == firsts
    assert found.mean_average_precision == pytest.approx(np.mean(precisions))
    for rank in (1, 5, 10, 20):
        assert found.cmc[rank] == pytest.approx(np.mean(np.array(firsts) <= rank))


def test_queries_that_stand_in_the_gallery_change_nothing_for_themselves() -> None:
    gallery, person, camera = on_circle(10, 20, 30), [1, 2, 1], [2, 2, 2]
    apart = retrieve(
        on_circle(0), gallery, query_identity=[1], gallery_identity=person, query_camera=[1], gallery_camera=camera
    )
    among = retrieve(
        on_circle(0),
        np.vstack([on_circle(0), gallery]),
        query_identity=[1],
        gallery_identity=[1, *person],
        query_camera=[1],
        gallery_camera=[1, *camera],
    )
    assert among.mean_average_precision == apart.mean_average_precision == pytest.approx((1 + 2 / 3) / 2)


def test_who_cannot_be_found_is_counted_apart() -> None:
    found = retrieve(
        on_circle(0, 0, 0, 0),
        on_circle(1, 2, 3),
        query_identity=[7, 9, 0, -1],  # 9 is not there, 0 and -1 are nobody
        gallery_identity=[7, 0, -1],
    )
    assert (found.queries, found.without_match) == (1, 3)
    assert found.mean_average_precision == 1.0
    assert found.first_match.tolist() == [1, 0, 0, 0]
    assert np.isnan(found.average_precision[1:]).all()
    nobody = retrieve(on_circle(0), on_circle(1), query_identity=[9], gallery_identity=[7])
    assert (nobody.mean_average_precision, nobody.cmc[1]) == (None, None)


def test_identities_that_count_from_zero() -> None:
    args = {"query_identity": [0], "gallery_identity": [1, 0]}
    found = retrieve(on_circle(0), on_circle(1, 2), **args, distractors=(), junk=())
    assert found.mean_average_precision == 0.5
    assert retrieve(on_circle(0), on_circle(1, 2), **args).without_match == 1


def test_a_collapsed_model_is_not_flattered() -> None:
    same = np.ones((4, 2))
    found = retrieve(same[:1], same, query_identity=[7], gallery_identity=[7, 7, 8, 9], ranks=[1, 2, 3])
    assert found.cmc == {1: 0.0, 2: 0.0, 3: 1.0}
    assert found.mean_average_precision == pytest.approx((1 / 3 + 2 / 4) / 2)


def test_sets_are_the_mean_of_their_frames_at_length_one() -> None:
    frames = np.array([[1.0, 0.0], [1.0, 2.0], [5.0, 0.0]])
    np.testing.assert_allclose(embed_sets(frames, [0, 2], [2, 3]), [[2**-0.5, 2**-0.5], [1.0, 0.0]])
    # the mean first, then the length: a long frame counts more
    np.testing.assert_allclose(embed_sets([[4.0, 0.0], [0.0, 3.0]], [0], [2]), [[0.8, 0.6]])
    assert embed_sets(frames, np.zeros(0, int), np.zeros(0, int)).shape == (0, 2)


def test_bad_input() -> None:
    circle = on_circle(0, 1)
    for call, words in (
        (lambda: embed_sets(circle, [0], [3]), "set 0 runs from 0 to 3, of 2 frames"),
        (lambda: embed_sets(circle, [1], [1]), "set 0 runs from 1 to 1"),
        (lambda: embed_sets([[1.0, 0.0], [-1.0, 0.0]], [0], [2]), "the mean of set 0 is all 0"),
        (lambda: retrieve(circle, circle, query_identity=[1], gallery_identity=[1, 2]), "lengths differ: query 2"),
        (lambda: retrieve(circle, circle, query_identity=[1, 2], gallery_identity=[1]), "lengths differ: gallery 2"),
        (
            lambda: retrieve(circle, circle, query_identity=[1, 2], gallery_identity=[1, 2], query_camera=[1, 1]),
            "pass both or neither",
        ),
        (lambda: retrieve(circle * 0, circle, query_identity=[1, 2], gallery_identity=[1, 2]), "query 0 is all 0"),
        (
            lambda: retrieve(circle, circle * np.nan, query_identity=[1, 2], gallery_identity=[1, 2]),
            r"gallery is nan at index \(0, 0\)",
        ),
        (lambda: retrieve(circle, [[1.0]], query_identity=[1, 2], gallery_identity=[1]), "query has 2 dimensions"),
        (
            lambda: retrieve(circle, circle, query_identity=[1, 2], gallery_identity=[1, 2], precision="area"),
            "precision is 'area'",
        ),
        (lambda: retrieve(circle, circle, query_identity=[1, 2], gallery_identity=[1, 2], ranks=[0]), "rank is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
