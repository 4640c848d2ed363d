import io
import os
import pickle
import tarfile
from functools import partial

import numpy as np
import pytest

from pyrite.data import load
from pyrite.data.files import read_members, read_unpacked

FOLDER = "cifar-10-batches-py"


def pack(folder, archive, change=lambda tar: None):
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
        change(tar)
    return archive


def test_cifar10_from_its_folder(home, write):
    data, labels = write.cifar10(home / "cifar10" / FOLDER)
    read = load("cifar10")
    assert read.inputs.shape == (100, 3, 32, 32)
    assert read.inputs.dtype == np.uint8
    # A row is all red values, then green, then blue, each 32 rows of 32.
    assert read.inputs[7, 2, 3, 5] == data[7, 2 * 1024 + 3 * 32 + 5]
    np.testing.assert_array_equal(read.labels, labels)
    assert read.classes[:2] == ("airplane", "automobile")
    assert len(read.test) == 20


@pytest.mark.parametrize("where", ["the archive", "its folder", "the data folder"])
def test_cifar10_from_its_archive(home, tmp_path, write, where):
    data, labels = write.cifar10(tmp_path / FOLDER)
    folder = home / "cifar10" if where == "the data folder" else tmp_path / "packed"
    folder.mkdir()
    archive = pack(tmp_path / FOLDER, folder / "cifar-10-python.tar.gz")
    path = {"the archive": str(archive), "its folder": str(folder), "the data folder": None}[where]
    read = load("cifar10", path=path)
    np.testing.assert_array_equal(read.inputs.reshape(-1, 3072), data)
    np.testing.assert_array_equal(read.labels, labels)


def test_cifar100_fine_and_coarse(home, write):
    fine, coarse = write.cifar100(home / "cifar100" / "cifar-100-python")
    read = load("cifar100")
    np.testing.assert_array_equal(read.labels, fine)
    np.testing.assert_array_equal(read.coarse, coarse)
    assert (len(read.classes), len(read.coarse_classes)) == (100, 20)
    read = load('cifar100(labels="coarse")')
    np.testing.assert_array_equal(read.labels, coarse)
    assert read.classes == tuple(f"coarse{i}" for i in range(20))
    assert read.test.classes == read.classes
    np.testing.assert_array_equal(read.test.labels, read.test.coarse)


def test_unknown_kind_of_labels(home, refused):
    assert "labels is 'rough', but must be one of 'fine', 'coarse'" in refused(load, 'cifar100(labels="rough")')


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("packed", [True, False])
def test_a_malicious_pickle_runs_nothing(tmp_path, write, refused, packed):
    folder, sign = tmp_path / FOLDER, tmp_path / "sign"
    write.cifar10(folder)
    (folder / "data_batch_3").write_bytes(pickle.dumps({b"data": Evil(sign)}, protocol=2))
    path = pack(folder, tmp_path / "a.tar.gz") if packed else folder
    message = refused(load, "cifar10", path=str(path))
    assert "data_batch_3" in message
    assert not sign.exists()
    # The file is what it is taken for: Python's own unpickler would have run it.
    pickle.loads((folder / "data_batch_3").read_bytes())
    assert sign.exists()


ROWS = np.zeros((20, 3072), np.uint8)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({b"data": ROWS[:, :3071].copy()}, "shape (20, 3071)"),
        ({b"data": ROWS.astype(np.int64)}, "int64"),
        ({b"data": [1, 2]}, "'data' is list"),
        ({b"labels": [0] * 19}, "20 images but 19"),
        ({b"labels": [10] + [0] * 19}, "data_batch_2: labels: label 10 at index 0"),
        ({b"labels": [-1] + [0] * 19}, "-1"),
        ({b"labels": b"00"}, "list of whole numbers"),
        ({b"data": ROWS[:19], b"labels": [0] * 19}, "batches.meta has 20"),
    ],
)
def test_wrong_batches_are_refused(tmp_path, write, refused, change, said):
    folder = tmp_path / FOLDER
    write.cifar10(folder)
    write.python2(folder / "data_batch_2", {b"data": ROWS, b"labels": [0] * 20} | change)
    assert said in refused(load, "cifar10", path=str(folder))


