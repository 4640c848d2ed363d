"""Files that are whole or not there."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import pyrite.files
from pyrite.files import npz_bytes, write


def test_content_and_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "b" / "file.bin", b"\x00content")
    assert path == tmp_path / "a" / "b" / "file.bin"
    assert path.read_bytes() == b"\x00content"
    assert write(str(path), b"") == path
    assert path.read_bytes() == b""
    assert os.listdir(path.parent) == ["file.bin"]


def test_flushed_before_it_is_renamed_and_the_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(handle: int) -> None:
        said.append(f"flush {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        fsync(handle)

    def spy_replace(source: Path, target: Path) -> None:
        said.append(f"rename {source.name} {target.name} {source.read_bytes()!r}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    write(tmp_path / "file", b"new")
    part = f".file.{os.getpid()}.part"
    assert said == [f"flush {part}", f"rename {part} file b'new'", f"flush {tmp_path.name}"]


@pytest.mark.parametrize("what", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_what_was_there_stays(what: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise error

    write(tmp_path / "file", b"old")
    monkeypatch.setattr(os, what, fails)
    with pytest.raises(type(error)):
        write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full has no room for anything."""
    write(tmp_path / "file", b"old")
    full = open("/dev/full", "wb")  # noqa: SIM115  # closed by who writes
    monkeypatch.setattr(pyrite.files, "open", lambda path, mode: full, raising=False)
    with pytest.raises(OSError, match="No space left on device"):
        write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        write(tmp_path / "file" / "below", b"content")
    with pytest.raises(OSError):
        write("/proc/nowhere/file", b"content")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write(tmp_path / "folder", b"content")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_folders_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system lets them be flushed; the file is there all the same."""

    def refuse(*arguments: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    assert write(tmp_path / "file", b"new").read_bytes() == b"new"


@pytest.mark.parametrize("compress", [False, True])
def test_the_same_arrays_are_the_same_bytes(compress: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {"a": np.arange(5), "b": [[1.5, np.nan]], "empty": np.zeros((0, 3), bool)}
    content = npz_bytes(arrays, compress=compress)
    monkeypatch.setattr("time.time", lambda: 2e9)  # no clock in them
    assert npz_bytes(arrays, compress=compress) == content
    with np.load(write(tmp_path / "a.npz", content)) as held:
        assert held.files == ["a", "b", "empty"]
        for name, array in arrays.items():
            np.testing.assert_array_equal(held[name], array)
    assert len(npz_bytes({"a": np.zeros(9999)}, compress=True)) < 9999 < len(npz_bytes({"a": np.zeros(9999)}))
