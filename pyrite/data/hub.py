"""Data sets of the package ``datasets`` of Hugging Face: which columns are inputs and labels."""

from typing import Any, Final, NamedTuple

import numpy as np

from pyrite.data.items import LABEL_KEYS
from pyrite.data.records import Schema, listed
from pyrite.data.tables import frame_table
from pyrite.errors import PyriteError

_STREAMING: Final = (
    "data is a streaming data set, whose items have neither number nor index: pass load_dataset(..., streaming=False), "
    "or a part of it, datasets.Dataset.from_list(list(data.take(10_000)), features=data.features)"
)


class Hub(NamedTuple):
    """A frame, an array, or a sequence of images or dicts, with its labels and their names."""

    data: Any
    label: Any
    text: str
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    name: str
    key: str  # the column of the labels


class _Column:
    """One column, decoded one item at a time."""

    def __init__(self, data: Any, name: str) -> None:
        self.data, self.name = data.select_columns([name]), name

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.data[index][self.name]


def is_hub(data: object) -> bool:
    """Whether it is a data set of the package ``datasets``, streaming or not."""
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "features")


def read_hub(data: Any, label: Any, text: str, like: Schema | None) -> Hub:
    """The columns that are inputs and labels. ``label`` and ``text`` name them, or are guessed by their features;
    ``like`` is given for samples of a model, and ``label`` is None if their labels are not wanted."""
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise PyriteError(_STREAMING)
    name = str(getattr(data.info, "dataset_name", None) or "Dataset")
    if data.format["type"] == "custom":  # set_transform: the user's own items
        key = label if isinstance(label, str) else ""
        names = _names(data, key or _guess_label(data.features, needed=False)) if isinstance(label, str) else ()
        return Hub(data, label, "", names, (), name, key)
    data = data.with_format(None)
    kinds = {column: _kind(feature) for column, feature in data.features.items()}
    wanted = label is not None
    if label is None or isinstance(label, str):
        label = label or (like.label if like is not None and like.label in kinds else "")
        label = label or _guess_label(data.features, like is None)
        if label and label not in kinds:
            raise PyriteError(f"data has no column {label!r}; there are {listed(kinds)}")
    classes, key = _names(data, label), label if isinstance(label, str) else ""
    values = None if not wanted else _checked_numbers(data, label, like) if classes else label
    inputs = [column for column in kinds if not isinstance(label, str) or column != label]
    images = [column for column in inputs if kinds[column] == "image"]
    if images and not text:
        if len(images) > 1:
            raise PyriteError(f"data has the images {listed(images)}: leave one, with data.remove_columns([...])")
        notes = _left_out(inputs, images, kinds, f"the images in the column {images[0]!r} are learned from")
        values = list(data[label]) if isinstance(values, str) and values else values
        return Hub(_Column(data, images[0]), values, "", classes, notes, name, key)
    arrays = [column for column in inputs if kinds[column] == "array"]
    scalars = [column for column in inputs if kinds[column] in ("text", "scalar")]
    if len(arrays) == 1 and not any(kinds[column] == "text" for column in scalars) and not text:
        notes = _left_out(inputs, arrays, kinds, f"the numbers in the column {arrays[0]!r} are learned from")
        values = list(data[label]) if isinstance(values, str) and values else values
        return Hub(_as_array(data, arrays[0]), values, "", classes, notes, name, key)
    if not scalars:
        raise PyriteError(
            f"data has the columns {listed(inputs)}, of which none holds images, texts, or as many numbers in every "
            "row: add one with data.map"
        )
    return _as_frame(data, label, values, text, classes, scalars, [c for c in inputs if c not in scalars], like, name)


def _as_frame(
    data: Any, label: Any, values: Any, text: str, classes: tuple[str, ...], scalars: list[str], rest: list[str],
    like: Schema | None, name: str,
) -> Hub:  # fmt: skip
    """The columns of texts, numbers and truth values as a pandas frame, with class names in place of numbers."""
    notes = [f"the columns {listed(rest)} are left out: they hold neither numbers nor texts"] if rest else []
    own = [label] if isinstance(label, str) and label else []
    frame = data.select_columns([*scalars, *own]).to_pandas()
    if classes and values is not None:
        frame[label] = np.array(classes, object)[values]
    columns = [column for column in scalars if _kind(data.features[column]) == "text"]
    only = columns[0] if len(columns) == 1 and len(scalars) > 1 and like is None and not text else ""
    if only and frame_table(frame).column(only).kind == "text":
        text, others = only, [column for column in scalars if column != only]
        notes.append(
            f"the texts in the column {text!r} are learned from, and {listed(others)} left out; data.to_pandas() has "
            "all columns"
        )
    return Hub(
        frame, None if classes and values is None else label, text, classes, tuple(notes), name, label if own else ""
    )


def _guess_label(features: Any, needed: bool) -> str:
    """The only column of classes, or the one that is called so."""
    classes = [column for column, feature in features.items() if type(feature).__name__ == "ClassLabel"]
    called = [column for column in features if column.lower() in LABEL_KEYS]
    for found in (classes, [column for column in classes if column in called], called):
        if len(found) == 1:
            return str(found[0])
    if not needed:
        return ""
    raise PyriteError(f"data has the columns {listed(features)}: name the one with the labels, as in label='...'")


def _names(data: Any, label: Any) -> tuple[str, ...]:
    """The names of the classes, if a column has them."""
    feature: Any = data.features.get(label) if isinstance(label, str) else None
    return tuple(map(str, feature.names)) if type(feature).__name__ == "ClassLabel" else ()


def _checked_numbers(data: Any, label: str, like: Schema | None) -> Any:
    """The class numbers; None if all are missing in a part that is not trained on."""
    numbers = np.asarray(data.select_columns([label]).to_pandas()[label].fillna(-1), np.int64)
    if like is not None and (numbers < 0).all():
        return None
    if (numbers < 0).any():
        index = int((numbers < 0).argmax())
        raise PyriteError(
            f"the label at index {index} is missing ({numbers[index]}): pass data.filter(lambda row: "
            f"row[{label!r}] >= 0)"
        )
    return numbers


def _kind(feature: Any) -> str:
    """Whether a column holds images, texts, single numbers, or many of them."""
    name = type(feature).__name__
    if name == "Image":
        return "image"
    if name in ("Sequence", "List", "LargeList", "Array2D", "Array3D", "Array4D"):
        return "array"
    if name == "ClassLabel":
        return "scalar"
    if name != "Value":
        return "other"
    return "text" if feature.dtype in ("string", "large_string", "string_view") else "scalar"


def _as_array(data: Any, column: str) -> Any:
    inner = data.features[column]
    while hasattr(inner, "feature"):
        inner = inner.feature
    try:  # without its type, numbers would become float32
        rows = data.select_columns([column]).with_format("numpy", dtype=np.dtype(inner.dtype))
        array = np.asarray(rows[:][column])
    except (ValueError, TypeError, AttributeError):
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise PyriteError(f"the lists in the column {column!r} are not numbers of one length: average them first")
    return array


def _left_out(inputs: list[str], used: list[str], kinds: dict[str, str], said: str) -> tuple[str, ...]:
    rest = [column for column in inputs if column not in used]
    return (f"{said}, and {listed(rest)} left out",) if rest else ()
