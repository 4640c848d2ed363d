"""Which transitions a structure leaves, and what the layer begins with."""

import numpy as np
import pytest
import torch

from pyrite.methods import Context, method
from tests.methods.by_hand import batches, cross_entropy, learner, posteriors, trained
from tests.methods.test_s_model import confusion

STRUCTURE = [[1, 1, 0], [0, 1, 1], [0, 0, 0]]


def begun() -> np.ndarray:
    own = learner(0, 4)
    cross_entropy(own, batches(), 2)
    return confusion(posteriors(own, np.arange(40)))


@pytest.mark.parametrize("source", ["given", "noise"])
def test_a_known_structure(source: str) -> None:
    """The layer begins with the confusions that are allowed, and the diagonal always is."""
    noise = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]], dtype=torch.float64)
    spec = f"masking(structure={STRUCTURE if source == 'given' else 'noise'!r}, at=0.5)"
    trainer = trained(spec, 4, noise_matrix=noise)
    allowed = np.array(STRUCTURE) + np.diag([0, 0, 1]) > 0
    kept = np.where(allowed, begun(), 0)
    np.testing.assert_allclose(trainer.arrays()["matrix"], kept / kept.sum(1, keepdims=True), rtol=1e-9)
    learned = trainer.arrays()["noise_layer"]
    assert (learned[~allowed] == 0).all()
    assert (learned[allowed] > 0).all()


def test_an_estimated_structure_has_the_larger_confusions() -> None:
    confusions = begun()
    threshold = float(np.sort(confusions[~np.eye(3, dtype=bool)])[2]) + 1e-6
    trainer = trained(f"masking(threshold={threshold}, at=0.5)", 4)
    allowed = (confusions >= threshold) | np.eye(3, dtype=bool)
    assert allowed.sum() == 6
    assert ((trainer.arrays()["noise_layer"] > 0) == allowed).all()


def test_without_a_structure_it_is_the_s_model() -> None:
    ours, theirs = trained(f"masking(structure={[[1] * 3] * 3}, at=0.5)", 4), trained("s_model(at=0.5)", 4)
    np.testing.assert_allclose(ours.arrays()["noise_layer"], theirs.arrays()["noise_layer"], rtol=1e-14)


def test_what_is_refused() -> None:
    for spec, words in {
        "masking(structure='guess')": "structure is 'guess'",
        "masking(structure=[[1, 0], [0.5, 1]])": r"structure is 0.5 at \[1, 0\]",
        "masking(structure=[[1, 0]])": "shape",
        "masking(threshold=1)": "threshold is 1",
        "masking(at=0)": "at is 0",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    for spec, words in {
        "masking(structure=[[1, 0], [0, 1]])": "structure has 2 rows, but there are 3 classes",
        "masking(structure='noise')": "the run has no noise: pass a matrix",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec).start(Context(batches(), learner, epochs=2, classes=3))
    assert str(method(f"masking(structure={STRUCTURE})")) == f"masking(structure={STRUCTURE}, threshold=0.05, at=0.2)"
