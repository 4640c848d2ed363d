"""Reading a table of numbers from a MATLAB file of version 5.

scipy reads these files too, but crashes with a segmentation fault on damaged ones. Only a small part of the format is
needed here: a file is a list of elements, each with a type and a length, and a table is an element with flags,
dimensions, a name and numbers, column by column.
"""

import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.data.files import is_regular
from pyrite.errors import PyriteError

__all__ = ["read_table"]

# In bytes. Far more than the tables of data sets need: those of MARS have some 50,000 numbers.
MOST = 2**26

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_REAL, _COMPLEX = range(6, 16), 0x800  # the numeric classes, from double to uint64
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}


def read_table(path: Path, name: str) -> npt.NDArray[Any]:
    """The table that is called ``name``, as numbers of the type they are stored in."""
    if not is_regular(path):
        raise PyriteError(f"{path} is missing")
    if path.stat().st_size > MOST:
        raise PyriteError(f"{path}: {path.stat().st_size} bytes are too many for a table")
    content = path.read_bytes()
    try:
        order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER])
        if order is None:
            raise ValueError("it does not begin like one")
        place = _HEADER
        while place < len(content):
            kind, element, place = _element(content, place, order)
            if kind == _COMPRESSED:
                decompressor = zlib.decompressobj()
                unpacked = decompressor.decompress(element, MOST)
                if not decompressor.eof:
                    raise ValueError("it unpacks to too much, or is cut off")
                kind, element, _ = _element(unpacked, 0, order)
            table = _table(element, name, order) if kind == _MATRIX else None
            if table is not None:
                return table
        raise ValueError("there is no such table")
    except (ValueError, struct.error, zlib.error) as error:
        raise PyriteError(f"{path}: not a whole MATLAB file of version 5 with a table {name!r} ({error})") from None


def _element(content: bytes, place: int, order: str) -> tuple[int, bytes, int]:
    """The type and the bytes of the element at a position, and the position of the next one."""
    kind, size = struct.unpack_from(order + "II", content, place)
    if kind >> 16:  # a small element: length and type in four bytes, followed by four bytes of content
        kind, size = kind & 0xFFFF, kind >> 16
        begin, end = place + 4, place + 8
        if size > 4:
            raise ValueError("a small element claims to be large")
    else:
        begin = place + 8
        # Elements are aligned to eight bytes, except compressed ones.
        end = begin + (size if kind == _COMPRESSED else -(-size // 8) * 8)
    if begin + size > len(content):
        raise ValueError("it is cut off")
    return kind, content[begin : begin + size], end


def _table(content: bytes, name: str, order: str) -> npt.NDArray[Any] | None:
    """The numbers of a table, or None if it has another name."""
    parts: list[tuple[int, bytes]] = []
    place = 0
    while place < len(content) and len(parts) < 4:
        kind, part, place = _element(content, place, order)
        parts.append((kind, part))
    if len(parts) < 4:
        return None
    (_, flags), (sides, dimensions), (_, label), (stored, numbers) = parts
    if label.decode("latin1") != name:
        return None
    (kind,) = struct.unpack_from(order + "I", flags)
    if kind & 0xFF not in _REAL or kind & _COMPLEX or sides != 5 or stored not in _NUMBERS:
        raise ValueError("it is not a table of numbers")
    shape = struct.unpack(f"{order}{len(dimensions) // 4}i", dimensions)
    dtype = np.dtype(order + _NUMBERS[stored])
    if min(shape, default=-1) < 0 or math.prod(shape) * dtype.itemsize != len(numbers):
        raise ValueError(f"a table of {shape} comes with {len(numbers)} bytes")
    values = np.frombuffer(numbers, dtype) if numbers else np.empty(0, dtype)
    return values.reshape(shape, order="F").astype(dtype.newbyteorder("="))
