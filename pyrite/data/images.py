"""Image files: reading them, checking their headers, and a lazy sequence of images."""

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import check_memory, is_whole, one_of
from pyrite.errors import PyriteError
from pyrite.files import check_regular

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]

# Other formats are not opened: some decoders run external programs (EPS runs Ghostscript).
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
# Pixels. Larger images are decoded by the thread that asks for them: memory that was freed stays with its thread.
_LARGE = 2**24
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # the number of Pillow's transposition by the orientation of EXIF
_OF_16_BITS = ("PNG", "PPM")  # the formats whose pixels of mode "I" are whole numbers up to 65,535
SUFFIXES = frozenset((".bmp", ".gif", ".jpg", ".jpeg", ".png", ".pbm", ".pgm", ".ppm", ".tif", ".tiff", ".webp"))


class Unreadable(NamedTuple):
    """A file that could not be read, and the reason, a sentence that names the file."""

    path: str
    reason: str


class Header(NamedTuple):
    """The header of an image file."""

    width: int
    height: int
    grey: bool


@final
class Member(NamedTuple):
    """A file in an archive, which is read like one in a folder."""

    archive: Path
    name: str
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.archive}/{self.name}"

    def read_bytes(self) -> bytes:
        with self.archive.open("rb") as file:
            file.seek(self.start)
            return file.read(self.size)

    def open(self, mode: str = "rb") -> io.BytesIO:
        return io.BytesIO(self.read_bytes())


@final
class Members(dict[str, Member]):
    """The files in several archives by their names, in place of a folder."""

    def __truediv__(self, name: str) -> Member:
        return self[name]

    def __str__(self) -> str:
        return str(next(iter(self.values())).archive)


def to_pixels(image: "Image", size: tuple[int, int], channels: int, warp: bool = False) -> Pixels:
    """An image of Pillow as uint8 (channels, height, width), scaled to cover ``size`` and cropped in the middle, or
    warped."""
    import PIL.Image
    from PIL import ImageOps

    _check_mode(image)
    wide_high = size[1], size[0]
    image.load()  # after which TIFF is upright, and PNG has all of its chunks
    turn = _TURNS.get(_orientation(image))
    if image.mode.startswith("I"):  # Pillow would clip 16 bits to 255 instead of scaling them
        image = PIL.Image.fromarray((np.asarray(image).clip(0, 65535).astype(np.uint16) >> 8).astype(np.uint8))
    if "transparency" in image.info:
        image = image.convert("RGBA")
    mode = "L" if channels == 1 else "RGB"
    image = image if image.mode == mode else image.convert(mode)
    image = image if turn is None else image.transpose(PIL.Image.Transpose(turn))
    if image.size != wide_high:
        image = image.resize(wide_high) if warp else ImageOps.fit(image, wide_high)
    pixels = np.asarray(image, np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _decode_smaller(image: "Image", size: tuple[int, int]) -> None:
    """Decode a JPEG at a half, a quarter or an eighth of its size; not one of the user's, which would stay so.

    At twice what is needed, the filter of resizing decides the pixels, as it does for other formats: copies stay
    copies.
    """
    high, wide = size[::-1] if _is_turned(image) else size
    image.draft(None, (2 * wide, 2 * high))


def header_of(image: "Image") -> Header:
    """The header of an image of Pillow, upright."""
    width, height = image.size[::-1] if _is_turned(image) else image.size
    return Header(width, height, image.mode in ("1", "L") or image.mode[0] in "IF")


def _is_turned(image: "Image") -> bool:
    """Whether width and height are exchanged; not in a TIFF, which Pillow turns itself. No pixels are read."""
    return image.format != "TIFF" and "exif" in image.info and _orientation(image) > 4


def _orientation(image: "Image") -> int:
    """How a camera was held, by EXIF; 1 is upright."""
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # damaged EXIF raises any; the pixels may be good
        return 1


def look_at(root: Path | Members, names: Sequence[str]) -> tuple[list[int], list[Header], list[Unreadable]]:
    """The positions of the files with a valid image header, their headers, and the other files."""

    def look(name: str) -> Header | Unreadable:
        try:
            with _opened(root / name) as image:
                _check_mode(image)
                return header_of(image)
        except ValueError as error:
            return Unreadable(str(root / name), str(error))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(look, names))
    good = {index: header for index, header in enumerate(results) if isinstance(header, Header)}
    return list(good), list(good.values()), [file for file in results if isinstance(file, Unreadable)]


def inside(name: str, source: Path, line: int) -> str:
    """A file name from a list file; a ValueError if it points outside the folder of the list."""
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or ":" in name or "\0" in name:
        raise PyriteError(f"{source}, line {line}: {name!r} points out of its folder")
    return str(parts)


