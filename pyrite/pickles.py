"""Safe reading of pickles: no code of the file is run.

The official CIFAR archives and the human labels of CIFAR-N are pickles. A pickle is a program that may import any
function of any module and call it. This module does not use Python's unpickler. ``pickletools`` splits the stream into
instructions, a table defines what each allowed instruction does to a stack, and the few functions that these files
name are represented by placeholders. Nothing is imported or called by name, no state is passed to numpy's C code, and
no number in the file can make this allocate more memory than the size of the file.
"""

import math
import os
import pickletools
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import numpy as np

from pyrite.errors import PyriteError

__all__ = ["LIMIT", "read_npy", "read_pickle", "read_torch", "unpickle"]

# In bytes. The largest official file, CIFAR-100's train, has 155 MB.
LIMIT: Final = 2**30

# Exceptions that a damaged stream can raise. DeprecationWarning comes from pickletools for a backslash in a name, where
# warnings are errors. The last two come from numpy, which parses a .npy header as Python literals.
_BROKEN: Final = (ValueError, IndexError, KeyError, DeprecationWarning, SyntaxError, tokenize.TokenError)

_FUNCTIONS: Final = {
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "array",  # numpy 1
    "numpy._core.multiarray _reconstruct": "array",  # numpy 2
    "numpy.core.multiarray scalar": "scalar",
    "numpy._core.multiarray scalar": "scalar",
    "_codecs encode": "encode",  # Python 3 writes bytes this way for Python 2
}


def read_pickle(path: str | Path) -> Any:
    """The content of a pickle file: numbers, strings, bytes, lists, tuples, dicts and arrays of numbers.

    Strings of Python 2 become bytes, as with ``encoding="bytes"``.
    """
    return unpickle(_content(path), str(path))


def read_torch(path: str | Path) -> Any:
    """The content of a ``.pt`` file, a zip that ``torch.save`` wrote. Only numpy arrays are read, not tensors."""
    _content(path, only_check=True)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.split("/")[-1] == "data.pkl"]
            if len(entries) != 1:
                raise PyriteError(f"a file of torch.save holds one data.pkl, but here are {len(entries)}")
            if entries[0].file_size > LIMIT:
                raise PyriteError(f"its data.pkl says it is {entries[0].file_size} bytes long; {LIMIT} are allowed")
            with archive.open(entries[0]) as stream:
                data = stream.read(LIMIT + 1)
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise PyriteError(f"cannot read {path} as a file of torch.save: {_reason(error)}") from None
    return unpickle(data, str(path))


def read_npy(path: str | Path) -> Any:
    """The content of a ``.npy`` file: an array of numbers, or one pickled object such as a dict."""
    _content(path, only_check=True)
    try:
        with open(path, "rb") as stream:
            shape, fortran, dtype = _npy_header(stream)
            rest = stream.read()
        if dtype == np.dtype(object) and shape == ():
            return _Machine(boxed=True).run(rest)
        return _array(_Kind(dtype.str[1:], dtype.str[0]), shape, rest, "F" if fortran else "C")
    except (OSError, EOFError, *_BROKEN) as error:
        raise PyriteError(f"cannot read {path} as a .npy file: {_reason(error)}") from None


def unpickle(data: bytes, name: str = "the pickle") -> Any:
    """The content of a pickle that is in memory; error messages refer to it by ``name``.

    >>> import pickle
    >>> unpickle(pickle.dumps({"labels": [1, 2], "data": np.arange(3)}))
    {'labels': [1, 2], 'data': array([0, 1, 2])}
    >>> unpickle(pickle.dumps(print), "batch")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pyrite.PyriteError: cannot read batch: it names 'builtins.print', ...
    """
    try:
        return _Machine().run(data)
    except _BROKEN as error:
        raise PyriteError(f"cannot read {name}: {_reason(error)}") from None


class _Placeholder:
    """A value that exists only on the stack, while an array is assembled. It is never part of the result."""


