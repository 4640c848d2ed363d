"""Items of a data set that is indexed one at a time, as PyTorch's are, read once into one array."""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pyrite.checks import check_memory
from pyrite.data.dataset import Samples, channels_last
from pyrite.data.folders import common_size
from pyrite.data.images import header_of, to_pixels
from pyrite.data.records import Schema, listed, texts
from pyrite.data.statistics import beyond_whole, check_finite, check_resolution, to_features
from pyrite.errors import PyriteError

LABEL_KEYS: Final = ("label", "labels", "target", "targets", "class", "y")
_INPUT_KEYS: Final = ("image", "img", "pixel_values", "input", "inputs", "x", "features", "data", "text", "sentence")
_SIZED: Final = 100  # images that are looked at for a common size
_PROBED: Final = 16  # items after which generators are compared, to detect random transforms
RANDOM: Final = (
    "reading the items draws random numbers, as random transforms do: each item was read once, with a fixed seed; for "
    "images that vary in every epoch leave the transform out and set augment"
)


class Plain(NamedTuple):
    """An object without what is around it, such as a loader: a frame, an array, texts, or what is indexed one item at a
    time; and its labels, which are a column or key, the labels themselves, or numbers of ``classes``. None if they are
    not wanted or hidden."""

    data: Any
    label: Any = ""
    text: str = ""
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    name: str = ""
    key: str = ""  # the column or key of the labels, if they are in one


def read_items(items: Any, label: str = "", like: Schema | None = None) -> Samples:
    """Read every item once: an input, or an input and a label in a tuple or a dict.

    Args:
        items: what has a length and is indexed from 0.
        label: the key of the label, if items are dicts.
        like: what the training data looked like, if these are samples for a model.
    """
    count = _length(items)
    with _Seeded(items) as source:
        item = source[0]
        keys = _keys(item, label, labelled=like is None) if isinstance(item, Mapping) else None
        first, value = _split(item, keys, 0)
        inputs: Any = []
        place = None if isinstance(first, str) else _Place(source, count, keys, first, like)
        if place is not None:
            check_memory(count * place.nbytes, f"{count:,} items of shape {place.shape}")
            inputs = np.empty((count, *place.shape), place.dtype)
        labels: list[Any] | None = None if value is None else []
        for index in _shown(count):
            one, value = _split(source[index], keys, index)
            if place is None:
                inputs.append(one)
            else:
                inputs[index] = place.array(one, index)
            if labels is not None:
                labels.append(value)
    notes = (*(place.notes if place is not None else ()), *([RANDOM] if source.drew else []))
    if isinstance(inputs, list):
        inputs = texts(inputs, like=like)
    elif inputs.ndim == 2:
        inputs = to_features(inputs, "data")
        if place is not None:
            place.check_whole(beyond_whole(inputs))
    else:
        _check_images(inputs)
    return Samples(inputs, labels=labels, notes=notes)


