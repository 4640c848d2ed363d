"""Where data files are, how they come there, and how they are read without trusting them."""

import gzip
import os
import sys
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from pyrite.npz_files import DEFLATE, LARGEST, is_regular

__all__ = ["LARGEST", "Download", "as_path", "data_folder", "find", "is_regular", "obtain", "read_members", "read_text"]


class Download(NamedTuple):
    """A file with official addresses and a known checksum."""

    name: str
    urls: tuple[str, ...]
    md5: str


def as_path(path: object) -> Path:
    """A path that somebody gave, with ``~`` for the home folder."""
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise ValueError(f"{path!r} is not a path")
    return Path(os.path.expanduser(path))


def data_folder() -> Path:
    """Where data sets are kept: ``PYRITE_DATA``, or the user's cache folder."""
    set_by_user = os.environ.get("PYRITE_DATA")
    if set_by_user:
        return as_path(set_by_user)
    import pooch

    return Path(pooch.os_cache("pyrite"))


def find(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of these names that is there."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    return None


def obtain(folder: Path, download: Download, dataset: str) -> Path:
    """Download a file into a folder and check it; where that fails, say which file to put where."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    reasons = []
    for url in download.urls:
        bar = _Bar(download.name) if sys.stderr.isatty() else None  # nothing is shown where nobody looks
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Downloaded under a temporary name, checked, then renamed.
            found = pooch.retrieve(
                url,
                known_hash=f"md5:{download.md5}",
                fname=download.name,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar or False, timeout=30),
            )
            return Path(found)
        except ValueError:
            reasons.append("what came has the wrong checksum")
        except OSError as error:
            reasons.append(_reason(error))
        finally:
            if bar is not None:
                bar.close()
    raise ValueError(
        f"{dataset} is not on this machine and {download.urls[0]} could not be downloaded "
        f"({'; '.join(dict.fromkeys(reasons))}): put {download.name} into {folder}"
    )


def missing(dataset: str, what: str, folder: Path, source: str) -> ValueError:
    """The one sentence for data that must be brought by hand."""
    return ValueError(f"{dataset}: {what} is not in {folder}; get it from {source} and put it there")


def read_text(path: Path, dataset: str) -> list[str]:
    """The lines of a list file, without empty ones at the end."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ValueError(f"{dataset}: {path} is missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{dataset}: {path} cannot be read as text ({error})") from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise ValueError(f"{dataset}: {path} is empty")
    return lines


def open_plain_or_gz(path: Path) -> tuple[BufferedReader | gzip.GzipFile, int]:
    """A file, unpacked if it is gzip by its first bytes, and the most it can hold."""
    if not is_regular(path):
        raise ValueError(f"{path}: there is no such file")
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not packed:
        return path.open("rb"), size
    return gzip.open(path, "rb"), min(LARGEST, size * DEFLATE)


def read_members(path: Path, wanted: Sequence[str], most: int = 256 * 2**20) -> dict[str, bytes]:
    """Files out of a tar archive, plain or gzip, by their names, without unpacking anything onto the disk.

    An archive that holds a link, a device, or a name that leaves its folder is refused whole: the official ones
    hold none, so somebody has been at it.
    """
    stream, _ = open_plain_or_gz(path)
    bounded = _Bounded(stream, 2 * most)
    found: dict[str, bytes] = {}
    try:
        with stream, tarfile.open(fileobj=cast(BinaryIO, bounded), mode="r|") as archive:
            for member in archive:
                _check_member(path, member, most)
                name = member.name.removeprefix("./")
                if name in wanted and member.isfile():
                    file = archive.extractfile(member)
                    assert file is not None
                    found[name] = file.read()
                    if len(found[name]) != member.size:
                        raise tarfile.ReadError("it ends too early")
            while bounded.read(2**16):  # gzip's checksum comes last
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole tar archive ({error})") from None
    absent = [name for name in wanted if name not in found]
    if absent:
        raise ValueError(f"{path}: {absent[0]!r} is not in the archive")
    return found


def _check_member(path: Path, member: tarfile.TarInfo, most: int) -> None:
    name = member.name
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name:
        raise ValueError(f"{path}: refused, the archive holds {name!r}, which points out of its folder")
    if not (member.isfile() or member.isdir()):
        raise ValueError(f"{path}: refused, {name!r} in the archive is a link or a device")
    if not 0 <= member.size <= most:
        raise ValueError(f"{path}: refused, {name!r} in the archive claims {member.size} bytes")


class _Bounded:
    """A stream that ends in an error rather than give more than it may: tar headers may claim any length."""

    def __init__(self, stream: BufferedReader | gzip.GzipFile, most: int) -> None:
        self.stream, self.left = stream, most

    def read(self, size: int) -> bytes:
        piece = self.stream.read(min(size, self.left + 1))
        self.left -= len(piece)
        if self.left < 0:
            raise tarfile.ReadError("it unpacks to far more than such an archive holds")
        return piece


def _reason(error: OSError) -> str:
    import requests

    if isinstance(error, requests.exceptions.ConnectionError | requests.exceptions.Timeout):
        return "no connection"
    return str(error) or type(error).__name__


class _Bar:
    """What pooch asks of a progress bar, shown by rich."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

        self.shown = Progress(
            "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)
        )
        self.task = self.shown.add_task(name, total=None)
        self.total = 0
        self.shown.start()

    def update(self, amount: int) -> None:
        self.shown.update(self.task, advance=amount, total=self.total)

    def reset(self) -> None:
        self.shown.update(self.task, completed=0)

    def close(self) -> None:
        self.shown.stop()
