"""Pickles from elsewhere: what the official files hold is read, and nothing else, and nothing is run."""

import io
import os
import pickle
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pyrite import pickles
from pyrite.pickles import read_npy, read_pickle, read_torch, unpickle

LABELS = np.array([6, 9, 9, 4, 1, 1, 2, 7, 8, 3])


def human() -> dict[str, Any]:
    return {"clean_label": LABELS, "worse_label": LABELS[::-1].copy(), "coarse": LABELS.tolist()}


def same(left: Any, right: Any) -> bool:
    if isinstance(right, np.ndarray):
        return left.dtype == right.dtype.newbyteorder("=") and np.array_equal(left, right)
    if isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in right)
    if isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(type(left) is type(right) and left == right)


def python2_batch(data: np.ndarray[Any, Any], labels: list[int]) -> bytes:
    """A CIFAR batch byte for byte as Python 2 wrote it: protocol 2, texts as bytes, numpy's old module name."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value

    shape = b"".join(b"M" + struct.pack("<H", side) for side in data.shape)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85q\x04U\x01bq\x05\x87q\x06Rq\x07"
        b"(K\x01" + shape + b"\x86q\x08cnumpy\ndtype\nq\x09U\x02u1q\x0aK\x00K\x01\x87q\x0bRq\x0c"
        b"(K\x03U\x01|q\x0dNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0eb\x89" + text(data.tobytes()) + b"tb"
    )
    numbers = b"]q\x10(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}q\x01(" + text(b"data") + array + text(b"labels") + numbers + b"u."


# --- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize(
    "value",
    [
        human(),
        [None, True, False, -1, 300, 70000, 2**40, -(2**62), 0.5, "text", "é" * 300, b"bytes", (), (1,), (1, (2, 3))],
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1.5, -2.5], dtype=np.float16),
        np.array([1, 2, 3], dtype=">i4"),
        np.array([[True, False]]),
        np.array(7),
        np.int64(-5),
        np.float32(0.25),
        {"shared": [LABELS, LABELS], 3: {b"k": "v"}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_reads_what_the_standard_unpickler_reads(value: Any, protocol: int) -> None:
    stream = pickle.dumps(value, protocol=protocol)
    assert same(unpickle(stream), pickle.loads(stream))


def test_shared_array_is_one_array() -> None:
    first, second = unpickle(pickle.dumps([LABELS, LABELS], protocol=4))
    assert first is second
    assert first.flags.writeable


def test_both_names_of_numpys_module() -> None:
    stream = pickle.dumps(LABELS, protocol=2)
    for module in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        renamed = stream.replace(b"numpy._core.multiarray", module).replace(b"numpy.core.multiarray", module)
        assert np.array_equal(unpickle(renamed), LABELS)


def test_python_2_batch(tmp_path: Path) -> None:
    data = np.arange(2 * 300, dtype=np.uint32).astype(np.uint8).reshape(2, 300)
    path = tmp_path / "data_batch_1"
    path.write_bytes(python2_batch(data, [3, 8]))
    found = read_pickle(path)
    assert same(found, pickle.loads(path.read_bytes(), encoding="bytes"))
    assert same(found, {b"data": data, b"labels": [3, 8]})


def test_torch_file(tmp_path: Path) -> None:
    torch.save(human(), tmp_path / "human.pt")
    assert same(read_torch(tmp_path / "human.pt"), human())


def test_npy_with_a_dict_and_with_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "human.npy", np.array(human(), dtype=object), allow_pickle=True)
    assert same(read_npy(tmp_path / "human.npy"), human())
    for number, array in enumerate([LABELS, np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(3, dtype=">u2")]):
        np.save(tmp_path / f"{number}.npy", array)
        assert same(read_npy(tmp_path / f"{number}.npy"), array)


# --- what is refused, and runs nothing ------------------------------------------------------------------------------


class Call:
    """Pickles as a call of ``function`` with ``arguments``."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


class Plain:
    pass


