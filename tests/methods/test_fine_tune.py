"""Fine-tuning against a loop by hand, and what observers see of it."""

import pytest
import torch
from torch.nn.functional import cross_entropy as ce

from pyrite.methods import Context, method
from tests.methods.by_hand import batches, cross_entropy, learner, meta, same_weights, step, trained


def test_training_and_then_training_on_the_meta_set() -> None:
    trainer = trained("fine_tune(size=15, at=0.6)", 5)
    own, clean = learner(0, 5), meta()  # one schedule for both
    cross_entropy(own, batches(), 3)
    done = 0
    while done < 2 * 4:
        for inputs, labels, _ in clean:
            if done < 2 * 4:
                step(own, lambda: ce(own.model(inputs.double()), labels))  # noqa: B023
                done += 1
    same_weights(trainer, own)


def test_training_samples_are_seen_without_a_weight() -> None:
    data = batches()
    trainer = method("fine_tune(size=15, at=0.5)").start(Context(data, learner, epochs=2, classes=3, meta=meta()))
    trainer.begin_epoch(2)
    batch = next(iter(data))
    expected = trainer.predict(batch.inputs).clone()
    seen = trainer.step(batch)
    assert seen.index.tolist() == batch.index.tolist()
    assert seen.weight.tolist() == [0.0] * 10
    assert torch.equal(seen.scores, expected)
    assert seen.denominator == 5
    assert not torch.equal(trainer.predict(batch.inputs), expected)


def test_what_is_refused() -> None:
    for spec, words in {"fine_tune(size=0)": "size is 0", "fine_tune(at=1)": "at is 1"}.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
    with pytest.raises(ValueError, match="meta is missing"):
        method("fine_tune").start(Context(batches(), learner, epochs=2, classes=3))
    assert method("fine_tune").meta_set == (1000, True, False)
