"""Random colours against Pillow and the standard library, one image at a time."""

import colorsys

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from pyrite.data import CropFlip
from pyrite.data.augment import draw_colours, jittered

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 3, 6, 7)).astype(np.uint8)
IMAGES = torch.from_numpy(PIXELS).float()


def changed(**amounts):
    names = ("brightness", "contrast", "saturation", "hue")
    row = [amounts.get(name, float(name != "hue")) for name in names]
    return jittered(IMAGES, torch.tensor([row] * len(IMAGES))).numpy()


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.4])
@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("saturation", ImageEnhance.Color),
    ],
)
def test_factors_are_those_of_pillow(name, theirs, factor):
    for found, pixels in zip(changed(**{name: factor}), PIXELS, strict=True):
        expected = np.asarray(theirs(Image.fromarray(pixels.transpose(1, 2, 0))).enhance(factor)).transpose(2, 0, 1)
        assert np.abs(found - expected).max() < 2  # Pillow rounds to whole numbers, the grey ones too


@pytest.mark.parametrize("turn", [-0.5, -0.13, 0.0, 0.2])
def test_the_hue_is_that_of_the_standard_library(turn):
    found = changed(hue=turn).transpose(0, 2, 3, 1).reshape(-1, 3)
    for pixel, before in zip(found, PIXELS.transpose(0, 2, 3, 1).reshape(-1, 3), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(before / 255))
        assert pixel == pytest.approx(
            255 * np.array(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)), abs=0.01
        )


def test_grey_images_keep_one_channel():
    grey = jittered(IMAGES[:, :1], torch.tensor([[0.5, 1.0, 3.0, 0.3]] * 5))
    assert torch.allclose(grey, IMAGES[:, :1] / 2)


def test_draws_stay_within_the_amounts_and_change_with_the_epoch():
    drawn = draw_colours((0.4, 0.0, 0.1, 0.2), 5000, 1, 0)
    low, high = drawn.amin(0).tolist(), drawn.amax(0).tolist()
    assert low == pytest.approx([0.6, 1, 0.9, -0.2], abs=1e-3)
    assert high == pytest.approx([1.4, 1, 1.1, 0.2], abs=1e-3)
    assert not torch.equal(drawn, draw_colours((0.4, 0.0, 0.1, 0.2), 5000, 1, 1))
    assert torch.equal(drawn[:7], draw_colours((0.4, 0.0, 0.1, 0.2), 7, 1, 0))


@pytest.mark.parametrize("jitter", ["abcd", [0.1], [0.4, 0.4, 0.4, 0.6], [-1, 0, 0, 0], 0.4])
def test_wrong_amounts(jitter):
    with pytest.raises(ValueError, match="jitter"):
        CropFlip(jitter=jitter)
