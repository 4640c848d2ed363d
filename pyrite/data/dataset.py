"""``Dataset``, a data set in memory: inputs, labels, class names and further information."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import check_below
from pyrite.data.copies import copy_groups, joined_groups, repeats
from pyrite.data.images import LazyImages, Unreadable
from pyrite.data.records import Kind, Records, Schema, kind_of
from pyrite.errors import PyriteError

if TYPE_CHECKING:  # which imports this file
    from pyrite.data.annotations import Annotations
    from pyrite.data.column_reading import ColumnReading

Labels = npt.NDArray[np.int64]

# "NA" and "none" are not included: they may be classes, such as the country code of Namibia.
_MISSING = frozenset(("nan", "NaN", "NAN", "-nan", "null", "NULL", "<NA>", "NaT", "#N/A"))
_DECIMAL = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]*)?")
Numeric = npt.NDArray[Any] | LazyImages
"""What a net can be trained on."""
Inputs = Numeric | Records
"""What a data set may have; ``pyrite.features`` turns records into numbers."""


class Samples(NamedTuple):
    """Samples as they are read: the file or the name of each, if they have one, files that are left out, labels of
    any type, if there are any, and sentences about how they were read."""

    inputs: Inputs
    names: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    labels: Any = None
    notes: tuple[str, ...] = ()


class Tracklets(NamedTuple):
    """Runs of frames of one person in one camera: frames ``start[i]`` up to, not including, ``stop[i]``.

    ``identity`` is the official number of the person: 0 is a distractor, -1 is junk that an evaluation ignores.
    ``query`` holds the indices of the query tracklets; all others are the gallery.
    """

    start: Labels
    stop: Labels
    identity: Labels
    camera: Labels
    query: Labels


@final
@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set: ``inputs[i]`` has the label ``labels[i]``, an index into ``classes``.

    Inputs are images of shape (N, C, H, W), uint8 from 0 to 255 or float32 of any scale; features of shape (N, F),
    float32 or float64; or ``Records``, which are columns of a table or texts. Large image sets are read lazily.
    Attributes that do not apply to a data set are empty or None.

    Attributes:
        name: the name of the data set.
        inputs: the samples.
        labels: the given labels of the samples.
        classes: the names of the classes.
        test: the official test part.
        unreadable: images that could not be read and were left out, with the reason.
        true: the true labels, if ``labels`` are known to be noisy. Observers have access to them; methods do not.
        coarse: the superclass of each sample.
        coarse_classes: the names of the superclasses.
        human: the columns of human labels by name, in the order of the images.
        clean: a part of the training data whose labels were checked by hand.
        validation: the official validation part.
        tracklets: the frames that belong together.
        paths: the file of each sample, relative to the data folder, or its name in a column, as text that can be
            encoded in UTF-8.
        columns: the names of the features.
        groups: the group number of each sample, such as its patient. Whole groups are held out.
        label: the name of the label column.
        schema: how the samples of a table were read.
        notes: how the data were read, for example which column contains the labels.
        annotations: the labels of several annotators; ``labels`` then contains the most frequent label of each sample.
        reading: how each column of a table was read, or why it was left out.

    >>> Dataset("mine", np.zeros((4, 2)), np.array([0, 1, 0, 1]), ("cat", "dog"))
    <mine: 4 features of 2, 2 classes>
    """

    name: str
    inputs: Inputs
    labels: Labels
    classes: tuple[str, ...]
    test: "Dataset | None" = None
    unreadable: tuple[Unreadable, ...] = ()
    true: Labels | None = None
    coarse: Labels | None = None
    coarse_classes: tuple[str, ...] = ()
    human: Mapping[str, Labels] = field(default_factory=dict)
    clean: "Dataset | None" = None
    validation: "Dataset | None" = None
    tracklets: Tracklets | None = None
    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    groups: Labels | None = None
    label: str = ""
    schema: Schema | None = None
    notes: tuple[str, ...] = ()
    annotations: "Annotations | None" = None
    reading: "tuple[ColumnReading, ...]" = ()

    def __post_init__(self) -> None:
        if np.ma.is_masked(self.labels):
            raise PyriteError(
                f"the labels of {self.name} are a masked array with masked values: leave those samples out"
            )
        if not (isinstance(self.labels, np.ndarray) and self.labels.dtype == np.int64 and self.labels.ndim == 1):
            raise PyriteError(f"the labels of {self.name} are not a list of int64 class numbers")
        if len(self.inputs) != len(self.labels):
            raise PyriteError(f"{self.name} has {len(self.inputs)} inputs but {len(self.labels)} labels")
        if not len(self.labels):
            raise PyriteError(f"{self.name} holds no samples")
        if isinstance(self.inputs, np.ndarray):
            check_inputs(self.inputs, f"the inputs of {self.name}")
        for column, values in (("labels", self.labels), ("true", self.true)):
            if values is not None:
                check_below(values, len(self.classes), f"{column} of {self.name}")
        if self.annotations is not None:
            if len(self.annotations.labels) != len(self.labels):
                raise PyriteError(
                    f"{self.name} has {len(self.labels)} samples, but annotators label {len(self.annotations.labels)}"
                )
            check_below(self.annotations.labels.max(1), len(self.classes), f"annotations of {self.name}")
        if self.groups is not None and self.groups.shape != self.labels.shape:
            raise PyriteError(f"{self.name} has {len(self.labels)} samples but {len(self.groups)} groups")
        names = self.inputs.names if isinstance(self.inputs, LazyImages) else self.paths
        if len(names) not in (0, len(self.labels)):
            raise PyriteError(f"{self.name} has {len(self.labels)} samples but {len(names)} paths")
        # File and folder names may contain bytes that are not UTF-8, which Python represents as lone surrogates.
        columns = self.inputs.names if isinstance(self.inputs, Records) else self.columns
        if columns and (self.inputs.ndim != 2 or len(columns) != self.inputs.shape[1]):
            raise PyriteError(f"{self.name} has inputs of shape {self.inputs.shape} but {len(columns)} columns")
        for part, texts in (("paths", names), ("classes", self.classes), ("columns", columns)):
            plain = tuple(text.encode("utf-8", "backslashreplace").decode() for text in texts)
            object.__setattr__(self, part, plain)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def copies(self) -> Labels:
        """Group numbers that are equal for copies and near copies of a sample."""
        return copy_groups(self.inputs)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """The notes, and warnings about training samples in other parts."""
        return (*self.notes, *repeats(self))

    @cached_property
    def kept_together(self) -> Labels:
        """Group numbers that are equal for samples that must stay in one part: copies, near copies and groups."""
        return self.copies if self.groups is None else joined_groups(self.copies, self.groups)

    @property
    def numeric(self) -> Numeric:
        """The inputs, if a net can be trained on them directly."""
        if isinstance(self.inputs, Records):
            raise PyriteError(f"the inputs of {self.name} are {self.inputs!r}: turn them into numbers with features")
        return self.inputs

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.inputs.shape[1:]))
        if isinstance(self.inputs, Records):
            kind = "texts" if self.inputs.is_text else f"records of {shape} columns"
        else:
            kind = f"{'features' if self.inputs.ndim == 2 else 'images'} of {shape}"
        parts = [f"{len(self)} {kind}", f"{len(self.classes)} classes"]
        parts += [f"{len(self.test)} for testing"] if self.test is not None else []
        parts += [f"{len(self.unreadable)} unreadable"] if self.unreadable else []
        return f"<{self.name}: {', '.join(parts)}>"