def attacks(sentinel: Path) -> dict[str, tuple[bytes, str]]:
    touch = f"open({str(sentinel)!r}, 'w').close()"
    shell = f"touch {sentinel}"

    def made(value: Any, protocol: int = 2) -> bytes:
        return pickle.dumps(value, protocol=protocol)

    return {
        "os.system": (made(Call(os.system, shell)), "posix.system"),
        "os.system, protocol 4": (made(Call(os.system, shell), 4), "posix.system"),
        "in a dict of labels": (made(human() | {"random_label1": Call(os.system, shell)}), "posix.system"),
        "exec": (made(Call(exec, touch)), "__builtin__.exec"),
        "eval": (made(Call(eval, touch), 4), "builtins.eval"),
        "getattr": (made(Call(getattr, "text", "format"), 4), "builtins.getattr"),
        "old instance": (b"(S'" + shell.encode() + b"'\nios\nsystem\n.", "STRING|INST"),
        "instance": (b"(X\x01\x00\x00\x00xios\nsystem\n.", "INST"),
        "object": (made(Plain(), 4), "Plain"),
        "numpy's own loader": (b"cnumpy\nload\n.", "numpy.load"),
        "dotted name": (b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93.", "numpy.ndarray.__class__"),
        "name that is no text": (b"\x80\x04K\x01K\x02\x93.", "requires str"),
        "the marker of ours as a function": (b"\x80\x02cnumpy\nndarray\nK\x05\x85R.", "not callable"),
        "extension": (b"\x80\x02\x82\x01.", "EXT1"),
        "persistent": (b"\x80\x02K\x01Q.", "BINPERSID"),
        "object array": (made(np.array([Call(os.system, shell)], dtype=object)), "posix.system"),
        "plain object array": (made(np.array([{}, 1], dtype=object)), "dtype 'O8'"),
        "fields": (made(np.zeros(2, dtype=[("a", "i4")])), "named fields"),
        "texts in an array": (made(np.array(["a"])), "dtype 'U1'"),
        "dates": (made(np.array(["2020-01-01"], dtype="M8[D]")), "M8"),
        "object scalar": (
            b"\x80\x02cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\x02\0\0\0O8\x89\x88\x87RN\x86R.",
            "dtype 'O8'",
        ),
        "codec": (b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x05\0\0\0rot13\x86R.", "the codec 'rot13'"),
        "dtype alone": (made(np.dtype("i8")), "not whole"),
        "dtype in a list": (made([np.dtype("i8")]), "not whole"),
        "dtype in a tuple": (made([(np.dtype("i8"), 1)]), "not whole"),
        "tuple as a key": (made({(1, 2): 3}), "tuple as a key"),
        "set": (made({1, 2}, 4), "EMPTY_SET"),
        "buffer": (b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.", "bytearray8|BYTEARRAY8"),
        "empty": (b"", "whole"),
        "nothing but an end": (b".", "not a whole pickle"),
        "unknown memo": (b"\x80\x02h\x05.", "Memo value not found"),
        "append to a number": (b"\x80\x02K\x01K\x02a.", "'int' object"),
        "items without a dict": (b"\x80\x02]K\x01K\x02s.", "whole"),
        "half an item": (b"\x80\x02}(K\x01u.", "whole"),
        "no mark": (b"\x80\x02}K\x01u.", "as a key"),
        "text, not pickle": (b"<!DOCTYPE html><html>", "instruction"),
        "torch tensor": (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n.", "torch._utils._rebuild_tensor_v2"),
    }


@pytest.mark.parametrize("name", attacks(Path("x")))
def test_malicious_and_broken_pickles_are_refused(name: str, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    stream, complaint = attacks(sentinel)[name]
    for read, path in each_way(stream, tmp_path):
        with pytest.raises(ValueError, match=complaint) as caught:
            read(path)
        assert "\n" not in str(caught.value)
    assert not sentinel.exists()


def each_way(stream: bytes, folder: Path) -> list[tuple[Any, Path]]:
    (folder / "batch").write_bytes(stream)
    with zipfile.ZipFile(folder / "human.pt", "w") as archive:
        archive.writestr("human/data.pkl", stream)
        archive.writestr("human/version", "3\n")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": ()})
    (folder / "human.npy").write_bytes(header.getvalue() + stream)
    ways: list[tuple[Any, Path]] = [(read_torch, folder / "human.pt"), (read_npy, folder / "human.npy")]
    return ways if not stream else [(read_pickle, folder / "batch"), *ways]


def test_the_attacks_would_work_on_the_standard_unpickler(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    sentinel = tmp_path / "sentinel"
    for name in ("os.system", "os.system, protocol 4", "in a dict of labels", "exec", "eval", "object array"):
        pickle.loads(attacks(sentinel)[name][0])
        assert sentinel.exists(), name
        sentinel.unlink()


def test_an_object_in_an_array_is_read_only_where_that_is_the_format() -> None:
    with pytest.raises(ValueError, match="dtype 'O8'"):
        unpickle(pickle.dumps(np.array({"clean_label": 1}, dtype=object), protocol=4))


@pytest.mark.parametrize("shape", [(2**40,), (2**62, 4), (-1,), (10, 2), (True,), (2**70, 0)])
def test_declared_shape_must_be_that_of_the_bytes(shape: tuple[int, ...]) -> None:
    stream = pickle.dumps(LABELS, protocol=2)
    old, new = (pickle.dumps(side, protocol=2)[2:-1] for side in ((10,), shape))
    broken = stream.replace(old.split(b"q")[0], new.split(b"q")[0], 1)
    assert broken != stream
    with pytest.raises(ValueError, match="an array"):
        unpickle(broken)


def test_declared_lengths_and_memo_keys_take_no_memory() -> None:
    for stream in (
        b"\x80\x04\x8e" + struct.pack("<Q", 2**50) + b"abc.",
        b"\x80\x02X" + struct.pack("<I", 2**31) + b"abc.",
        b"\x80\x02T" + struct.pack("<i", 2**31 - 1) + b"abc.",
        b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"\x8c",
    ):
        with pytest.raises(ValueError, match="cannot read labels"):
            unpickle(stream, "labels")
    # The standard unpickler takes 32 GB for this key.
    assert unpickle(b"\x80\x02K\x01r\xff\xff\xff\x7f.") == 1


def test_one_text_that_many_arrays_share_does_not_fill_the_memory() -> None:
    """Each array takes a few bytes of the file, and a copy of the text."""
    stream = b"\x80\x02T" + struct.pack("<i", 10_000) + bytes(10_000) + b"q\x01]("
    one = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01M\x10'\x85cnumpy\ndtype\n"
        b"U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89h\x01tb"
    )
    assert len(unpickle(stream + one + b"e.")) == 1
    with pytest.raises(ValueError, match="unpacks to more than it holds"):
        unpickle(stream + 1000 * one + b"e.")


def test_nesting_that_doubles_with_every_level_is_no_trouble() -> None:
    """Sixty levels of (x, x): as a key its hash would take 2^60 steps."""
    nested = b"\x80\x02K\x01" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))
    assert isinstance(unpickle(nested + b"."), tuple)
    with pytest.raises(ValueError, match="tuple as a key"):
        unpickle(b"\x80\x02}" + nested[2:] + b"K\x01s.")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    stream = pickle.dumps(human(), protocol=2)
    for length in range(len(stream)):
        with pytest.raises(ValueError, match="cannot read"):
            unpickle(stream[:length])
    torch.save(human(), tmp_path / "whole.pt")
    np.save(tmp_path / "whole.npy", np.array(human(), dtype=object), allow_pickle=True)
    for reader, name in ((read_torch, "whole.pt"), (read_npy, "whole.npy")):
        whole = (tmp_path / name).read_bytes()
        for length in range(0, len(whole) - 1, 37):
            (tmp_path / "part").write_bytes(whole[:length])
            with pytest.raises(ValueError, match="cannot read"):
                reader(tmp_path / "part")


def test_damaged_pickles_raise_nothing_but_value_errors() -> None:
    dice = random.Random(0)
    streams = [pickle.dumps(human(), protocol=protocol) for protocol in (2, 4)]
    streams.append(python2_batch(np.arange(12, dtype=np.uint8).reshape(2, 6), [1, 2]))
    refused = 0
    for _ in range(3000):
        damaged = bytearray(dice.choice(streams))
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            unpickle(bytes(damaged))
        except ValueError:
            refused += 1
    assert refused > 1000


def test_zip_that_says_it_is_huge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "LIMIT", 10_000)
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(1_000_000))
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match="1000000 bytes long; 10000 are allowed"):
        read_torch(path)


