import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.io import loadmat, savemat

from pyrite.data.web import read_table

TABLE = np.arange(20).reshape(5, 4) - 3


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_what_scipy_writes(tmp_path, packed, dtype):
    path = tmp_path / "a.mat"
    table = np.abs(TABLE).astype(dtype)
    others = {"text": "abc", "cell": np.array([1, "a"], object), "no": np.zeros((0, 4)), "complex": np.ones(3) * 1j}
    savemat(path, others | {"a": table[:1, :1], "some_table": table}, do_compression=packed)
    read = read_table(path, "some_table")
    np.testing.assert_array_equal(read, table)
    np.testing.assert_array_equal(read, loadmat(path)["some_table"])
    assert read.dtype == table.dtype
    assert read_table(path, "a").tolist() == [[int(table[0, 0])]]


def whole(packed):
    import io

    file = io.BytesIO()
    savemat(file, {"t": TABLE.astype(float)}, do_compression=packed)
    return file.getvalue()


WHOLE = whole(False), whole(True)


@given(
    packed=st.booleans(),
    changes=st.lists(st.tuples(st.integers(100, 400), st.integers(0, 255)), min_size=1, max_size=5),
    length=st.integers(0, 400),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_refused_and_nothing_worse(tmp_path, packed, changes, length):
    content = bytearray(WHOLE[packed])
    for place, value in changes:
        content[place % len(content)] = value
    path = tmp_path / "a.mat"
    path.write_bytes(content[:length] if length % 3 == 0 else content)
    try:
        said = f"{path}: {read_table(path, 't').size} numbers"
    except ValueError as error:
        said = str(error)
    assert str(path) in said


@pytest.mark.parametrize("packed", [True, False])
def test_every_beginning_is_refused(tmp_path, refused, packed):
    path = tmp_path / "a.mat"
    for length in range(len(WHOLE[packed])):
        path.write_bytes(WHOLE[packed][:length])
        assert str(path) in refused(read_table, path, "t")


def test_a_bomb_takes_no_memory(tmp_path, refused, monkeypatch):
    monkeypatch.setattr("pyrite.data.web.MOST", 2**18)
    path = tmp_path / "a.mat"
    bomb = zlib.compress(bytes(2**24))
    path.write_bytes(WHOLE[0][:128] + (15).to_bytes(4, "little") + len(bomb).to_bytes(4, "little") + bomb)
    tracemalloc.start()
    try:
        assert "too much" in refused(read_table, path, "t")
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


def test_names(tmp_path, refused):
    path = tmp_path / "a.mat"
    path.write_bytes(WHOLE[0])
    assert "no such table" in refused(read_table, path, "u")
    assert "no such file" in refused(read_table, tmp_path / "b.mat", "t")
    for value in ("text", np.ones(3) * 1j, np.array([1, "a"], object), {"field": 1}):
        savemat(path, {"t": value})
        assert "not a table of numbers" in refused(read_table, path, "t")