def describe(data: Dataset) -> dict[str, Any]:
    """How the samples of a data set look, ready for JSON: what ``read_like`` needs to read others."""
    inputs, schema = data.inputs, data.schema
    if schema is None:
        columns: dict[str, Kind]
        columns, dtype = dict.fromkeys(data.columns, "number"), ""
        if isinstance(inputs, Records):
            columns = dict(zip(inputs.names, inputs.kinds, strict=True))
        elif inputs.ndim == 4:
            dtype = str(inputs.dtype)
        warp = isinstance(inputs, LazyImages) and inputs.warp
        schema = Schema(kind_of(inputs), inputs.shape[1:], columns, data.label, dtype=dtype, warp=warp)
    return asdict(schema) | {"shape": list(schema.shape)}


def check_inputs(inputs: object, what: str) -> None:
    """Raise ValueError unless the inputs are images or features."""
    if isinstance(inputs, np.ma.MaskedArray) and np.ma.is_masked(inputs):
        raise PyriteError(f"{what} are a masked array with masked values: fill them, or leave those samples out")
    if not isinstance(inputs, np.ndarray):
        raise PyriteError(f"{what} are {inputs!r}, but must be an array of images or features")
    known = {4: ("uint8", "float32"), 2: ("float32", "float64")}
    if inputs.dtype.name not in known.get(inputs.ndim, ()):
        raise PyriteError(
            f"{what} are {inputs.dtype} of shape {inputs.shape}: images are uint8 or float32 (N, C, H, W), features "
            "are float32 or float64 (N, F)"
        )
    if inputs.size == 0 and len(inputs):
        raise PyriteError(f"{what} have the shape {inputs.shape}: a sample has no values")
    if inputs.ndim == 4 and inputs.shape[1] > 4 and inputs.shape[3] in (1, 3, 4) and channels_last(inputs.shape):
        raise PyriteError(
            f"{what} have the shape {inputs.shape}, which looks like (N, H, W, C): images are (N, C, H, W), use "
            "inputs.transpose(0, 3, 1, 2)"
        )


