"""Locating, downloading and unpacking the files of official data sets."""

import gzip
import io
import os
import sys
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyrite.errors import PyriteError
from pyrite.files import as_path, read_bytes
from pyrite.npz_files import DEFLATE


class Download(NamedTuple):
    """A file with official addresses and a known checksum."""

    name: str
    urls: tuple[str, ...]
    md5: str


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
    from rich.console import Console

    pooch.get_logger().setLevel("WARNING")
    reasons = []
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for url in download.urls:
        console = Console(stderr=True, quiet=not sys.stderr.isatty())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Downloaded under a temporary name, checked, then renamed.
            http = pooch.HTTPDownloader(timeout=30)
            hashed = f"md5:{download.md5}"
            with console.status(f"downloading {url}"):
                return Path(pooch.retrieve(url, known_hash=hashed, fname=download.name, path=folder, downloader=http))
        except ValueError:
            reasons.append("the downloaded file has the wrong checksum")
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout):
            reasons.append("no connection")
        except OSError as error:
            reasons.append(str(error) or type(error).__name__)
        finally:
            for empty in made:  # which would look like a data set; one with a file in it is not removed
                with suppress(OSError):
                    empty.rmdir()
    raise PyriteError(
        f"{dataset} is not on this machine and {download.urls[0]} could not be downloaded "
        f"({'; '.join(dict.fromkeys(reasons))}): put {download.name} into {folder}"
    )


def read_unpacked(path: Path, most: int = 512 * 2**20) -> bytes:
    """The content of a file, unpacked if its first bytes are those of gzip. More than ``most`` bytes are an error."""
    content = read_bytes(path, most + 1)
    if content[:2] == b"\x1f\x8b":
        try:
            with gzip.open(io.BytesIO(content)) as stream:
                content = stream.read(min(most, DEFLATE * len(content)) + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise PyriteError(f"{path}: truncated or damaged ({error})") from None
    if len(content) > most:
        raise PyriteError(f"{path}: rejected, because it is far larger than expected")
    return content


def read_members(path: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """The content of regular files in a tar archive, plain or gzip, by name. Nothing is written to the disk."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read_unpacked(path)), mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if name in wanted and member.isfile():
                    file = archive.extractfile(member)
                    assert file is not None
                    contents[name] = file.read()
    except (tarfile.TarError, OSError, ValueError) as error:
        if isinstance(error, PyriteError):
            raise
        raise PyriteError(f"{path}: not a complete tar archive ({error})") from None
    absent = [name for name in wanted if name not in contents]
    if absent:
        raise PyriteError(f"{path}: {absent[0]!r} is not in the archive")
    return contents
