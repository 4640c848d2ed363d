import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pyrite.data import data_folder, load
from pyrite.data.files import Download, obtain


@pytest.fixture
def server(tmp_path):
    """A web server of one folder; its address and the folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    (tmp_path / "www").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "www")) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", tmp_path / "www"
        server.shutdown()
        thread.join()


def test_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PYRITE_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("PYRITE_DATA", "~/sets")
    assert data_folder() == Path.home() / "sets"
    monkeypatch.delenv("PYRITE_DATA")
    assert data_folder().name == "pyrite"
    assert Path.home() in data_folder().parents


def test_a_download_is_checked(server, home, capfd):
    address, folder = server
    (folder / "a.bin").write_bytes(b"content")
    download = Download("a.bin", (address + "gone/a.bin", address + "a.bin"), hashlib.md5(b"content").hexdigest())
    path = obtain(home / "set", download, "set")
    assert path == home / "set" / "a.bin"
    assert path.read_bytes() == b"content"
    assert capfd.readouterr() == ("", "")


def test_a_wrong_checksum_leaves_nothing_behind(server, home, refused):
    address, folder = server
    (folder / "a.bin").write_bytes(b"other")
    message = refused(obtain, home / "set", Download("a.bin", (address + "a.bin",), "0" * 32), "set")
    assert "wrong checksum" in message
    assert not (home / "set").exists()


def test_a_failed_download_leaves_folders_that_were_there(home, refused):
    """An empty folder looks like a data set to other tools; those of the user stay."""
    download = Download("a.bin", ("http://127.0.0.1:9/a.bin",), "0" * 32)
    (home / "own").mkdir()
    for folder in ("own", "new/inner"):
        refused(obtain, home / folder, download, "set")
    assert [path.name for path in home.rglob("*")] == ["own"]


def test_offline_one_sentence_says_what_to_put_where(home, refused):
    download = Download("a.bin", ("http://127.0.0.1:9/a.bin", "http://127.0.0.1:9/b.bin"), "0" * 32)
    message = refused(obtain, home / "set", download, "set")
    assert message == (
        "set is not on this machine and http://127.0.0.1:9/a.bin could not be downloaded (no connection): "
        f"put a.bin into {home / 'set'}"
    )


@pytest.mark.parametrize(
    ("name", "module", "file", "folder"),
    [
        ("mnist", "idx", "train-images-idx3-ubyte.gz", "mnist"),
        ("fashion_mnist", "idx", "train-images-idx3-ubyte.gz", "fashion-mnist"),
        ("cifar10", "cifar", "cifar-10-python.tar.gz", "cifar10"),
        ("cifar100", "cifar", "cifar-100-python.tar.gz", "cifar100"),
        ("cifar10n", "cifar", "cifar-10-python.tar.gz", "cifar10"),
    ],
)
def test_every_set_says_what_to_put_where(home, refused, monkeypatch, name, module, file, folder):
    """The network is cut, and what is asked for is seen: an official address and 32 digits of a checksum."""
    asked = []

    def cut(url, known_hash, **options):
        asked.append((url, known_hash))
        raise ConnectionError("cut")

    monkeypatch.setattr("pooch.retrieve", cut)
    message = refused(load, name)
    assert f"put {file} into {home / folder}" in message
    for url, known_hash in asked:
        assert url.startswith("http")
        assert url.endswith(file)
        assert len(known_hash.removeprefix("md5:")) == 32


def test_a_downloaded_archive_is_read(server, home, tmp_path, write, monkeypatch):
    import tarfile

    from pyrite.data import official

    address, folder = server
    write.cifar10(tmp_path / "cifar-10-batches-py")
    archive = folder / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-py", arcname="cifar-10-batches-py")
    checksum = hashlib.md5(archive.read_bytes()).hexdigest()
    there = Download(archive.name, (address + archive.name,), checksum)
    monkeypatch.setattr(official, "CIFAR10", official.CIFAR10._replace(archive=there))
    assert len(load("cifar10")) == 100
    archive.unlink()
    assert len(load("cifar10")) == 100  # the second time from the data folder


def test_a_bar_for_a_person_who_waits(server, home, monkeypatch, capfd):
    address, folder = server
    (folder / "a.bin").write_bytes(bytes(100_000))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    obtain(home, Download("a.bin", (address + "a.bin",), hashlib.md5(bytes(100_000)).hexdigest()), "set")
    assert "a.bin" in capfd.readouterr().err
