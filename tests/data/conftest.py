"""Writers of small files in the exact formats that the authors of the sets publish."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def idx_bytes(values):
    head = bytes([0, 0, 8, values.ndim])
    return head + b"".join(struct.pack(">I", side) for side in values.shape) + values.astype(np.uint8).tobytes()


def python2(value):
    """The pickle that Python 2 and the numpy of its day write, protocol 2, one value."""
    match value:
        case dict():
            return b"}(" + b"".join(python2(k) + python2(v) for k, v in value.items()) + b"u"
        case list():
            return b"](" + b"".join(map(python2, value)) + b"e"
        case int():
            return b"J" + struct.pack("<i", value)
        case bytes():
            return b"T" + struct.pack("<i", len(value)) + value
        case np.ndarray():
            code = {"uint8": (b"u1", b"|"), "int64": (b"i8", b"<"), "float64": (b"f8", b"<")}[value.dtype.name]
            dtype = b"cnumpy\ndtype\nU\x02" + code[0] + b"K\x00K\x01\x87R(K\x03U\x01" + code[1]
            dtype += b"NNN" + 2 * (b"J" + struct.pack("<i", -1)) + b"K\x00tb"
            blank = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
            shape = b"(" + b"".join(map(python2, value.shape)) + b"t"
            return blank + b"(K\x01" + shape + dtype + b"\x89" + python2(value.tobytes()) + b"tb"
    raise TypeError(value)


def write_python2(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x80\x02" + python2(value) + b".")


def write_cifar10(folder, rows=20, seed=0):
    """Five batches and a test batch; returns the training images and labels."""
    rng = np.random.default_rng(seed)
    images, labels = [], []
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        data = rng.integers(0, 256, (rows, 3072)).astype(np.uint8)
        numbers = rng.integers(0, 10, rows).tolist()
        files = [f"{name}_{i}.png".encode() for i in range(rows)]
        batch = {b"batch_label": name.encode(), b"labels": numbers, b"data": data, b"filenames": files}
        write_python2(folder / name, batch)
        images.append(data)
        labels.append(numbers)
    names = [b"airplane", b"automobile", b"bird", b"cat", b"deer", b"dog", b"frog", b"horse", b"ship", b"truck"]
    meta = {b"num_cases_per_batch": rows, b"label_names": names, b"num_vis": 3072}
    write_python2(folder / "batches.meta", meta)
    return np.concatenate(images[:5]), np.concatenate(labels[:5])


def write_cifar100(folder, rows=40, seed=0):
    """Train, test and meta; returns fine and coarse training labels."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name in ("train", "test"):
        fine = rng.integers(0, 100, rows)
        columns[name] = fine, fine * 7 % 20
        batch = {
            b"filenames": [b"a.png"] * rows,
            b"batch_label": b"training batch 1 of 1",
            b"fine_labels": columns[name][0].tolist(),
            b"coarse_labels": columns[name][1].tolist(),
            b"data": rng.integers(0, 256, (rows, 3072)).astype(np.uint8),
        }
        write_python2(folder / name, batch)
    names = {kind: [f"{kind}{i}".encode() for i in range(count)] for kind, count in (("fine", 100), ("coarse", 20))}
    meta = {b"fine_label_names": names["fine"], b"coarse_label_names": names["coarse"]}
    write_python2(folder / "meta", meta)
    return columns["train"]


def write_image(path, seed=0, size=(12, 10), mode="RGB"):
    """A picture of noise, ``size`` as width and height."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], len(mode))
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)).save(path)
    return path


class Write:
    """What the tests write with."""

    idx_bytes = staticmethod(idx_bytes)
    python2 = staticmethod(write_python2)
    cifar10 = staticmethod(write_cifar10)
    cifar100 = staticmethod(write_cifar100)
    image = staticmethod(write_image)

    @staticmethod
    def idx(path: Path, values, packed: bool) -> None:
        content = idx_bytes(values)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if packed else content)


@pytest.fixture
def write() -> type[Write]:
    return Write


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty data folder, and no way out to the network."""
    monkeypatch.setenv("PYRITE_DATA", str(tmp_path / "data"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def refused() -> Callable[..., str]:
    """The one sentence with which a call is refused."""

    def call(function, *args, **options) -> str:
        with pytest.raises(ValueError) as caught:
            function(*args, **options)
        message = str(caught.value)
        assert "\n" not in message
        return message

    return call
