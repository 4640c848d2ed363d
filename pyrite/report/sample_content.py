"""What the page shows of samples: small pictures, rows of numbers, records, and texts with marked words.

A word speaks for a class if it is in more texts of that class than of the other, among the labels that are not
suspects. That is independent of the net and of its features, and anybody can check it. Pictures are on a few sheets, of
which a browser decodes one at a time.
"""

import base64
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from pyrite.arrays import Flags, Ints
from pyrite.auditing import Audit
from pyrite.data import Column, Dataset, Records
from pyrite.data.dataset import Numeric
from pyrite.data.images import LazyImages

_TYPICAL: Final = 20_000  # cells of what is typical of the classes; with more, they are left out
_TYPICAL_NUMBERS: Final = 200_000
_LONGEST_CELL: Final = 2000  # characters
_LONGEST_TEXT: Final = 4000
_WORD: Final = re.compile(r"\w+")
_TWICE: Final = float(np.log(2))  # a word is marked if it is twice as frequent in one class as in the other
_MARKED: Final = 15  # different words of a text, at most, for each class


def encode_column(values: npt.NDArray[Any], kind: str) -> dict[str, str]:
    """Numbers as base64 of their bytes: a third of the size of decimal digits."""
    return {"kind": kind, "data": base64.b64encode(np.ascontiguousarray(values, f"<{kind}").tobytes()).decode()}


def number_table(audit: Audit, data: Dataset, rows: Ints, budget: int) -> dict[str, Any]:
    """Values of the first of these samples, as many as there is room for, and the means of each class, in float64: in
    float32 a time in seconds would be the same for all samples."""
    inputs = np.asarray(data.inputs)
    features = inputs.shape[1]
    count = min(len(rows), budget // max(1, 8 * features))
    means = None
    if len(audit.classes) * features <= _TYPICAL_NUMBERS:
        classes = (inputs[audit.index[kept]].astype(np.float64) for kept in _kept(audit))
        means = encode_column(np.stack([np.ma.masked_invalid(some).mean(0).filled(np.nan) for some in classes]), "f8")
    return {
        "rows": count,
        "names": list(data.columns) or [f"feature {number}" for number in range(features)],
        "values": encode_column(inputs[audit.index[rows[:count]]], "f8"),
        "typical": means,
    }


def record_table(audit: Audit, records: Records, rows: Ints, budget: int) -> dict[str, Any]:
    """Cells of the first samples, as many as there is room for, and what is typical of each class."""
    cells: list[list[str]] = []
    for index in audit.index[rows].tolist():
        row = [_cut(cell, _LONGEST_CELL) for cell in records.cells(index)]
        budget -= sum(len(cell.encode(errors="replace")) + 3 for cell in row)
        if budget < 0:
            break
        cells.append(row)
    typical = None
    if len(audit.classes) * len(records.columns) <= _TYPICAL:
        typical = [[_typical(column, audit.index[kept]) for column in records.columns] for kept in _kept(audit)]
    return {"rows": len(cells), "names": list(records.names), "cells": cells, "typical": typical}


def _kept(audit: Audit) -> Iterable[Flags]:
    """For every class which labels are given to it and are not suspects."""
    return ((audit.labels == number) & ~audit.is_suspect for number in range(len(audit.classes)))


def _typical(column: Column, index: Ints) -> str:
    known = column.values[index][~column.missing[index]]
    if not len(known) or column.kind == "text":
        return ""
    if column.kind == "category":
        return str(min(Counter(known.tolist()).items(), key=lambda pair: (-pair[1], pair[0]))[0])
    if column.kind == "date":
        return str(np.sort(known)[len(known) // 2].astype("M8[D]"))
    if column.kind == "boolean":
        return f"{100 * known.mean():.0f} % true"
    mean = float(known.mean())
    return f"{mean:.0f}" if 1e4 <= abs(mean) < 1e15 else f"{mean:.4g}"  # 11850 and not 1.185e+04


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + " …"


def marked_texts(audit: Audit, records: Records, rows: Ints, budget: int) -> dict[str, Any]:
    """The first texts, as many as there is room for, each as pieces of which some are marked."""
    texts = records.texts()
    # By class in how many texts each word is, and the number of texts, of labels that are not suspects.
    counts, sizes = [Counter[str]() for _ in audit.classes], [0] * len(audit.classes)
    for row in np.flatnonzero(~audit.is_suspect).tolist():
        counts[audit.labels[row]].update({word.lower() for word in _WORD.findall(texts[audit.index[row]])})
        sizes[audit.labels[row]] += 1
    shown: list[list[Any]] = []
    for row in rows.tolist():
        text = texts[audit.index[row]]
        given = int(audit.labels[row])
        other = next((int(choice) for choice in audit.choices[row] if choice != given), given)
        weights = log_ratios(counts, sizes, {word.lower() for word in _WORD.findall(text)}, other, given)
        made = pieces(_cut(text, _LONGEST_TEXT), weights)
        budget -= sum(len(part.encode(errors="replace")) + 8 for _, part in made)
        if budget < 0:
            break
        shown.append([list(piece) for piece in made])
    return {"rows": len(shown), "pieces": shown}


def log_ratios(
    counts: Sequence[Counter[str]], sizes: Sequence[int], words: set[str], other: int, given: int
) -> dict[str, float]:
    """The logarithm of how much more frequent each word is in texts of the other class; one text is added to each.

    >>> counts, sizes = [Counter({"good": 3}), Counter({"bad": 2, "good": 1})], [4, 4]
    >>> {word: round(value, 2) for word, value in sorted(log_ratios(counts, sizes, {"good", "bad"}, 1, 0).items())}
    {'bad': 1.1, 'good': -0.69}
    """
    if other == given:
        return {}
    scale = np.log((sizes[given] + 2) / (sizes[other] + 2))
    return {word: float(np.log((counts[other][word] + 1) / (counts[given][word] + 1)) + scale) for word in words}


def pieces(text: str, weights: dict[str, float]) -> list[tuple[int, str]]:
    """The text in pieces: 1 speaks for the other class, -1 for the given one, 0 for neither.

    >>> pieces("Not good at all", {"not": 1.2, "good": -0.9, "at": 0.1})
    [(1, 'Not'), (0, ' '), (-1, 'good'), (0, ' at all')]
    """
    signs: dict[str, int] = {}
    for sign in (1, -1):
        chosen = sorted(
            (word for word in weights if sign * weights[word] >= _TWICE - 1e-9), key=lambda w: (-sign * weights[w], w)
        )
        signs |= dict.fromkeys(chosen[:_MARKED], sign)
    parts: list[tuple[int, str]] = []
    end = 0
    for match in _WORD.finditer(text):
        sign = signs.get(match[0].lower(), 0)
        if sign:
            parts += [(0, text[end : match.start()])] if end < match.start() else []
            parts.append((sign, match[0]))
            end = match.end()
    return [*parts, (0, text[end:])] if end < len(text) else parts


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
        files = LazyImages(inputs.root, [inputs.names[row] for row in index], size, inputs.channels, inputs.warp)
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
        scaled = [np.asarray(_picture(image).resize((size[1], size[0])), np.uint8) for image in images]
        images = np.stack(scaled).reshape(len(images), *size, -1)
    return np.ascontiguousarray(images), np.ones(len(index), bool)


def _picture(pixels: _Pixels) -> Image.Image:
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


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
    _picture(sheet).convert("RGB").save(buffer, "WEBP", **options)
    return buffer.getvalue()
