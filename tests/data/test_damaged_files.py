"""Every reader of a file, given random bytes, its own files cut or changed, and headers that claim any shape.

It reads what is there or refuses it in one sentence that names the file. Anything else, such as an exception of another
kind or memory taken for what a header claims, is a fault.
"""

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image
from scipy.io import savemat

from pyrite.data import load
from pyrite.data.files import read_members
from pyrite.data.images import LazyImages
from pyrite.data.official import read_idx
from pyrite.data.web import read_table
from pyrite.npz_files import read_npz
from pyrite.pickles import read_npy, read_pickle, read_torch
from tests.data.conftest import idx_bytes, python2

ENOUGH = 200  # cuts and changes of a long file
fuzzed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Reader(NamedTuple):
    ending: str
    read: Callable[[Path], object]
    whole: bytes


def npz_content(write: Callable[..., None], **arrays: object) -> bytes:
    file = io.BytesIO()
    write(file, **arrays)
    return file.getvalue()


def table() -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.5, 2.0, 3.0], "n": [1, 2, 3], "label": ["a", "b", "a"]}), file)
    return file.getvalue()


def image(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)).save(file, kind)
    return file.getvalue()


def archive() -> bytes:
    import tarfile

    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        member = tarfile.TarInfo("a/b")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    return file.getvalue()


def mat() -> bytes:
    file = io.BytesIO()
    savemat(file, {"t": np.arange(6.0).reshape(2, 3)}, do_compression=True)
    return file.getvalue()


def torch_content() -> bytes:
    import torch

    file = io.BytesIO()
    torch.save({"clean_label": np.arange(4), "worse_label": np.arange(4)}, file)
    return file.getvalue()


ARRAYS = {"x": np.arange(8.0).reshape(4, 2), "y": np.array(["a", "b", "a", "b"])}
IMAGES = {"x": np.zeros((4, 5, 6, 3), np.uint8), "y": np.array([0, 1, 0, 1]), "classes": np.array(["a", "b"])}
PICKLE = b"\x80\x02" + python2({b"labels": [1, 2], b"data": np.arange(6, dtype=np.uint8).reshape(2, 3)}) + b"."

READERS = {
    "csv": Reader(".csv", load, "height,label,näme\n1.5,cat,2\n-3e2,dög,0\n4,cat,7\n".encode()),
    "parquet": Reader(".parquet", load, table()),
    "npz": Reader(".npz", load, npz_content(np.savez, **ARRAYS)),
    "compressed npz": Reader(".npz", load, npz_content(np.savez_compressed, **IMAGES)),
    "all arrays of an npz": Reader(".npz", read_npz, npz_content(np.savez_compressed, **ARRAYS)),
    "idx": Reader("", lambda path: read_idx(path, 3), idx_bytes(np.arange(24).reshape(2, 3, 4))),
    "mat": Reader(".mat", lambda path: read_table(path, "t"), mat()),
    "tar": Reader(".tar.gz", lambda path: read_members(path, ["a/b"]), archive()),
    "pickle": Reader("", read_pickle, PICKLE),
    "npy": Reader(".npy", read_npy, npz_content(np.save, arr=np.arange(6).reshape(2, 3))),
    "pt": Reader(".pt", read_torch, torch_content()),
    **{
        kind: Reader(f".{kind}", lambda path: LazyImages(path.parent, [path.name], 4)[[0]], image(kind))
        for kind in ("png", "jpeg", "gif")
    },
}
every_reader = pytest.mark.parametrize("name", READERS)


def read_or_refuse(reader: Reader, path: Path, content: bytes) -> bool:
    """Whether it was read; if it was refused, then in one sentence with its path."""
    path.write_bytes(content)
    try:
        reader.read(path)
    except ValueError as error:
        message = str(error)
    else:
        return True
    assert str(path) in message
    assert "\n" not in message
    return False


@every_reader
def test_whole_files_are_read(name: str, tmp_path: Path) -> None:
    assert read_or_refuse(READERS[name], tmp_path / f"a{READERS[name].ending}", READERS[name].whole)


@every_reader
def test_cut_files_are_refused(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    size = len(reader.whole)
    lengths = range(size) if size <= 4 * ENOUGH else np.unique(np.linspace(0, size - 1, ENOUGH).astype(int)).tolist()
    read = [
        length for length in lengths if read_or_refuse(reader, tmp_path / f"a{reader.ending}", reader.whole[:length])
    ]
    # A CSV file may end anywhere in its last rows, and images may lack the bytes that come after their pixels.
    rest = {"csv": 30, "jpeg": 2, "gif": 2, "png": 20}.get(name, 0)
    assert all(length >= size - rest for length in read), read


def test_texts_of_a_parquet_file_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    """The first byte of a text; nothing but the text itself is damaged, and it is decoded last."""
    reader = READERS["parquet"]
    content = bytearray(reader.whole)
    content[content.index(b"\x01\x00\x00\x00a") + 4] = 0x80  # after the length of the text
    assert not read_or_refuse(reader, tmp_path / "a.parquet", bytes(content))


@every_reader
@given(content=st.binary(max_size=300), keep=st.integers(0, 40))
@fuzzed
def test_random_bytes_are_refused(name: str, tmp_path: Path, content: bytes, keep: int) -> None:
    reader = READERS[name]
    read_or_refuse(reader, tmp_path / f"a{reader.ending}", reader.whole[:keep] + content)


@every_reader
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
@fuzzed
def test_changed_bytes_are_read_or_refused(name: str, tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    reader = READERS[name]
    content = bytearray(reader.whole)
    for place, value in changes:
        content[place % len(content)] = value
    read_or_refuse(reader, tmp_path / f"a{reader.ending}", bytes(content))


SIDES = st.one_of(st.integers(-(2**70), 2**70), st.sampled_from([0, 1, 2, 2**31, 2**32, 2**62, 2**63, -1]))


@given(
    shape=st.lists(SIDES, max_size=40),
    dtype=st.sampled_from(["<f8", "<i8", "|u1", "<U5", "|O", "<U0", ">f2", "<M8[s]"]),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_headers_of_arrays(tmp_path: Path, shape: list[int], dtype: str) -> None:
    header = io.BytesIO()
    fields = {"descr": dtype, "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_2_0(header, fields)  # type: ignore[arg-type]
    whole = header.getvalue() + bytes(64)
    tracemalloc.start()
    try:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("x.npy", whole)
            file.writestr("y.npy", npz_content(np.save, arr=np.array([0, 1, 0, 1])))
        read_or_refuse(READERS["npz"], tmp_path / "a.npz", packed.getvalue())
        read_or_refuse(READERS["npy"], tmp_path / "a.npy", whole)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@given(shape=st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3))
@fuzzed
def test_hostile_headers_of_idx(tmp_path: Path, shape: list[int]) -> None:
    head = bytes([0, 0, 8, 3]) + b"".join(side.to_bytes(4, "big") for side in shape)
    read_or_refuse(READERS["idx"], tmp_path / "a", head + bytes(24))


def test_a_parquet_of_more_rows_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(table())
    monkeypatch.setattr("pyrite.checks.memory_size", lambda: 100)
    with pytest.raises(ValueError, match=r"a\.parquet: 3 rows of 3 columns would take"):
        load(path)


@every_reader
def test_no_file_or_a_folder(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    (tmp_path / f"folder{reader.ending}").mkdir()
    for path in (tmp_path / f"none{reader.ending}", tmp_path / f"folder{reader.ending}"):
        with pytest.raises(ValueError, match=path.name):
            reader.read(path)
