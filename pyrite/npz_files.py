"""Safe reading of ``.npz`` files: nothing is unpickled, and no header makes this allocate more than the file holds."""

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from pyrite.checks import check_memory
from pyrite.errors import PyriteError
from pyrite.files import check_regular

# Compressed data may claim any size. DEFLATE compresses at most 1,032 to 1, so the size of the file is one bound, and
# LARGEST is another. Uncompressed data is bounded by the size of the file.
LARGEST: Final = 8 * 2**30
DEFLATE: Final = 1032

_HEADERS: Final = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(path: str | Path, wanted: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz`` by name, all or those of ``wanted`` that exist. A damaged file is a ValueError."""
    path = Path(path)
    check_regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            names = list(members) if wanted is None else [name for name in wanted if name in members]
            return {name: _member(path, archive, members[name]) for name in names}
    except ValueError as error:
        # zipfile raises ValueError for damaged fields too; the errors raised below begin with the path already.
        if str(error).startswith(str(path)):
            raise
        raise PyriteError(f"{path}: not a complete .npz file ({error})") from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, zlib.error, RuntimeError, LookupError) as error:
        raise PyriteError(f"{path}: not a complete .npz file ({error})") from None


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    where = f"{path}: {info.filename.removesuffix('.npy')}"
    packed = info.compress_type != zipfile.ZIP_STORED
    if packed and info.file_size > min(LARGEST, DEFLATE * info.compress_size + 2**16):
        raise PyriteError(f"{where}: rejected, it claims to unpack to {info.file_size} bytes; store it uncompressed")
    with archive.open(info) as file:
        return read_array(file, info.file_size, where)


def read_array(file: IO[bytes], held: int, where: str) -> npt.NDArray[Any]:
    """The array in the format of ``.npy`` in a stream of ``held`` bytes; ``where`` begins error messages."""
    shape, fortran, dtype = read_header(file, where)
    if len(shape) > 32 or not all(0 <= side <= LARGEST for side in shape) or not dtype.itemsize:
        raise PyriteError(f"{where}: {dtype} of shape {shape} is not a valid array")
    if dtype.hasobject:
        raise PyriteError(f"{where}: holds Python objects, which are not read because loading them can run code")
    size = math.prod(shape) * dtype.itemsize
    if size > held:
        raise PyriteError(f"{where}: truncated, the header claims {size} bytes and the file has {held}")
    check_memory(2 * size, where)
    content = bytearray(file.read(size))
    values = np.frombuffer(content, dtype) if len(content) == size > 0 else np.empty(0, dtype)
    if values.nbytes < size:
        raise PyriteError(f"{where}: truncated, the header claims {size} bytes and the file has {len(content)}")
    if file.read(1):
        raise PyriteError(f"{where}: there is more data than its header claims")
    return values.reshape(shape, order="F" if fortran else "C")


def read_header(file: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether columns come first, and the dtype."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise PyriteError(f"its format has the version {version}")
        return _HEADERS[version](file)
    except Exception as error:  # numpy parses the header as Python literals, so any exception is possible
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise PyriteError(f"{where}: not an array ({reason})") from None
