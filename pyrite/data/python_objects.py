"""Data that are passed in Python: frames, arrays and tensors, lists, and the data sets of PyTorch and Hugging Face.

``make_plain`` takes away what is around an object, such as a loader. ``find`` reads the samples of what is left.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from pyrite.arrays import check_below
from pyrite.data.annotations import Targets, annotation_cells, are_several, to_targets
from pyrite.data.dataset import Dataset, Labels, Samples, check_names, describe, encode, encode_like
from pyrite.data.folders import image_files
from pyrite.data.hub import is_hub, read_hub
from pyrite.data.items import Plain, check_like, described, is_picture, read_items, to_array, to_numbers
from pyrite.data.records import Records, Schema, texts
from pyrite.data.table import Roles, as_groups, read_columns, read_table
from pyrite.data.tables import check_order, frame_table, is_frame
from pyrite.data.torch_objects import (
    base_of,
    class_names,
    is_files,
    is_tensor,
    is_torch,
    loader_notes,
    refuse_streams,
)
from pyrite.errors import PyriteError

_TESTS: Final = ("test", "validation", "valid", "val", "dev", "eval")  # parts of a dict; the first is tested on


class Indexed(Protocol):
    """A map-style data set, as PyTorch's and Hugging Face's are, or a loader of one."""

    def __len__(self) -> int: ...


class Labelled(NamedTuple):
    """Samples and their labels."""

    data: Any
    labels: Any


def is_object(data: object) -> bool:
    """Whether ``load`` takes it for samples, and not for a name or a path."""
    if data is None or isinstance(data, str | bytes | os.PathLike | Dataset | Records | type):
        return False
    return is_frame(data) or any(hasattr(data, name) for name in ("__getitem__", "__iter__"))


def is_collection(data: object) -> bool:
    """Whether it is a tensor, a data set of PyTorch or Hugging Face, a loader, a list of their items, or ``(X, y)``."""
    if isinstance(data, list):
        return bool(data) and (isinstance(data[0], tuple | Mapping) or is_tensor(data[0]) or is_picture(data[0]))
    of_torch = is_tensor(data) or is_torch(data, "Dataset", "DataLoader")
    parts = isinstance(data, Mapping) and not hasattr(data, "toarray")  # a sparse matrix may be a dict
    return of_torch or parts or is_hub(data) or _is_pair(data) or is_files(data)


def has_labels(data: object) -> bool:
    """Whether an object has labels of its own, or may have a column of them."""
    if isinstance(data, list):
        return bool(data) and isinstance(data[0], tuple | Mapping)
    return is_frame(data) or (is_collection(data) and not is_tensor(data))


def with_labels(data: Any, labels: Any) -> Labelled:
    """Samples with their labels, which ``load`` reads."""
    if not is_object(data) or isinstance(data, Mapping) or _is_pair(data):
        shown = repr(str(data)) if isinstance(data, str | os.PathLike) else f"a {type(data).__name__}"
        raise PyriteError(f"labels are given, but data is {shown}, which has its own: leave out the labels")
    return Labelled(data, labels)


def load_object(data: Any, label: Any = "", text: str = "", group: Any = "", **columns: str) -> Dataset:
    """A data set from an object. ``label`` is the column or key of the labels, or the labels themselves; with several
    annotators their columns, or one column for each. ``csv`` explains the rest."""
    if not isinstance(group, str):
        check_order(data, group, "group")
        made = load_object(data, label, text, **columns)
        return replace(made, groups=as_groups(to_array(group), "group"))
    roles = Roles(text=text, group=group, **columns)
    if isinstance(data, Mapping):
        return _load_parts(data, label, roles)
    named = [str(value) for option, value in vars(roles).items() if option not in ("label", "text")]
    plain = make_plain(
        data, label, text, taken={part.strip() for value in named for part in (value, *value.split(","))}
    )
    check_order(plain.data, plain.label, "label")
    if is_frame(plain.data):
        return _load_frame(plain, replace(roles, text=plain.text))
    if given := [option for option, value in vars(roles).items() if value]:
        kind = type(plain.data).__name__
        raise PyriteError(f"data is a {kind}, whose samples are not rows of a table: leave out {' and '.join(given)}")
    found = find(plain)
    if found.labels is None:
        raise PyriteError("label is missing: pass the labels of the samples, one per sample")
    targets = _to_targets(found.labels, len(found.inputs), plain)
    name = plain.name or ("texts" if isinstance(found.inputs, Records) else "arrays")
    return Dataset(
        name, found.inputs, targets.labels, targets.classes, paths=found.names, label=plain.key,
        unreadable=found.unreadable, notes=(*plain.notes, *found.notes), annotations=targets.annotations,
    )  # fmt: skip


def _load_frame(plain: Plain, roles: Roles) -> Dataset:
    table, label = frame_table(plain.data, plain.name or "the frame"), plain.label
    several = isinstance(label, list | tuple) and 1 < len(label) <= len(table.names)
    if isinstance(label, str) or (several and {*map(str, label)} <= {*table.names}):
        made = read_table(table, replace(roles, label=label), classes=plain.classes)
    else:
        made = read_table(table, roles, targets=_to_targets(label, len(table), plain))
    return replace(made, notes=(*plain.notes, *made.notes))


def make_plain(
    data: Any, label: Any = "", text: str = "", like: Schema | None = None, taken: Collection[str] = ()
) -> Plain:
    """An object without loaders and pairs around it, and what the labels of its samples are; columns that are
    ``taken`` are not learned from."""
    notes: tuple[str, ...] = ()
    if isinstance(data, Mapping) and data:
        kind, parts = type(data).__name__, list(map(repr, data))
        raise PyriteError(f"data is a {kind} with the parts {', '.join(parts)}: pass one, as data[{parts[0]}]")
    if _is_pair(data):
        if label is not None and not (isinstance(label, str) and label == ""):
            raise PyriteError("the labels are given twice: in (X, y), and as label")
        data, label = data
    if is_torch(data, "DataLoader"):
        notes, data = loader_notes(data), data.dataset
    if is_hub(data):
        plain = read_hub(data, label, text, like, taken)
        return plain._replace(notes=(*notes, *plain.notes))
    refuse_streams(data)
    base, _ = base_of(data)
    collection = is_collection(data) and not isinstance(data, list) and not is_tensor(data)
    name = type(base).__name__ if collection else ""
    classes = class_names(base) if isinstance(label, str) or label is None else ()
    return Plain(to_array(data), label, text, classes, notes, name, label if isinstance(label, str) else "")


def find(plain: Plain, like: Schema | None = None, name: str = "") -> Samples:
    """The samples of an object, with their labels; ``like`` as for ``read_items``, and then of a frame too, in which
    the column ``name`` names a sample."""
    data = plain.data
    if is_frame(data):
        assert like is not None
        return read_columns(frame_table(data, plain.name or "the frame"), like, name, plain.label is not None)
    base, rows = base_of(data)
    if is_files(base) and (like is None or like.dtype == "uint8"):
        found = _from_files(base, rows, like)
    elif isinstance(data, np.ndarray) and data.dtype.kind not in "OUT":
        found = Samples(to_numbers(data))
    elif is_torch(data, "TensorDataset") and type(data).__name__ == "TensorDataset":
        if len(data.tensors) > 2:
            raise PyriteError(f"data has {len(data.tensors)} tensors, but must have two: pass TensorDataset(X, y)")
        inputs, *labels = map(to_array, data.tensors)
        found = Samples(to_numbers(inputs), labels=labels[0] if labels else None)
    elif isinstance(data, np.ndarray) or (isinstance(data, list | tuple) and data and isinstance(data[0], str)):
        found = Samples(texts(list(data), like=like))
    else:
        key = plain.label if isinstance(plain.label, str) else like.label if like is not None else ""
        found = read_items(data, key, like)
    if like is not None and isinstance(found.inputs, Records) != (like.kind == "text"):
        raise PyriteError(f"data is a {type(data).__name__}, but the model was trained on {described(like)}")
    if like is not None and not isinstance(found.inputs, Records):
        check_like(found.inputs.shape, found.inputs.dtype, like, "data")
    return found if isinstance(plain.label, str) else found._replace(labels=plain.label)


def _to_targets(labels: Any, count: int, plain: Plain) -> Targets:
    """Class numbers of labels that are anything, by the classes of the data set if it has any."""
    if not isinstance(plain.label, str) and are_several(labels):
        cells, names = annotation_cells(to_array(labels))
        if len(cells) != count:
            raise PyriteError(f"label has {len(cells)} rows of labels, but there are {count} samples")
        return to_targets(cells, names, "label")
    values = label_values(labels, count)
    if not plain.classes:
        return Targets(*encode(values, "label"))
    check_names(plain.classes, "the classes of the data")
    return Targets(_by_classes(values, plain.classes, "label"), plain.classes)


def _by_classes(values: list[Any], classes: tuple[str, ...], what: str) -> Labels:
    """Class numbers of labels that are class numbers already, or names of classes."""
    if any(isinstance(value, str) for value in values):
        return encode_like(values, classes, what)
    check_below(labels := np.asarray(values), len(classes), what)
    return labels.astype(np.int64)


def label_values(labels: Any, count: int) -> list[Any]:
    """Labels as whole numbers or texts, one per sample."""
    if np.ma.is_masked(labels):
        raise PyriteError("label is a masked array with masked values: leave those samples out")
    if not hasattr(labels, "__len__"):
        raise PyriteError(f"label is a {type(labels).__name__}, which has no length: pass list(label)")
    if isinstance(labels, list | tuple):
        labels = [to_array(value) for value in labels]
    try:
        array = np.asarray(to_array(labels))
    except ValueError:
        raise PyriteError("label holds values of several shapes, but must hold one number or text per sample") from None
    if len(labels) != count:
        raise PyriteError(f"label has {len(labels)} labels, but there are {count} samples")
    if array.ndim != 1:
        raise PyriteError(
            f"label has the shape {array.shape}, but must hold one number or text per sample: argmax(1) makes numbers "
            "of one-hot rows"
        )
    if array.dtype.kind == "f" and np.isfinite(array).all():
        if (array % 1).any():
            index = int((array % 1 != 0).argmax())
            raise PyriteError(
                f"label is {array[index]} at index {index}, but labels are classes: put the numbers into ranges first"
            )
        array = array.astype(np.int64) if (np.abs(array) < 2.0**63).all() else array.astype(object)
    if array.dtype.kind == "S":
        raise PyriteError("label holds bytes, not texts: decode them, as in np.char.decode(label)")
    values: list[Any] = array.tolist() if array.dtype.kind != "U" else list(map(str, labels))
    return values


def _load_parts(data: Mapping[str, Any], label: Any, roles: Roles) -> Dataset:
    """The training part of a dict of parts, with the test part and the validation part."""
    if not data or not all(is_object(part) and not _is_column(part) for part in data.values()):
        raise PyriteError(
            f"data is a {type(data).__name__} with the keys {', '.join(map(repr, data))}, but must have the data set "
            "'train' and maybe 'test': pass (X, y), or pandas.DataFrame(data)"
        )
    main = next(iter(data)) if len(data) == 1 else "train"
    if main not in data:
        first = next(iter(data))
        raise PyriteError(
            f"data has the parts {', '.join(map(repr, data))}, but not 'train': pass one, as data[{first!r}]"
        )
    train = load_object(data[main], **vars(roles) | {"label": label})
    keys = [key for key in _TESTS if key in data and key != main]
    read = {key: _read_part(data[key], train, label if isinstance(label, str) else "", key) for key in keys[:2]}
    notes = [f"the part {key!r} has no labels, and is left out" for key, part in read.items() if part is None]
    rest = [key for key in data if key != main and key not in read]
    notes += [f"parts of the data that are not read: {', '.join(map(repr, rest))}"] if rest else []
    test, validation, *_ = *(part for part in read.values() if part is not None), None, None
    return replace(train, test=test, validation=validation, notes=(*train.notes, *notes))


def _read_part(data: Any, train: Dataset, label: str, key: str) -> Dataset | None:
    """Another part of a data set, read as the training part was; None if its labels are hidden."""
    like, what = Schema(**describe(train)), f"label of the part {key!r}"
    plain = make_plain(data, label, like=like)
    if plain.label is None:
        return None
    found = find(plain, like)
    if found.labels is None:
        raise PyriteError(f"the part {key!r} of the data has no labels: leave it out")
    values = label_values(found.labels, len(found.inputs))
    if plain.classes and not any(isinstance(value, str) for value in values):  # its own, maybe in another order
        check_below(np.asarray(values), len(plain.classes), what)
        values = [plain.classes[int(value)] for value in values]
    labels = encode_like(values, train.classes, what)
    return Dataset(f"{train.name} {key}", found.inputs, labels, train.classes, paths=found.names)


def _is_column(value: object) -> bool:
    """Whether a value of a dict looks like a column or an array, and not like a data set."""
    return isinstance(value, np.ndarray) or is_tensor(value) or (isinstance(value, list) and not has_labels(value))


def _is_pair(data: object) -> bool:
    """Whether it is ``(X, y)``, and not two texts or two rows of numbers."""
    if isinstance(data, Labelled):
        return True
    if not isinstance(data, tuple) or len(data) != 2 or any(isinstance(part, str) for part in data):
        return False
    first, second = data
    if isinstance(first, list | tuple):
        return len(first) > 0 and not isinstance(first[0], int | float | np.number) and is_object(second)
    return is_object(first) and is_object(second)


def _from_files(data: Any, rows: Labels | None, like: Schema | None) -> Samples:
    """The image files of an ``ImageFolder``; large sets are read when they are used."""
    chosen = data.samples if rows is None else [data.samples[row] for row in rows.tolist()]
    root = Path(getattr(data, "root", "") or os.path.commonpath([os.path.dirname(path) for path, _ in chosen]))
    names, change = [os.path.relpath(path, root) for path, _ in chosen], getattr(data, "target_transform", None)
    labels = np.array([label if change is None else to_array(change(label)) for _, label in chosen])
    shape, warp = (None, False) if like is None else (like.shape, like.warp)
    found = image_files(root, names, labels, shape, warp=warp)
    note = (
        "the images are read from their files, without the transform of the data set; a list of its items, "
        "[data[i] for i in range(len(data))], has it"
    )
    has_transform = getattr(data, "transform", None) is not None
    return found._replace(notes=(note,) if has_transform else ())