def channels_last(shape: Sequence[int]) -> bool:
    """Whether the shape of images is (N, H, W, C): the equal sides are height and width or, where that does not decide,
    the smallest is the channels. An undecided shape is (N, C, H, W), as in PyTorch.

    >>> channels_last((9, 28, 28, 1)), channels_last((9, 64, 4, 4)), channels_last((9, 480, 640, 3))
    (True, False, True)
    """
    first, middle, last = shape[1:]
    if (first == middle) != (middle == last):
        return first == middle
    return last < first and last <= middle


def encode(values: Sequence[Any], what: str) -> tuple[Labels, tuple[str, ...]]:
    """Class numbers for labels of any type: the classes are the distinct values, sorted.

    Whole numbers are sorted as numbers, so that class "10" comes after class "9".

    >>> encode(["10", "9", "10"], "labels")
    (array([1, 0, 1]), ('9', '10'))
    """
    try:
        distinct = set(values)
        texts = [*map(str, distinct)]
    except (TypeError, ValueError):  # lists, and whole numbers of more than 4,300 digits
        raise PyriteError(f"{what} must be texts or whole numbers, one per sample") from None
    for odd, text in zip(distinct, texts, strict=True):
        if odd is None or is_missing(text) or text in ("inf", "-inf"):
            index = next(index for index, value in enumerate(values) if value is odd or value == odd)
            problem = "infinite" if "inf" in text else f"missing ({text!r})"
            raise PyriteError(f"{what}: the label at index {index} is {problem}: remove such samples")
    try:
        ordered = sorted(distinct, key=lambda value: (int(value), str(value)))
    except (ValueError, TypeError, OverflowError):
        ordered = sorted(distinct, key=str)
    if len(ordered) < 2:
        classes = f"only the class {str(ordered[0])!r}" if ordered else "no class"
        raise PyriteError(f"{what}: there is {classes}, but a classifier needs two or more")
    names = tuple(str(value) for value in ordered)
    check_names(names, what)
    number = {value: index for index, value in enumerate(ordered)}
    return np.array([number[value] for value in values], np.int64), names


def is_missing(label: str) -> bool:
    """Whether a label is empty, or a missing value as written by pandas, numpy, spreadsheets or databases."""
    return not label.strip() or label in _MISSING


def check_names(names: Iterable[str], what: str, kind: str = "class") -> None:
    """Raise ValueError for names, of classes and the like, that are empty, or that mean the same: ``1`` and ``1.0``."""
    seen: dict[object, str] = {}
    for name in names:
        if not name.strip():
            raise PyriteError(f"{what}: the name of a {kind} is empty")
        text = unicodedata.normalize("NFC", name).strip()
        key = (float(text) if "." in text else int(text)) if _DECIMAL.fullmatch(text) else text
        if key in seen:
            both = (
                f"two classes are called {name!r}"
                if seen[key] == name
                else f"{seen[key]!r} and {name!r} are one {kind}"
            )
            raise PyriteError(f"{what}: {both}: write each {kind} in one way, and different ones differently")
        seen[key] = name


def encode_like(values: Sequence[Any], classes: Sequence[str], what: str) -> Labels:
    """Class numbers for the labels of a test part, by the classes of the training part."""
    number = {name: index for index, name in enumerate(classes)}
    for index, value in enumerate(values):
        if str(value) not in number:
            raise PyriteError(f"{what}: {str(value)!r} at index {index} is not among the classes of the training part")
    return np.array([number[str(value)] for value in values], np.int64)
