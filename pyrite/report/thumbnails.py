"""Small pictures of many samples on a few sheets, of which a browser decodes one at a time."""

import base64
import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from pyrite.arrays import Ints
from pyrite.data.dataset import Numeric
from pyrite.data.images import LazyImages

_Pixels = npt.NDArray[np.uint8]

_SHEET = 512  # width and height of a sheet, about: 256 pictures of 32 x 32, nine of 160 x 160
_LEAST, _MOST = 96, 320  # limits of the size of a picture that is read from a file
_BYTES = 0.25  # per pixel of a compressed photograph, about
_LOSSLESS = 4_000_000  # up to this many bytes of pixels, sheets are lossless: in 32 x 32 pictures each pixel matters
_BLOCK = 16  # the block size of the compression; pictures start at multiples of it, so that neighbours do not mix


def make_sheets(inputs: Numeric, index: Ints, budget: int) -> tuple[dict[str, Any], list[str], Ints]:
    """How pictures of the samples ``index`` are laid out in rows on sheets; each sheet as base64 of WebP, until
    ``budget`` bytes are used; and for every sample the place of its picture, counted over all sheets from 1, or 0.

    Image files are read again, larger than in training if the budget allows it. One that cannot be read has no picture.
    """
    channels = inputs.shape[1]
    height, width = _size(inputs, len(index), budget)
    pitch = tuple(_BLOCK * math.ceil(side / _BLOCK) for side in (width, height))
    columns, rows = (max(1, _SHEET // step) for step in pitch)
    per_sheet = columns * rows
    lossless = len(index) * channels * height * width <= _LOSSLESS
    images: list[str] = []
    place = np.zeros(len(index), np.int64)
    used = 0
    for start in range(0, len(index), per_sheet):
        some = index[start : start + per_sheet]
        pixels, good = _read(inputs, some, (height, width))
        content = _encode(_lay(pixels, columns, (pitch[0], pitch[1])), lossless)
        used += len(content)
        if images and used > budget:
            break
        images.append(base64.b64encode(content).decode())
        place[start : start + len(some)] = np.where(good, start + 1 + np.arange(len(some)), 0)
    layout = {"width": width, "height": height, "pitch": pitch, "columns": columns, "perSheet": per_sheet}
    return layout, images, place


def _size(inputs: Numeric, count: int, budget: int) -> tuple[int, int]:
    """Height and width of a picture: that of the images or, for files, as large as the budget allows for all."""
    height, width = inputs.shape[2:]
    longest = max(height, width)
    side = float(np.clip(math.sqrt(budget / max(1, count) / _BYTES), _LEAST, _MOST))
    if not isinstance(inputs, LazyImages):
        side = min(side, longest)
    return max(1, round(height * side / longest)), max(1, round(width * side / longest))


def _read(inputs: Numeric, index: Ints, size: tuple[int, int]) -> tuple[_Pixels, npt.NDArray[np.bool_]]:
    """Images as (N, height, width, 1 or 3), black where one cannot be read, and which could be."""
    if isinstance(inputs, LazyImages):
        files = LazyImages(inputs.root, [inputs.names[row] for row in index], size, inputs.channels)
        pixels, good, _ = files.read(np.arange(len(index)), threads=4)
        black = np.zeros(files.shape, np.uint8)
        black[good] = pixels
        return black.transpose(0, 2, 3, 1), good
    images = inputs[index]
    # Images with two or more than three channels are not in colour: only the first channels are shown.
    images = (images[:, :3] if images.shape[1] >= 3 else images[:, :1]).transpose(0, 2, 3, 1)
    if images.dtype != np.uint8:
        low, high = (edge((1, 2, 3), keepdims=True) for edge in (images.min, images.max))
        images = (255 * ((images - low) / np.maximum(high - low, np.finfo(np.float32).tiny))).astype(np.uint8)
    if images.shape[1:3] != size:
        images = np.stack([_scaled(image, size) for image in images])
    return np.ascontiguousarray(images), np.ones(len(index), bool)


def _scaled(image: _Pixels, size: tuple[int, int]) -> _Pixels:
    scaled = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).resize((size[1], size[0]))
    pixels: _Pixels = np.asarray(scaled, np.uint8).reshape(*size, image.shape[2])
    return pixels


def _lay(pixels: _Pixels, columns: int, pitch: tuple[int, int]) -> _Pixels:
    """Lay pictures out in rows, each padded to the pitch with its last pixels."""
    count, height, width, channels = pixels.shape
    rows = math.ceil(count / columns)
    filled = np.pad(pixels, ((0, 0), (0, pitch[1] - height), (0, pitch[0] - width), (0, 0)), mode="edge")
    filled = np.pad(filled, ((0, rows * columns - count), (0, 0), (0, 0), (0, 0)))
    laid = filled.reshape(rows, columns, pitch[1], pitch[0], channels).transpose(0, 2, 1, 3, 4)
    return laid.reshape(rows * pitch[1], columns * pitch[0], channels)


def _encode(sheet: _Pixels, lossless: bool) -> bytes:
    options: dict[str, Any] = (
        {"lossless": True, "quality": 20, "method": 1} if lossless else {"quality": 80, "method": 2}
    )
    buffer = io.BytesIO()
    image = Image.fromarray(sheet[..., 0] if sheet.shape[2] == 1 else sheet)
    image.convert("RGB").save(buffer, "WEBP", **options)
    return buffer.getvalue()
