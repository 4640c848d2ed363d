"""Safe reading of pickles: no code of the file is run.

The official CIFAR archives and the human labels of CIFAR-N are pickles. A pickle is a program that may import any
function of any module and call it. Here a subclass of Python's unpickler, the one written in Python, follows only the
instructions that lists, texts and arrays need, and the few names that these files hold stand for functions of this
module. Nothing is imported by name, arrays are made of checked states only, and no number in the file can make this
allocate more memory than the size of the file. The unpickler in C would take 32 GB for one large memo key.
"""

import io
import math
import pickle
import pickletools
import re
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pyrite.errors import PyriteError
from pyrite.files import read_bytes
from pyrite.npz_files import read_array, read_header, read_npz

Labels = npt.NDArray[np.int64]

# In bytes. The largest official file, CIFAR-100's train, has 155 MB.
LIMIT: Final = 2**30

_INSTRUCTIONS: Final = frozenset(
    (
        *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
        *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINSTRING", "SHORT_BINSTRING"),
        *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET"),
        *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
    )
)
_OPCODES: Final = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_PLAIN: Final = (type(None), bool, int, float, str, bytes, np.number, np.bool_)


def read_pickle(path: str | Path) -> Any:
    """The content of a pickle file: numbers, strings, bytes, lists, tuples, dicts and arrays of numbers.

    Strings of Python 2 become bytes, as with ``encoding="bytes"``.
    """
    return unpickle(_content(path), str(path))


def read_label_columns(path: str | Path) -> dict[str, Labels]:
    """The columns of labels in a file such as CIFAR-N's, in the order of the images.

    The ``.pt`` and plain ``.npy`` files of CIFAR-N have this order. The ``..._ordered.npy`` files have the order of
    another library's copy of CIFAR; ``image_order_....npy`` beside them has the position of each image.
    """
    path = Path(path)
    readers = {".pt": read_torch, ".pth": read_torch, ".npy": read_npy, ".npz": read_npz}
    if path.suffix.lower() not in readers:
        raise PyriteError(f"cannot read {path}: human labels must be in a .pt, .npy or .npz file")
    content = readers[path.suffix.lower()](path)
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise PyriteError(
            f"cannot read {path}: it holds no columns with names. A column of true labels is needed to check that the "
            "file is about the same samples"
        )
    columns: dict[str, Labels] = {}
    for name, values in content.items():
        with suppress(ValueError):  # lists of unequal lengths
            column = np.asarray(values)
            if column.ndim == 1 and column.dtype.kind in "iu":  # others are no labels, but the time an answer took
                columns["noisy_label" if name == "noise_label" else name] = column.astype(np.int64)
    ordered = re.fullmatch(r"CIFAR-(\d+)_human_ordered", path.stem)
    order = path.with_name(f"image_order_c{ordered[1]}.npy") if ordered else path
    if ordered is None or not order.exists():
        return columns
    place, count = read_npy(order), len(next(iter(columns.values()), ()))
    if not (isinstance(place, np.ndarray) and place.dtype.kind in "iu" and place.shape == (count,)):
        raise PyriteError(f"{order}: not a list of {count} positions")
    if not np.array_equal(np.sort(place), np.arange(count)):
        raise PyriteError(f"{order}: some positions are missing or come twice")
    return {name: column[np.argsort(place)] for name, column in columns.items() if len(column) == count}


def check_samples(path: str | Path, columns: Mapping[str, Labels], clean: str, true: Labels) -> None:
    """Raise PyriteError unless the column ``clean`` has the labels of the data, one by one: a file in another order has
    the same counts, so that counts would not show it."""
    if clean not in columns:
        known = ", ".join(sorted(columns))
        raise PyriteError(f"{path}: there is no column {clean!r} to check the samples and their order by, but {known}")
    for name, column in columns.items():
        if len(column) != len(true):
            raise PyriteError(f"{path}: {name} has {len(column)} labels, but the data has {len(true)}")
    differs = columns[clean] != true
    if differs.any():
        first, hint = int(differs.argmax()), "an ..._ordered.npy needs its image_order_....npy beside it"
        raise PyriteError(
            f"{path}: {clean} is {columns[clean][first]} at index {first}, where the data's label is {true[first]}; "
            f"{differs.sum()} of {len(true)} differ, so the file is about other samples or in another order"
            f"{f': {hint}' if Path(path).suffix == '.npy' else ''}"
        )