@final
class LazyImages:
    """Images that are read when they are indexed: ``images[[3, 1]]`` is uint8 (2, channels, height, width).

    Each is scaled to cover ``size`` and cropped in the middle or, with ``warp``, stretched to it.
    """

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(
        self,
        root: str | Path | Members,
        names: Iterable[str],
        size: int | tuple[int, int],
        channels: int = 3,
        warp: bool = False,
    ) -> None:
        self.root: Path | Members = root if isinstance(root, Members) else Path(root)
        self.names, self.warp = tuple(names), warp
        pair = tuple(size) if isinstance(size, list | tuple) else (size, size)
        if len(pair) != 2 or not all(is_whole(side) and side > 0 for side in pair):
            raise PyriteError(f"size is {size!r}, but must be a number of pixels, or a height and a width")
        one_of("channels", channels, (1, 3))
        self.channels, self.size = channels, (int(pair[0]), int(pair[1]))
        self.shape = len(self.names), channels, *self.size
        self.nbytes = math.prod(self.shape)  # once all images are read
        check_memory(2 * channels * math.prod(self.size), f"an image of size {self.size}")

    def __len__(self) -> int:
        return len(self.names)

    def some(self, rows: npt.NDArray[np.int64]) -> "LazyImages":
        """The images at these positions, still to be read."""
        return LazyImages(self.root, [self.names[row] for row in rows], self.size, self.channels, self.warp)

    def path(self, index: int) -> Path | Member:
        """The file of a sample."""
        return self.root / self.names[index]

    def __getitem__(self, indices: "npt.ArrayLike | slice") -> Pixels:
        """The images at these indices; a PyriteError names the first that cannot be read.

        >>> LazyImages("photos", ["missing.png"], size=8)[[0]]
        Traceback (most recent call last):
        ...
        pyrite.PyriteError: photos/missing.png: no such file
        """
        rows = np.arange(len(self))[indices] if isinstance(indices, slice) else np.asarray(indices, np.int64)
        images, _, unreadable = self.read(rows.ravel())
        if unreadable:
            raise PyriteError(unreadable[0].reason)
        return images.reshape(*rows.shape, *self.shape[1:])

    def read(
        self, indices: npt.NDArray[np.int64] | None = None, threads: int = 1
    ) -> tuple[Pixels, npt.NDArray[np.bool_], list[Unreadable]]:
        """The images that can be read, all or those of ``indices``, a mask of them, and the files that cannot."""
        rows = np.arange(len(self)) if indices is None else indices
        check_memory(len(rows) * math.prod(self.shape[1:]), f"{len(rows)} images of {self.size} at once")
        images = np.empty((len(rows), *self.shape[1:]), np.uint8)

        later: list[int] = []

        def read(place: int, alone: bool = False) -> Unreadable | None:
            path = self.path(int(rows[place]))
            try:
                with _opened(path) as image:
                    if not alone and image.width * image.height > _LARGE:
                        later.append(place)
                    else:
                        _decode_smaller(image, self.size)
                        images[place] = to_pixels(image, self.size, self.channels, self.warp)
            except ValueError as error:
                return Unreadable(str(path), str(error))
            return None

        with ThreadPoolExecutor(threads) as pool:
            results = list(pool.map(read, range(len(rows))))
        for place in later:
            results[place] = read(place, alone=True)
        good = np.array([result is None for result in results], bool)
        return images if good.all() else images[good], good, [result for result in results if result is not None]


def _check_mode(image: "Image") -> None:
    if image.mode == "F" or (image.mode == "I" and image.format not in _OF_16_BITS):
        kind = "floating-point numbers" if image.mode == "F" else "whole numbers"
        raise PyriteError(f"pixels are {kind} of unknown range: save the image with 8 or 16 bits per channel")


@contextmanager
def _opened(path: Path | Member) -> Iterator["Image"]:
    """An open image file; whatever goes wrong becomes a PyriteError of one sentence."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(path, Path):
        check_regular(path)
    try:
        # Not by its path: Pillow would map an uncompressed TIFF that is turned into memory with width for height.
        with path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
            most = Image.MAX_IMAGE_PIXELS
            if most is not None and image.width * image.height > most:
                raise Image.DecompressionBombError(f"more than {most} pixels")
            yield image
    except PyriteError as error:
        raise PyriteError(f"{path}: {error}") from None
    except UnidentifiedImageError:
        raise PyriteError(f"{path}: not an image of a known format") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PyriteError(f"{path}: rejected, the image claims {str(error).removesuffix('.')}") from None
    except Exception as error:  # decoders of damaged files raise any, for example SyntaxError or struct.error
        raise PyriteError(f"{path}: cannot be decoded ({str(error) or type(error).__name__})") from None