def test_damaged_files_are_refused(tmp_path, write, refused):
    folder = tmp_path / FOLDER
    write.cifar10(folder)
    whole = (folder / "data_batch_1").read_bytes()
    for content in (b"", whole[:1000], whole[:-1], b"\x80\x02]."):
        (folder / "data_batch_1").write_bytes(content)
        assert "data_batch_1" in refused(load, "cifar10", path=str(folder))
    (folder / "data_batch_1").unlink()
    assert "data_batch_1" in refused(load, "cifar10", path=str(folder))
    write.python2(folder / "data_batch_1", {b"data": ROWS})
    assert "no 'labels'" in refused(load, "cifar10", path=str(folder))


def member(name, kind=tarfile.REGTYPE, **options):
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in options.items():
        setattr(info, key, value)
    return lambda tar: tar.addfile(info, io.BytesIO(bytes(info.size)))


@pytest.mark.parametrize(
    "change",
    [
        member("../../evil"),
        member("/etc/evil"),
        member(FOLDER + "/../../evil"),
        member("..\\evil"),
        member(FOLDER + "/link", tarfile.SYMTYPE, linkname="/etc/passwd"),
        member(FOLDER + "/hard", tarfile.LNKTYPE, linkname="../../x"),
        member(FOLDER + "/null", tarfile.CHRTYPE),
        member(FOLDER + "/pipe", tarfile.FIFOTYPE),
    ],
)
def test_nothing_but_the_files_of_the_set_is_read_and_nothing_is_written(tmp_path, write, change):
    _, labels = write.cifar10(tmp_path / FOLDER)
    before = set(tmp_path.rglob("*"))
    archive = pack(tmp_path / FOLDER, tmp_path / "a.tar.gz", change)
    assert load("cifar10", path=str(archive)).labels.tolist() == list(labels)
    assert set(tmp_path.rglob("*")) == before | {archive}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_link_or_device_in_place_of_a_file_is_refused(tmp_path, write, refused, kind):
    write.cifar10(tmp_path / FOLDER)
    (tmp_path / FOLDER / "data_batch_3").unlink()
    linked = member(FOLDER + "/data_batch_3", kind, linkname="/etc/passwd")
    archive = pack(tmp_path / FOLDER, tmp_path / "a.tar.gz", linked)
    assert "data_batch_3' is not in the archive" in refused(load, "cifar10", path=str(archive))


def test_an_archive_that_is_too_large_is_refused(tmp_path, refused, monkeypatch):
    archive = tmp_path / "a.tar.gz"
    monkeypatch.setattr("pyrite.data.files.read_unpacked", partial(read_unpacked, most=29_999))
    with tarfile.open(archive, "w:gz") as tar:
        member("big", size=30_000)(tar)
    assert "far larger" in refused(read_members, archive, ["big"])
    with tarfile.open(archive, "w:gz") as tar:
        for number in range(9):
            member(f"part{number}", size=29_999)(tar)
    assert "far larger" in refused(read_members, archive, ["part8"])
    # A header may claim any length for a name, and tarfile would read it into memory.
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        member("x" * 200_000)(tar)
    assert "far larger" in refused(read_members, archive, ["part8"])


def test_archives_that_are_not_whole(tmp_path, write, refused):
    write.cifar10(tmp_path / FOLDER)
    archive = pack(tmp_path / FOLDER, tmp_path / "a.tar.gz")
    whole = archive.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"not an archive at all", whole[:-8]):
        archive.write_bytes(content)
        assert str(archive) in refused(load, "cifar10", path=str(archive))
    (tmp_path / FOLDER / "data_batch_4").unlink()
    pack(tmp_path / FOLDER, archive)
    assert "'cifar-10-batches-py/data_batch_4' is not in the archive" in refused(load, "cifar10", path=str(archive))