def test_files_that_are_not_there_or_not_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in (read_pickle, read_torch, read_npy):
        with pytest.raises(ValueError, match="no such file"):
            reader(tmp_path / "nowhere")
        with pytest.raises(ValueError, match="not a file"):
            reader(tmp_path)
        (tmp_path / "empty").write_bytes(b"")
        with pytest.raises(ValueError, match="it is empty"):
            reader(tmp_path / "empty")
    (tmp_path / "page.pt").write_text("<html>404</html>")
    for reader in (read_pickle, read_torch, read_npy):
        with pytest.raises(ValueError, match=r"cannot read .*page\.pt"):
            reader(tmp_path / "page.pt")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "no pickle")
    with pytest.raises(ValueError, match=r"one data\.pkl, but here are 0"):
        read_torch(tmp_path / "other.zip")
    monkeypatch.setattr(pickles, "LIMIT", 10)
    with pytest.raises(ValueError, match="bytes are too many"):
        read_pickle(tmp_path / "page.pt")


def test_damaged_zip_is_noticed(tmp_path: Path) -> None:
    torch.save(human(), tmp_path / "human.pt")
    whole = (tmp_path / "human.pt").read_bytes()
    at = whole.index(b"clean_label")
    (tmp_path / "human.pt").write_bytes(whole[:at] + b"CLEAN" + whole[at + 5 :])
    with pytest.raises(ValueError, match="CRC"):
        read_torch(tmp_path / "human.pt")


def test_npy_header_that_lies(tmp_path: Path) -> None:
    for shape, descr in (((2**50,), "<i8"), ((3,), "|O"), ((2,), [("a", "<i4")])):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
        (tmp_path / "lies.npy").write_bytes(header.getvalue() + bytes(24))
        with pytest.raises(ValueError, match=r"cannot read .*lies\.npy"):
            read_npy(tmp_path / "lies.npy")
