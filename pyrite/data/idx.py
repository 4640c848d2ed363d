"""MNIST and Fashion-MNIST: the IDX format, gzip or plain.

An IDX file consists of two zero bytes, a byte for the type of the numbers, a byte for the number of dimensions, the
dimensions as four bytes each, high byte first, and then the numbers.
"""

import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyrite.data.dataset import Dataset, Labels
from pyrite.data.files import Download, find, folder_of, obtain, open_plain_or_gz
from pyrite.errors import PyriteError

UINT8 = 8  # the only type these sets use

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
_MNIST_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
_FASHION_MD5 = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
_DIGITS = tuple(str(digit) for digit in range(10))
_GARMENTS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def mnist(path: str | None = None) -> Dataset:
    """Handwritten digits, 28 x 28, 60,000 + 10,000."""
    return _read_set("mnist", _DIGITS, path, ("mnist", "MNIST/raw"), _MNIST, _MNIST_MD5)


def fashion_mnist(path: str | None = None) -> Dataset:
    """Pictures of clothes, 28 x 28, 60,000 + 10,000, in the format of MNIST."""
    folders = ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw")
    return _read_set("fashion_mnist", _GARMENTS, path, folders, _FASHION, _FASHION_MD5)


def _read_set(
    name: str,
    classes: tuple[str, ...],
    path: str | None,
    folders: tuple[str, ...],
    mirrors: tuple[str, ...],
    checksums: dict[str, str],
) -> Dataset:
    folder = folder_of(path, folders)
    if path is not None and not folder.is_dir():
        raise PyriteError(f"{name}: {folder} is not a folder")

    def file(stem: str) -> Path:
        variants = (stem, stem.replace("-idx", ".idx"))
        location = find(folder, [v + ending for v in variants for ending in ("", ".gz")])
        if location is not None:
            return location
        packed = stem + ".gz"
        if path is not None:
            raise PyriteError(f"{name}: {packed} is not in {folder}")
        return obtain(folder, Download(packed, tuple(m + packed for m in mirrors), checksums[stem]), name)

    def part(stem: str) -> tuple[npt.NDArray[np.uint8], Labels]:
        images = read_idx(file(f"{stem}-images-idx3-ubyte"), 3)
        labels = read_idx(file(f"{stem}-labels-idx1-ubyte"), 1)
        return images[:, None], labels.astype(np.int64)

    images, labels = part("train")
    test = Dataset(f"{name} test", *part("t10k"), classes)
    if images.shape[1:] != test.inputs.shape[1:]:
        raise PyriteError(f"{name}: training images are {images.shape[2:]}, test images {test.inputs.shape[2:]}")
    return Dataset(name, images, labels, classes, test)


def read_idx(path: str | Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The numbers of an IDX file of bytes. Its size is checked before memory is allocated."""
    path = Path(path)
    stream, most = open_plain_or_gz(path)
    with stream:
        try:
            head = stream.read(4)
            if len(head) < 4:
                raise PyriteError(f"{path}: {'empty' if not head else 'cut off in its first bytes'}, not an IDX file")
            if head[:2] != b"\0\0" or head[2] != UINT8 or head[3] != dimensions:
                raise PyriteError(
                    f"{path}: begins with {head.hex()}, not with 000008{dimensions:02x} "
                    f"as an IDX file of bytes in {dimensions} dimension{'s' * (dimensions > 1)} does"
                )
            sizes = stream.read(4 * dimensions)
            if len(sizes) < 4 * dimensions:
                raise PyriteError(f"{path}: cut off in its first bytes")
            shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
            count = math.prod(shape)
            if count == 0 or count > most:
                raise PyriteError(f"{path}: claims {' x '.join(map(str, shape))} numbers, which it cannot hold")
            values = np.frombuffer(bytearray(stream.read(count)), np.uint8)
            if len(values) < count:
                raise PyriteError(f"{path}: cut off, it holds {len(values)} of {count} numbers")
            if stream.read(1):
                raise PyriteError(f"{path}: holds more than the {count} numbers it claims")
        except (EOFError, OSError, zlib.error) as error:
            raise PyriteError(f"{path}: cut off or damaged ({error})") from None
    return values.reshape(shape)
