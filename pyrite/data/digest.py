"""Checksums of data: what a run or a cache was made from, so that data that have changed since are noticed."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.data.dataset import Dataset, Inputs
from pyrite.data.images import LazyImages
from pyrite.data.records import Records

_PIECE = 1 << 14  # bytes of each end of an image file, where all of them would take minutes to read


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """A checksum of parts: no two lists of parts have the same one."""
    hashed = hashlib.blake2b(digest_size=20)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()


def content(inputs: Inputs, *, whole_files: bool = True) -> Iterator[bytes | memoryview]:
    """The bytes of samples; of images in files, those of the files, or their names, sizes and both ends."""
    if isinstance(inputs, Records):
        for name, kind, values in inputs.columns:
            yield f"{kind} {name}".encode("utf-8", "surrogatepass")
            if values.dtype == object:
                yield from (text.encode("utf-8", "surrogatepass") for text in values)
            else:
                yield _bytes(values)
    elif isinstance(inputs, LazyImages):
        yield f"files {inputs.shape[1:]} {inputs.warp}".encode()
        for index, name in enumerate(inputs.names):
            yield b"" if whole_files else name.encode("utf-8", "surrogatepass")
            try:
                with inputs.path(index).open("rb") as file:
                    yield file.read(-1 if whole_files else _PIECE)
                    if not whole_files:
                        size = file.seek(0, 2)
                        file.seek(max(_PIECE, size - _PIECE))
                        yield str(size).encode() + file.read()
            except OSError:
                yield b""
    else:
        yield f"{inputs.dtype} {inputs.shape[1:]}".encode()
        yield _bytes(inputs)


def checksums(data: Dataset) -> dict[str, str]:
    """Checksums of the inputs, the labels, the names of the samples and the parts to test and validate on."""
    several = None if data.annotations is None else data.annotations.labels
    labels = [_bytes(values) for values in (data.labels, data.true, several, data.groups) if values is not None]
    texts = (*data.classes, "", *data.paths)
    found = {
        "inputs": digest(content(data.inputs, whole_files=False)),
        "labels": digest([*labels, *(text.encode() for text in texts)]),
    }
    parts = {"test part": data.test, "validation part": data.validation, "clean part": data.clean}
    return found | {name: digest(map(str.encode, checksums(part).values())) for name, part in parts.items() if part}


def _bytes(values: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
