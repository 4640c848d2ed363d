"""``table``: numbers with gaps, truth values, categories, dates and texts, each column in its own way."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import Count
from pyrite.data import Column, InputKind, Inputs, Records
from pyrite.data.records import KINDS, composed
from pyrite.errors import PyriteError
from pyrite.features.contract import Encoder, Features, State
from pyrite.features.texts import TextFeatures, fit_texts, restore_texts

Floats = npt.NDArray[np.float64]

_RARE: Final = 3  # a category, or gaps, in fewer training rows get no number of their own: it could only be memorised
_DAY: Final = 86_400


@final
@dataclass(frozen=True, repr=False)
class Table(Encoder):
    """Columns of a table: missing values imputed and marked, categories one-hot, dates as parts, texts as n-grams.

    Args:
        categories: how many categories of a column get a number of their own, the most frequent ones.
        text_size: how many numbers a text becomes, at most.
    """

    takes: ClassVar[frozenset[InputKind]] = frozenset({"table", "text"})

    categories: Count = 40
    text_size: Count = 30

    def fit(self, inputs: Inputs, rows: npt.NDArray[np.int64], progress: bool = False) -> "TableFeatures":
        assert isinstance(inputs, Records)
        return TableFeatures(tuple(self._fit_column(column) for column in inputs[rows].columns))

    def _fit_column(self, column: Column) -> "_Fitted":
        fitted = _Fitted(column.name, column.kind, int(column.missing.sum()) >= _RARE)
        if column.kind == "text":
            with suppress(ValueError):  # no words: there is nothing in it to learn from
                return fitted._replace(text=fit_texts(composed(column.values), self.text_size, ""))
            return fitted
        if column.kind == "category":
            counts = Counter(_categories(column))
            common = sorted(counts, key=lambda value: (-counts[value], value))[: self.categories]
            kept = tuple(value for value in common if counts[value] >= _RARE or len(counts) == 2)
            return fitted._replace(categories=kept, rare=tuple(sorted(counts.keys() - set(kept))))
        known = column.numbers[~column.missing]
        parts = tuple(name for name, part in _DATE_PARTS.items() if len(np.unique(part(known))) > 1)
        fill = float(np.median(known)) if len(known) else 0.0
        return fitted._replace(fill=fill, parts=parts if column.kind == "date" else ())

    def restore(self, state: State) -> "TableFeatures":
        try:
            columns, arrays = [dict(column) for column in state.facts["columns"]], dict[str, dict[str, Any]]()
            for name, array in state.arrays.items():
                number, _, own_name = name.partition("_")
                arrays.setdefault(number, {})[own_name] = array
            for place, column in enumerate(columns):
                own = arrays.get(str(place))
                column["text"] = None if own is None else restore_texts(own, f"the features of {column['name']!r}")
                column |= {name: tuple(map(str, column[name])) for name in ("categories", "parts", "rare")}
                if column["kind"] not in KINDS or not set(column["parts"]) <= _DATE_PARTS.keys():
                    raise KeyError(column["kind"])
            return TableFeatures(tuple(_Fitted(**column | {"fill": float(column["fill"])}) for column in columns))
        except (KeyError, TypeError, ValueError) as error:
            raise PyriteError(f"the features are damaged: they are not those of a table ({error!r})") from None


class _Fitted(NamedTuple):
    """How a column becomes numbers."""

    name: str
    kind: str
    missing: bool
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    text: TextFeatures | None = None
    rare: tuple[str, ...] = ()  # what counts as "other"

    def names(self) -> list[str]:
        if self.kind == "text":
            size = 0 if self.text is None else len(self.text.components)
            return [f"{self.name}, part {number + 1}" for number in range(size)]
        if self.kind == "category":
            own = [f"{self.name}={value}" if value else f"{self.name} is missing" for value in self.categories]
            return own + [f"{self.name}, other"] * bool(self.rare)
        own = [f"{self.name}, {part}" for part in self.parts] if self.kind == "date" else [self.name]
        return own + [f"{self.name} is missing"] * self.missing

    def transform(self, column: Column) -> npt.NDArray[Any]:
        if self.kind == "text":
            cells = composed(column.values)
            return np.zeros((len(cells), 0)) if self.text is None else self.text.transform_texts(cells)
        if self.kind == "category":
            place = {value: number for number, value in enumerate(self.categories)}
            rows = np.zeros((len(column.values), len(self.categories) + 1))
            rows[np.arange(len(rows)), [place.get(value, len(self.categories)) for value in _categories(column)]] = 1
            return rows if self.rare else rows[:, :-1]  # without rare ones in training nothing is known of new ones
        values = np.where(column.missing, self.fill, column.numbers)
        parts = [_DATE_PARTS[part](values) for part in self.parts] if self.kind == "date" else [values]
        return np.stack(parts + [column.missing.astype(np.float64)] * self.missing, 1, dtype=np.float64)


@final
class TableFeatures(Features):
    """The columns of a table, each fitted."""

    def __init__(self, columns: tuple[_Fitted, ...]) -> None:
        self.columns = columns
        self.names = tuple(name for column in columns for name in column.names())
        if not self.names:
            raise PyriteError("all columns of the table are empty, so there are no features to learn from")

    def transform(self, inputs: Inputs, progress: bool = False) -> Floats:
        assert isinstance(inputs, Records)
        return np.concatenate([fitted.transform(inputs.column(fitted.name)) for fitted in self.columns], 1, dtype="f8")

    def unfamiliar(self, inputs: Inputs) -> tuple[str, ...]:
        assert isinstance(inputs, Records)
        sentences = []
        for fitted in self.columns:
            column, known = inputs.column(fitted.name), {*fitted.categories, *fitted.rare}
            values = _categories(column) if fitted.kind == "category" else []
            gaps = int(column.missing.sum()) if fitted.kind not in ("category", "text") else values.count("")
            if gaps and not fitted.missing and "" not in known:
                where = f"in {gaps:,} of {len(inputs):,} rows"
                sentences.append(f"{fitted.name!r} is missing {where}, but never or hardly ever in the training part")
            new = [value for value in values if value and value not in known]
            if new:
                which = f"the category {new[0]!r} of {fitted.name!r}" + (" and others" if len(set(new)) > 1 else "")
                sentences.append(f"{which}, in {len(new):,} of {len(inputs):,} rows, was not in the training part")
        return tuple(sentences)

    def state(self) -> State:
        facts = [column._replace(text=None)._asdict() for column in self.columns]
        arrays = {
            f"{number}_{name}": array
            for number, column in enumerate(self.columns)
            if column.text is not None
            for name, array in column.text.arrays().items()
        }
        return State(arrays, {"columns": facts})


def _categories(column: Column) -> list[str]:
    """The cells of a column in one form, as a reader sees them."""
    return [text.strip() for text in composed(column.values)]


def _dates(seconds: Floats) -> npt.NDArray[Any]:
    return np.floor_divide(seconds, _DAY).astype(np.int64).astype("M8[D]")


_DATE_PARTS: Final[dict[str, Callable[[Floats], Floats]]] = {
    "days since 1970": lambda seconds: seconds / _DAY,
    "month": lambda seconds: _dates(seconds).astype("M8[M]").astype(np.float64) % 12 + 1,
    "day of the month": lambda seconds: (_dates(seconds) - _dates(seconds).astype("M8[M]")).astype(np.float64) + 1,
    "weekday": lambda seconds: (np.floor_divide(seconds, _DAY) + 3) % 7 + 1,  # 1970 began on a Thursday
    "hour": lambda seconds: np.floor_divide(seconds % _DAY, 3600),
}
