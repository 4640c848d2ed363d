"""Images that grow: against Pillow's resizing, and against batches that do not grow."""

import numpy as np
import pytest
import torch
from PIL import Image

from pyrite.data import Batches, CropFlip, Growth, Statistics

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 24), np.uint8)
LABELS = np.arange(6) % 2


def test_pixels_are_those_of_pillow() -> None:
    resized = Growth(0.5, 3).resized(torch.from_numpy(IMAGES).float(), epoch=0)
    for image, ours in zip(IMAGES, resized, strict=True):
        for channel, rows in zip(image, ours, strict=True):
            theirs = Image.fromarray(channel.astype(np.float32)).resize((12, 16), Image.Resampling.BILINEAR)
            np.testing.assert_allclose(rows.numpy(), np.asarray(theirs), atol=1e-3)


def test_batches_grow_and_end_as_they_are() -> None:
    scale = Statistics.of(IMAGES)
    grown, whole = (
        Batches(IMAGES, LABELS, batch_size=4, seed=0, augment=CropFlip(pad=2), normalise=scale, growth=growth)
        for growth in (Growth(0.5, 6), None)
    )
    sizes = [(16, 12), (20, 16), (24, 18), (28, 20), (32, 24), (32, 24)]
    for epoch, size in enumerate(sizes):
        for small, large in zip(grown, whole, strict=True):
            assert small.inputs.shape[2:] == size
            assert torch.equal(small.index, large.index)
            if epoch > 3:
                assert torch.equal(small.inputs, large.inputs)


def test_a_resumed_epoch_has_the_same_images() -> None:
    one, other = (Batches(IMAGES, LABELS, batch_size=2, seed=0, growth=Growth(0.5, 3)) for _ in range(2))
    one.seek(1)
    expected = [batch.inputs for batch in one]
    other.load_state_dict({**one.state_dict(), "epoch": 1, "position": 1})
    assert all(torch.equal(batch.inputs, inputs) for batch, inputs in zip(other, expected[1:], strict=True))


@pytest.mark.parametrize("first", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("epochs", [1, 2, 3, 20])
def test_sides_rise_and_the_last_third_is_whole(first: float, epochs: int) -> None:
    sides = [Growth(first, epochs).side(32, epoch) for epoch in range(epochs)]
    assert sides == sorted(sides)
    assert all(side == 32 for side in sides[-max(1, epochs // 3) :])
    assert all(side == 32 for epoch, side in enumerate(sides) if epoch >= Growth(first, epochs).rising)
    assert sides[0] == pytest.approx(32 if epochs == 1 else 32 * first, abs=1)


def test_features_do_not_grow() -> None:
    with pytest.raises(ValueError, match="the samples are features: omit it"):
        Batches(np.zeros((4, 3), np.float32), [0, 1, 0, 1], seed=0, growth=Growth(0.5, 3))
