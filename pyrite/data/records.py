"""``Records``: samples that are not numbers yet, as named columns; and ``Schema``, what samples look like."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, final, get_args

import numpy as np
import numpy.typing as npt

from pyrite.checks import one_of
from pyrite.data.images import LazyImages
from pyrite.errors import PyriteError

Kind = Literal["number", "boolean", "category", "date", "text"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
InputKind = Literal["images", "numbers", "table", "text"]

DTYPES: Final = {"number": "f8", "boolean": "f8", "category": "O", "date": "M8[us]", "text": "O"}


class Column(NamedTuple):
    """A column of a table: numbers and truth values (0 and 1) in float64, dates as ``datetime64[us]``, categories
    and texts as Python texts. NaN, NaT and an empty text are missing."""

    name: str
    kind: Kind
    values: npt.NDArray[Any]

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which cells are missing."""
        if self.kind in ("category", "text"):
            return np.asarray(self.values == "", bool)
        return np.asarray(self.values != self.values, bool)  # NaN and NaT

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """Numbers as they are, and dates as seconds since 1970, NaN where one is missing."""
        if self.kind != "date":
            return np.asarray(self.values, np.float64)
        return np.where(self.missing, np.nan, self.values.astype(np.int64) / 1e6)

    def some(self, rows: "npt.NDArray[np.int64] | slice") -> "Column":
        """The cells of these rows."""
        return self._replace(values=self.values[rows])


@final
class Records:
    """Samples as named columns of equal length. They are never changed; ``records[rows]`` are some of them.

    >>> table = Records([Column("age", "number", np.array([31.0, np.nan])),
    ...                  Column("city", "category", np.array(["Oslo", ""], object))])
    >>> table, table[[1]].cells(0)
    (<2 records of age (number), city (category)>, ('', ''))
    """

    ndim = 2

    def __init__(self, columns: Iterable[Column]) -> None:
        self.columns = tuple(columns)
        if not self.columns:
            raise PyriteError("columns is empty: records have one column or more")
        for place, column in enumerate(self.columns):
            one_of(f"columns[{place}].kind", column.kind, KINDS)
            if column.values.dtype != np.dtype(DTYPES[column.kind]) or column.values.ndim != 1:
                raise PyriteError(
                    f"columns[{place}] has values of {column.values.dtype} of shape {column.values.shape}, but a "
                    f"{column.kind} is {DTYPES[column.kind]} of one dimension"
                )
            if len(column.values) != len(self.columns[0].values):
                raise PyriteError(
                    f"columns[{place}] has {len(column.values)} rows, but columns[0] has {len(self.columns[0].values)}"
                )
        self._by_name = {column.name: column for column in self.columns}
        self.names, self.kinds = tuple(self._by_name), tuple(column.kind for column in self.columns)
        if len(self.names) < len(self.columns):
            ((twice, _),) = Counter(column.name for column in self.columns).most_common(1)
            raise PyriteError(f"two columns are called {twice!r}")
        self.is_text, self.shape = set(self.kinds) == {"text"}, (len(self), len(self.columns))

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def __getitem__(self, rows: "npt.ArrayLike | slice") -> "Records":
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        return Records(column.some(chosen) for column in self.columns)

    def __repr__(self) -> str:
        shown = [f"{column.name} ({column.kind})" for column in self.columns[:8]]
        return f"<{len(self)} records of {', '.join(shown + ['...'] * (len(self.columns) > 8))}>"

    def column(self, name: str) -> Column:
        """The column of this name."""
        return self._by_name[name]

    def select(self, names: Iterable[str]) -> "Records":
        """The columns of these names, in their order."""
        absent = [name for name in names if name not in self._by_name]
        if absent:
            raise PyriteError(f"there is no column {absent[0]!r}; there are {listed(self.names)}")
        return Records(map(self.column, names))

    def cells(self, row: int) -> tuple[str, ...]:
        """One row as texts for a reader; empty where a cell is missing."""
        return tuple(shown(column, row) for column in self.columns)

    def texts(self) -> list[str]:
        """Every row as one text: the columns one below the other."""
        if len(self.columns) == 1 and self.is_text:
            return composed(self.columns[0].values)
        return composed("\n".join(filter(None, self.cells(row))) for row in range(len(self)))


@final
@dataclass(frozen=True)
class Schema:
    """How samples look. ``describe`` saves it as JSON with a run, and ``read_like`` reads new samples alike."""

    kind: InputKind
    shape: tuple[int, ...]  # of one sample
    columns: Mapping[str, Kind]  # by their names in order; empty if they have no names
    label: str = ""  # the label column, if there is one
    formats: Mapping[str, str] = field(
        default_factory=dict
    )  # of dates that were texts, iso, dmy and the like, or of numbers: their own decimal mark and unit
    decimal: str = ""  # the mark of numbers that were texts
    is_clear: bool = True  # whether the numbers show that mark; 5.400 alone does not
    dtype: str = ""  # of images: uint8 from 0 to 255, or float32 of a scale of their own
    warp: bool = False  # whether images were stretched to their size, and not cropped


def kind_of(inputs: npt.NDArray[Any] | LazyImages | Records) -> InputKind:
    """Which kind of samples these are."""
    if isinstance(inputs, Records):
        return "text" if inputs.is_text else "table"
    return "images" if inputs.ndim == 4 else "numbers"


def texts(values: Sequence[str], name: str = "text", like: Schema | None = None) -> Records:
    """Records of one column of texts, which is called as in the training data, ``like``, if these are others.

    >>> texts(["A first text.", "Another."])
    <2 records of text (text)>
    """
    if like is not None and like.kind == "text":
        name = next(iter(like.columns))
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise PyriteError(f"{name} is {value!r} at index {index}, but must be a text")
    return Records([Column(name, "text", np.array(values, object))])


def composed(values: Iterable[str]) -> list[str]:
    """Texts in one form of Unicode: an é may be written as one character or as two."""
    known = unicodedata.is_normalized
    return [text if known("NFC", text) else unicodedata.normalize("NFC", text) for text in values]


def listed(names: Iterable[str]) -> str:
    """The first of the names, for messages."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:20]) + (", ..." if len(shown) > 20 else "")


def shown(column: Column, row: int) -> str:
    """A cell as text for a reader; empty where it is missing."""
    value = column.values[row]
    if column.kind in ("category", "text"):
        return str(value)
    if value != value:
        return ""
    if column.kind == "boolean":
        return "true" if value else "false"
    if column.kind == "date":
        return str(value).replace("T", " ").removesuffix(".000000").removesuffix(" 00:00:00")
    return f"{value:.15g}"