def to_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Images as (N, C, H, W), in bytes or float32, and features as (N, F) in float64."""
    if np.ma.is_masked(values):
        raise PyriteError("data is a masked array with masked values: fill them, or leave those samples out")
    if values.dtype.kind not in "biuf":
        raise PyriteError(f"data is an array of {values.dtype}, but must hold numbers")
    if values.ndim == 2:
        return to_features(values, "data")
    shape, order = _layout(values.shape[1:], "data has samples")
    images = values.reshape(len(values), *shape) if order is None else values.transpose(0, *(1 + at for at in order))
    if values.dtype != np.uint8:
        images = images.astype(np.float32)
        _check_images(images)
    return np.ascontiguousarray(images)


def to_array(value: Any) -> Any:
    """A tensor or a series as an array; anything else as it is."""
    if hasattr(value, "to_numpy") and not hasattr(value, "columns"):
        return value.to_numpy()
    if not all(hasattr(value, name) for name in ("detach", "cpu", "numpy")):
        return value
    try:
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value).numpy()
    except (TypeError, RuntimeError) as error:  # sparse, nested, quantised, without data
        raise PyriteError(f"data is a tensor that numpy cannot hold: pass a dense one ({error})") from None


class _Seeded:
    """Items that are read with the same draws of the global generators each time, which are put back at the end."""

    def __init__(self, items: Any) -> None:
        self.items, self.drew = items, False

    def __enter__(self) -> Self:
        self.before = _states()
        return self

    def __exit__(self, *error: object) -> None:
        import torch

        random.setstate(self.before[0])
        np.random.set_state(self.before[1])  # noqa: NPY002  # what transforms draw from
        torch.set_rng_state(self.before[2])

    def __getitem__(self, index: int) -> Any:
        import torch

        random.seed(index)
        np.random.seed(index)  # noqa: NPY002
        torch.default_generator.manual_seed(index)
        seeded = _states() if index < _PROBED and not self.drew else None
        try:
            item = self.items[index]
        except Exception as error:  # code of the user, which may raise any
            raise PyriteError(f"item {index} of the data cannot be read: {type(error).__name__}: {error}") from error
        if seeded is not None:
            now = _states()
            self.drew = seeded[0] != now[0] or seeded[1][2] != now[1][2] or not torch.equal(seeded[2], now[2])
        return item


def _states() -> tuple[Any, Any, Any]:
    import torch

    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


class _Place:
    """Where the inputs of items go: the shape, the type, and how an item becomes an array of them."""

    def __init__(
        self, items: "_Seeded", count: int, keys: tuple[str, str | None] | None, first: Any, like: Schema | None
    ) -> None:
        self.notes: tuple[str, ...] = ()
        self.order: tuple[int, ...] | None = None
        self.large = list[npt.NDArray[Any]]()  # whole numbers that float64 may round
        self.picture, self.warp = is_picture(first), like is not None and like.warp
        self.dtype = np.dtype(np.uint8)
        if self.picture:
            self.shape = (3, 1, 1) if like is None else tuple(like.shape)
            if like is None:
                self._choose_size(items, count, keys)
            elif like.kind != "images" or like.dtype != "uint8":
                raise PyriteError(f"the items are pictures, but the model was trained on {described(like)}")
        else:
            array = _as_numbers(first, 0)
            self.given, self.dtype = array.shape, _final(array)
            flat = array.ndim == 1
            self.shape, self.order = (array.shape, None) if flat else _layout(array.shape, "items are arrays")
            if like is not None:
                check_like((1, *self.shape), self.dtype, like, "item 0")
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize

    def array(self, value: Any, index: int) -> npt.NDArray[Any]:
        """The array of one item."""
        if self.picture != is_picture(value):
            raise PyriteError(f"item {index} is a {type(value).__name__}, but item 0 is of another type")
        if self.picture:
            return to_pixels(value, (self.shape[1], self.shape[2]), self.shape[0], self.warp)
        array = _as_numbers(value, index)
        if array.shape != self.given:
            raise PyriteError(
                f"item {index} has the shape {array.shape}, but item 0 has {self.given}: use one shape for all, "
                "for example with the transform Resize"
            )
        if array.ndim == 1 and array.dtype.kind in "iu" and (np.abs(array.astype(np.float64)) > 2.0**53).any():
            self.large.append(array.astype(object))
        if _final(array) != self.dtype:
            raise PyriteError(f"item {index} holds {array.dtype}, but item 0 holds {self.dtype}: use one type for all")
        return array.reshape(self.shape) if self.order is None else array.transpose(self.order)

    def check_whole(self, columns: Sequence[int]) -> None:
        """Raise PyriteError if float64 does not distinguish the whole numbers of these columns."""
        for column in columns if self.large else ():
            exact = [array[column] for array in self.large]
            check_resolution(min(exact), max(exact), f"data, number {column} of each item")

    def _choose_size(self, items: "_Seeded", count: int, keys: tuple[str, str | None] | None) -> None:
        headers = []
        for index in np.linspace(0, count - 1, min(count, _SIZED)).astype(int).tolist():
            one = _split(items[index], keys, index)[0]
            if is_picture(one):
                headers.append(header_of(one))
        size = common_size(headers)
        self.shape = (1 if all(header.grey for header in headers) else 3, *size)
        if {(header.height, header.width) for header in headers} != {size}:
            self.notes = (f"images are scaled to cover {size[1]} x {size[0]} pixels and cropped in the middle",)


def check_like(shape: Sequence[int], dtype: np.dtype[Any], like: Schema, what: str) -> None:
    """Raise PyriteError for samples of another shape or type than a model was trained on."""
    if not shape[0]:
        raise PyriteError(f"{what} has no samples")
    if tuple(shape[1:]) != tuple(like.shape):
        raise PyriteError(f"{what} has samples of shape {tuple(shape[1:])}, but the model expects {tuple(like.shape)}")
    if like.dtype and dtype.name != like.dtype:
        raise PyriteError(
            f"{what} has images of {dtype.name}, but the model was trained on {described(like)}: prepare them in the "
            "same way, with the same transform"
        )


def described(like: Schema) -> str:
    """What a model was trained on, in words."""
    if like.kind != "images":
        return {"numbers": f"{like.shape[0]} numbers per sample", "text": "texts"}.get(
            like.kind, f"a table with the columns {listed(like.columns)}"
        )
    numbers = "bytes from 0 to 255 (uint8)" if like.dtype == "uint8" else "floating-point numbers of another scale"
    return f"images of {numbers}"


def is_picture(value: object) -> bool:
    """Whether it is an image of Pillow."""
    return all(hasattr(value, name) for name in ("mode", "width", "height", "convert"))


def _length(items: Any) -> int:
    try:
        count = len(items)
    except TypeError:
        raise PyriteError(
            f"data is a {type(items).__name__} without a length: give it __len__ and __getitem__, or pass (X, y)"
        ) from None
    if not count:
        raise PyriteError(f"data is an empty {type(items).__name__}: there is nothing to learn from")
    return int(count)


def _keys(item: Mapping[str, Any], label: str, labelled: bool) -> tuple[str, str | None]:
    """The keys of the input and, if there is one, of the label in a dict."""
    if label and label not in item and labelled:
        raise PyriteError(f"items have no key {label!r}; there are {listed(item)}")
    found = [label] if label in item else [key for key in LABEL_KEYS if key in item]
    rest = [key for key in item if key not in found[:1]]
    usual = [key for key in _INPUT_KEYS if key in rest]
    if len(rest) != 1 and len(usual) != 1:
        raise PyriteError(
            f"items are dicts with the keys {listed(item)}, but one must be the label and one the input: name the "
            "label with label, and omit the other keys"
        )
    return rest[0] if len(rest) == 1 else usual[0], found[0] if found else None


def _split(item: Any, keys: tuple[str, str | None] | None, index: int) -> tuple[Any, Any]:
    """The input and the label of an item; None if there is no label."""
    if keys is not None:
        if not isinstance(item, Mapping) or any(key not in item for key in keys if key is not None):
            raise PyriteError(f"item {index} has no {' and '.join(repr(key) for key in keys if key)}, as item 0 has")
        return item[keys[0]], None if keys[1] is None else item[keys[1]]
    if isinstance(item, list) and len(item) == 2 and np.ndim(item[0]) and not np.ndim(item[1]):
        item = tuple(item)
    if not isinstance(item, tuple):
        return item, None
    if len(item) not in (1, 2):
        raise PyriteError(
            f"item {index} has {len(item)} parts, but must be (input, label): wrap the data in a Dataset whose items "
            "are such pairs"
        )
    return item[0], item[1] if len(item) == 2 else None


def _as_numbers(value: Any, index: int) -> npt.NDArray[Any]:
    array = np.asarray(to_array(value)) if not isinstance(value, str | Mapping) else np.asarray(None)
    if np.ma.is_masked(value):
        raise PyriteError(f"item {index} is a masked array with masked values: fill them, or leave the item out")
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise PyriteError(
            f"item {index} is a {type(value).__name__}, but an input must be an image, an array or tensor of one or "
            "more dimensions, or a text"
        )
    return array


def _final(array: npt.NDArray[Any]) -> np.dtype[Any]:
    """Features are float64; images are bytes, or floating-point numbers."""
    if array.ndim == 1:
        return np.dtype(np.float64)
    return np.dtype(np.uint8 if array.dtype == np.uint8 else np.float32)


def _layout(shape: tuple[int, ...], what: str) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shape (C, H, W) of an image of this shape, and the order of its axes if they change."""
    if len(shape) == 2:
        return (1, *shape), None
    if len(shape) != 3:
        advice = "reshape(-1, 1)" if not shape else "flatten(1), or reshape them"
        raise PyriteError(
            f"{what} of shape {shape}: features are (F,), images are (H, W), (C, H, W) or (H, W, C); use {advice}"
        )
    if channels_last((1, *shape)):
        return (shape[2], shape[0], shape[1]), (2, 0, 1)
    return shape, None


def _check_images(images: npt.NDArray[Any]) -> None:
    if images.dtype != np.uint8:
        check_finite(images.reshape(len(images), -1), lambda row, column: f"data, image {row}, value {column}")


def _shown(count: int) -> Iterable[int]:
    """The numbers of items, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    hidden = not console.is_terminal or os.environ.get("RANK", "0") != "0"
    return track(range(count), "reading items", console=console, transient=True, disable=hidden)