def read_torch(path: str | Path) -> Any:
    """The content of a ``.pt`` file, a zip that ``torch.save`` wrote. Only numpy arrays are read, not tensors."""
    content = _content(path)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.split("/")[-1] == "data.pkl"]
            if len(entries) != 1:
                raise ValueError(f"a file of torch.save holds one data.pkl, but here are {len(entries)}")
            if entries[0].file_size > LIMIT:
                raise ValueError(f"its data.pkl claims to be {entries[0].file_size} bytes long; {LIMIT} are allowed")
            content = archive.read(entries[0])
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise PyriteError(f"cannot read {path} as a file of torch.save: {error or type(error).__name__}") from None
    return unpickle(content, str(path))


def read_npy(path: str | Path) -> Any:
    """The content of a ``.npy`` file: an array, or one pickled object such as a dict."""
    content = _content(path)
    stream = io.BytesIO(content)
    try:
        shape, _, dtype = read_header(stream, str(path))
        if dtype == np.dtype(object) and shape == ():
            return unpickle(content[stream.tell() :], str(path), boxed=True)
        array = read_array(io.BytesIO(content), len(content), str(path))
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    except ValueError as error:
        raise PyriteError(f"cannot read {path} as a .npy file: {str(error).removeprefix(f'{path}: ')}") from None


def _content(path: str | Path) -> bytes:
    content = read_bytes(path, LIMIT + 1)
    if not 0 < len(content) <= LIMIT:
        raise PyriteError(f"cannot read {path}: {f'over {LIMIT} bytes are too many' if content else 'it is empty'}")
    return content


def unpickle(data: bytes, name: str = "the pickle", boxed: bool = False) -> Any:
    """The content of a pickle that is in memory; error messages refer to it by ``name``.

    With ``boxed`` it is the object in an array without dimensions, as a ``.npy`` file has it.

    >>> unpickle(pickle.dumps({"labels": [1, 2], "data": np.arange(3)}))
    {'labels': [1, 2], 'data': array([0, 1, 2])}
    >>> unpickle(pickle.dumps(print), "batch")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    pyrite.PyriteError: cannot read batch: it names 'builtins.print', ...
    """
    try:
        value = _Unpickler(data, boxed).load()
        if boxed and isinstance(value, np.ndarray) and value.dtype.hasobject and value.shape == ():
            value = value.item()
        _check_plain(value)
    except Exception as error:  # a damaged stream can raise any
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        if isinstance(error, KeyError):
            named = _OPCODES.get(error.args[0], reason)
            reason = f"it holds the instruction {named!r}, which lists, texts and arrays do not need"
        elif isinstance(error, IndexError | EOFError):
            reason = "it is not a whole pickle"
        raise PyriteError(f"cannot read {name}: {reason}") from None
    return value


class _Dtype:
    """A dtype as the file describes it. Only numbers are allowed: of others, such as objects, numpy reads pointers."""

    def __init__(self, code: str | bytes, align: object, copy: object) -> None:
        self.code, self.order = _text(code), ""

    def checked(self) -> np.dtype[Any]:
        if not re.fullmatch(r"b1|[iu][1248]|f[248]", self.code):
            raise ValueError(f"it holds an array of dtype {self.code[:80]!r}, and only numbers are read")
        if self.order not in ("<", ">") and not (self.order == "|" and self.code[1] == "1"):
            raise ValueError(f"a dtype has the byte order {self.order[:80]!r}")
        return np.dtype(self.order + self.code)


_InPython: Any = pickle._Unpickler


