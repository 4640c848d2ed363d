"""Locating, downloading and safely reading data files."""

import csv
import gzip
import os
import sys
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from pyrite.errors import PyriteError
from pyrite.npz_files import DEFLATE, LARGEST, is_regular


class Download(NamedTuple):
    """A file with official addresses and a known checksum."""

    name: str
    urls: tuple[str, ...]
    md5: str


def as_path(path: object) -> Path:
    """A path given by the user, with ``~`` expanded."""
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise PyriteError(f"{path!r} is not a path")
    return Path(os.path.expanduser(path))


def data_folder() -> Path:
    """The folder of the data sets: ``PYRITE_DATA``, or the user's cache folder."""
    folder = os.environ.get("PYRITE_DATA")
    if folder:
        return as_path(folder)
    import pooch

    return Path(pooch.os_cache("pyrite"))


def folder_of(path: str | None, names: Sequence[str]) -> Path:
    """The folder of a data set: the user's, or the one of these names in the data folder that exists, or the first."""
    return as_path(path) if path is not None else find(data_folder(), names) or data_folder() / names[0]


def find(folder: Path, names: Iterable[str]) -> Path | None:
    """The path of the first of these names that exists in the folder."""
    return next((folder / name for name in names if (folder / name).exists()), None)


def obtain(folder: Path, download: Download, dataset: str) -> Path:
    """Download a file into a folder and check it. The error names the file to put there by hand."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    reasons = []
    for url in download.urls:
        bar = _Bar(download.name) if sys.stderr.isatty() else None  # no progress bar outside a terminal
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Downloaded under a temporary name, checked, then renamed.
            http = pooch.HTTPDownloader(progressbar=bar or False, timeout=30)
            hashed = f"md5:{download.md5}"
            return Path(pooch.retrieve(url, known_hash=hashed, fname=download.name, path=folder, downloader=http))
        except ValueError:
            reasons.append("the downloaded file has the wrong checksum")
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout):
            reasons.append("no connection")
        except OSError as error:
            reasons.append(str(error) or type(error).__name__)
        finally:
            if bar is not None:
                bar.close()
    raise PyriteError(
        f"{dataset} is not on this machine and {download.urls[0]} could not be downloaded "
        f"({'; '.join(dict.fromkeys(reasons))}): put {download.name} into {folder}"
    )


def read_bytes(path: Path, most: int = -1) -> bytes:
    """The content of a file, or its first bytes."""
    if not is_regular(path):  # opening a pipe would wait for ever
        raise PyriteError(f"{path}: {'cannot be read, it is not a file' if path.exists() else 'no such file'}")
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise PyriteError(f"{path}: cannot be read ({error.strerror or error})") from None


def csv_reader(lines: Iterable[str], delimiter: str = ",") -> Any:
    """A strict reader of delimited text with cells of any length."""
    csv.field_size_limit(2**31 - 1)  # 131,072 characters by default; it can only be set for all readers
    return csv.reader(lines, delimiter=delimiter, strict=True)


def read_text(path: Path, dataset: str) -> list[str]:
    """The lines of a text file, without empty lines at the end."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise PyriteError(f"{dataset}: {path} is missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PyriteError(f"{dataset}: {path} cannot be read as text ({error})") from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise PyriteError(f"{dataset}: {path} is empty")
    return lines


def open_plain_or_gz(path: Path) -> tuple[BufferedReader | gzip.GzipFile, int]:
    """An open file, decompressed if its first bytes are those of gzip, and the largest possible size of its content."""
    packed, size = read_bytes(path, 2) == b"\x1f\x8b", path.stat().st_size
    return (gzip.open(path, "rb"), min(LARGEST, size * DEFLATE)) if packed else (path.open("rb"), size)


def read_members(path: Path, wanted: Sequence[str], most: int = 256 * 2**20) -> dict[str, bytes]:
    """The content of files in a tar archive, plain or gzip, by name. Nothing is written to the disk."""
    stream, _ = open_plain_or_gz(path)
    bounded = _Bounded(stream, 2 * most)
    contents: dict[str, bytes] = {}
    try:
        with stream, tarfile.open(fileobj=cast(BinaryIO, bounded), mode="r|") as archive:
            for member in archive:
                _check_member(path, member, most)
                name = member.name.removeprefix("./")
                if name in wanted and member.isfile():
                    file = archive.extractfile(member)
                    assert file is not None
                    contents[name] = file.read()
                    if len(contents[name]) != member.size:
                        raise tarfile.ReadError("it ends too early")
            while bounded.read(2**16):  # gzip's checksum is at the end of the file
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise PyriteError(f"{path}: not a whole tar archive ({error})") from None
    absent = [name for name in wanted if name not in contents]
    if absent:
        raise PyriteError(f"{path}: {absent[0]!r} is not in the archive")
    return contents


def _check_member(path: Path, member: tarfile.TarInfo, most: int) -> None:
    """Refuse what the official archives do not have: links, devices, names outside the folder, and huge files."""
    name = member.name
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name:
        raise PyriteError(f"{path}: refused, the archive holds {name!r}, which points out of its folder")
    if not (member.isfile() or member.isdir()):
        raise PyriteError(f"{path}: refused, {name!r} in the archive is a link or a device")
    if not 0 <= member.size <= most:
        raise PyriteError(f"{path}: refused, {name!r} in the archive claims {member.size} bytes")


class _Bounded:
    """A stream with a limit, beyond which reading is an error: tar headers may claim any length."""

    def __init__(self, stream: BufferedReader | gzip.GzipFile, most: int) -> None:
        self.stream, self.left = stream, most

    def read(self, size: int) -> bytes:
        piece = self.stream.read(min(size, self.left + 1))
        self.left -= len(piece)
        if self.left < 0:
            raise tarfile.ReadError("it unpacks to far more than such an archive holds")
        return piece


class _Bar:
    """The interface of progress bars in pooch, implemented with rich."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

        self.progress = Progress(
            "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)
        )
        self.task = self.progress.add_task(name, total=None)
        self.total = 0
        self.progress.start()

    def update(self, amount: int) -> None:
        self.progress.update(self.task, advance=amount, total=self.total)

    def reset(self) -> None:
        self.progress.update(self.task, completed=0)

    def close(self) -> None:
        self.progress.stop()