class _Function(_Placeholder):
    def __init__(self, name: str) -> None:
        self.name = name


class _Arguments(_Placeholder):
    """A tuple that contains placeholders."""

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items


class _Kind(_Placeholder):
    """A dtype. Only numbers are allowed, so that an array cannot contain objects."""

    def __init__(self, code: str, order: str = "") -> None:
        self.code, self.order = code, order

    def dtype(self) -> np.dtype[Any]:
        if not re.fullmatch(r"b1|[iu][1248]|f[248]", self.code):
            raise PyriteError(f"it holds an array of dtype {_short(self.code)!r}, and only numbers are read")
        if self.order not in ("<", ">") and not (self.order == "|" and self.code[1] == "1"):
            raise PyriteError(f"a dtype has the byte order {_short(self.order)!r}")
        return np.dtype(self.order + self.code)


class _EmptyArray(_Placeholder):
    """An array whose content has not been read yet, and its keys in the memo."""

    def __init__(self) -> None:
        self.keys: list[int] = []


class _Machine:
    """Runs the instructions that lists, strings and arrays need, with a stack and a memo."""

    def __init__(self, boxed: bool = False) -> None:
        self.boxed = boxed  # a .npy file wraps its object in an array without dimensions
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return _finished(self.stack.pop())
            action = _ACTIONS.get(opcode.name)
            if action is None:
                what = f"{opcode.name} {argument}" if argument is not None else opcode.name
                raise PyriteError(
                    f"it holds the instruction {_short(what)!r}, which lists, texts and arrays do not need"
                )
            action(self, argument)
        raise PyriteError("it has no end")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def marked(self) -> list[Any]:
        """Pop the values pushed since the last mark."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise PyriteError(f"it appends to a {type(target).__name__}")
        target.extend(_finished(item) for item in items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise PyriteError(f"it sets items of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # A deeply nested tuple as a key could take for ever to hash.
            if not isinstance(key, str | bytes | int):
                raise PyriteError(f"a dict has a {type(key).__name__} as a key")
            target[key] = _finished(value)

    def pop_items(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise IndexError
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def make_tuple(self, items: list[Any]) -> None:
        result = tuple(items)
        self.push(_Arguments(result) if any(isinstance(item, _Placeholder) for item in items) else result)

    def remember(self, key: int | None) -> None:
        value = self.stack[-1]
        key = len(self.memo) if key is None else key
        self.memo[key] = value
        if isinstance(value, _EmptyArray):
            value.keys.append(key)

    def name(self, qualified: str) -> None:
        function = _FUNCTIONS.get(qualified)
        if function is None:
            dotted = qualified.replace(" ", ".")
            raise PyriteError(f"it names {_short(dotted)!r}, and only arrays of numbers, lists and texts are read")
        self.push(_Function(function))

    def stack_name(self) -> None:
        module, name = self.pop_items(2)
        self.name(f"{module if isinstance(module, str) else ''} {name if isinstance(name, str) else ''}")

    def call(self) -> None:
        function, arguments = self.pop_items(2)
        items = arguments.items if isinstance(arguments, _Arguments) else arguments
        match function.name if isinstance(function, _Function) else "", items:
            case "encode", (str(text), "latin1"):
                self.push(text.encode("latin1"))
            case "dtype", (str() | bytes() as code, _, _):
                self.push(_Kind(_text(code)))
            case "array", (_Function(name="ndarray"), (0,), "b" | b"b"):
                self.push(_EmptyArray())
            case "scalar", (_Kind() as kind, bytes(value)):
                self.push(_array(kind, (), value, "C")[()])
            case name, _:
                raise PyriteError(f"it calls {name or type(function).__name__!r} in a way that makes no array")

    def build(self) -> None:
        target, state = self.pop_items(2)
        items = state.items if isinstance(state, _Arguments) else state
        match target, items:
            case _Kind(), (3 | 4, str() | bytes() as order, None, None, None, int(), int(), int(), *_):
                target.order = _text(order)
                self.push(target)
            case _EmptyArray(), (1, tuple(shape), _Kind() as kind, bool() | 0 | 1 as fortran, content):
                self.push(self.fill(target, kind, shape, content, "F" if fortran else "C"))
            case _:
                raise PyriteError("it sets a state that is not that of an array of numbers")

    def fill(self, empty: _EmptyArray, kind: _Kind, shape: tuple[Any, ...], content: object, order: str) -> Any:
        if self.boxed and kind.code == "O8" and shape == () and isinstance(content, list) and len(content) == 1:
            value = content[0]
        else:
            value = _array(kind, shape, content, order)
        for key in empty.keys:
            self.memo[key] = value
        return value


_PUSHED: Final = (
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
)
_ACTIONS: Final[dict[str, Callable[[_Machine, Any], None]]] = {
    **dict.fromkeys(_PUSHED, _Machine.push),
    # pickletools decodes the strings of Python 2 as latin-1; they are bytes.
    **{name: lambda m, text: m.push(text.encode("latin1")) for name in ("BINSTRING", "SHORT_BINSTRING")},
    **{name: lambda m, _: None for name in ("PROTO", "FRAME")},
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "TUPLE": lambda m, _: m.make_tuple(m.marked()),
    "TUPLE1": lambda m, _: m.make_tuple(m.pop_items(1)),
    "TUPLE2": lambda m, _: m.make_tuple(m.pop_items(2)),
    "TUPLE3": lambda m, _: m.make_tuple(m.pop_items(3)),
    "APPEND": lambda m, _: m.append(m.pop_items(1)),
    "APPENDS": lambda m, _: m.append(m.marked()),
    "SETITEM": lambda m, _: m.set_items(m.pop_items(2)),
    "SETITEMS": lambda m, _: m.set_items(m.marked()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.remember),
    **{name: lambda m, key: m.push(m.memo[key]) for name in ("BINGET", "LONG_BINGET")},
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": lambda m, _: m.stack_name(),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
}


def _array(kind: _Kind, shape: tuple[Any, ...], content: object, order: str) -> np.ndarray[Any, Any]:
    dtype = kind.dtype()
    if not all(type(side) is int and 0 <= side <= LIMIT for side in shape) or len(shape) > 32:
        raise PyriteError(f"an array has the shape {_short(str(shape))}")
    if not isinstance(content, bytes) or len(content) != math.prod(shape) * dtype.itemsize:
        size = f"{len(content)} bytes" if isinstance(content, bytes) else f"a {type(content).__name__}"
        raise PyriteError(f"an array of shape {_short(str(shape))} and dtype {dtype} comes with {size}")
    flat = np.frombuffer(content, dtype) if content else np.empty(0, dtype)
    # A writable copy in this machine's byte order.
    return flat.reshape(shape, order=cast(Any, order)).astype(dtype.newbyteorder("="))


def _npy_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise PyriteError(f"version {version} of the format holds named fields, and only numbers are read")


def _finished(value: Any) -> Any:
    if isinstance(value, _Placeholder):
        raise PyriteError("it holds an array that is not whole")
    return value


def _content(path: str | Path, only_check: bool = False) -> bytes:
    """The bytes of a file, after its size was checked; with ``only_check`` nothing is read."""
    if not os.path.isfile(path):
        raise PyriteError(f"cannot read {path}: there is no such file")
    size = os.path.getsize(path)
    if not 0 < size <= LIMIT:
        raise PyriteError(f"cannot read {path}: " + ("it is empty" if not size else f"{size} bytes are too many"))
    try:
        return b"" if only_check else Path(path).read_bytes()
    except OSError as error:
        raise PyriteError(f"cannot read {path}: {error.strerror}") from None


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin1")


def _reason(error: Exception) -> str:
    if isinstance(error, IndexError | KeyError):
        return "it is not a whole pickle"
    return str(error) or type(error).__name__


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