class _Unpickler(_InPython):  # type: ignore[misc]
    """Calls nothing but the functions in ``find_class``, and builds nothing but arrays."""

    def __init__(self, data: bytes, boxed: bool) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        # Copies of what the file holds once, such as one text that a thousand arrays share, would fill the memory.
        self.boxed, self.left = boxed, 4 * len(data)

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case "numpy", "ndarray":
                return _NDARRAY
            case "numpy", "dtype":
                return _Dtype
            case "numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct":  # of numpy 1 and 2
                return lambda kind, shape, code: np.empty(0, np.uint8)
            case "numpy.core.multiarray" | "numpy._core.multiarray", "scalar":
                return lambda dtype, content: self._array((), dtype, False, content)[()]
            case "_codecs", "encode":  # Python 3 writes bytes this way for Python 2
                return self._encode
        raise ValueError(f"it names {f'{module}.{name}'[:80]!r}, and only arrays of numbers, lists and texts are read")

    def _encode(self, text: str, codec: str) -> bytes:
        if codec != "latin1":
            raise ValueError(f"it holds bytes in the codec {codec[:80]!r}")
        self._take(len(text))
        return text.encode("latin1")

    def _build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is _Dtype:
            _, order, *rest = state
            if rest[:3] != [None, None, None]:
                raise ValueError("it holds an array with named fields, and only numbers are read")
            target.order = _text(order)
        elif type(target) is np.ndarray and target.size == 0:
            _, shape, dtype, fortran, content = state
            if self.boxed and shape == () and dtype.code == "O8" and isinstance(content, list) and len(content) == 1:
                target.__setstate__((1, (), np.dtype(object), False, content))  # type: ignore[arg-type]
                return
            array = self._array(shape, dtype, fortran, content)
            target.__setstate__((1, array.shape, array.dtype, False, array.tobytes()))  # type: ignore[arg-type]
        else:
            raise ValueError("it sets a state that is not that of an array of numbers")

    def _array(self, shape: tuple[Any, ...], dtype: Any, fortran: object, content: object) -> np.ndarray[Any, Any]:
        """An array in this machine's byte order; its shape must be that of its bytes."""
        kind = dtype.checked()
        sides = isinstance(shape, tuple) and len(shape) <= 32 and all(type(s) is int and 0 <= s <= LIMIT for s in shape)
        if not sides or not isinstance(content, bytes) or len(content) != math.prod(shape) * kind.itemsize:
            raise ValueError(f"an array of shape {str(shape)[:80]} and dtype {kind} comes with other bytes")
        self._take(len(content))
        flat = np.frombuffer(content, kind) if content else np.empty(0, kind)
        return flat.reshape(shape, order="F" if fortran else "C").astype(kind.newbyteorder("="))

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ValueError("it unpacks to more than it holds")

    def _set_items(self) -> None:
        _check_keys(self.stack[::2])
        super().load_setitems()

    def _set_item(self) -> None:
        _check_keys(self.stack[-2:-1])
        super().load_setitem()


_Unpickler.dispatch = {code: _InPython.dispatch[code] for code, name in _OPCODES.items() if name in _INSTRUCTIONS} | {
    ord("b"): _Unpickler._build,
    ord("s"): _Unpickler._set_item,
    ord("u"): _Unpickler._set_items,
}
_NDARRAY: Final = object()  # stands for the type, and cannot be called


def _check_keys(keys: list[Any]) -> None:
    for key in keys:  # a deeply nested tuple as a key could take for ever to hash
        if not isinstance(key, str | bytes | int):
            raise ValueError(f"a dict has a {type(key).__name__} as a key")


def _check_plain(value: object) -> None:
    """Raise ValueError for a result that is not data alone. What is referred to twice is looked at once."""
    seen, waiting = set(), [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list | tuple):
            if id(item) not in seen:
                seen.add(id(item))
                waiting += item.values() if isinstance(item, dict) else item
        elif not isinstance(item, _PLAIN) and not (isinstance(item, np.ndarray) and not item.dtype.hasobject):
            raise ValueError("it holds an array that is not whole")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin1")
