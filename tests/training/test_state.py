"""What goes into a state comes out of it, to the bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from pyrite.training.run_folder import pack, unpack

STATE = {
    "steps": 7,
    "share": 0.1 + 0.2,
    "tiny": 5e-324,
    "none": None,
    "flag": True,
    "history": [{"loss": 1 / 3, "test": None}, {"loss": float("nan"), "test": 1.0}],
    "model": {
        "weight": torch.arange(24.0).view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
        "count": torch.tensor(3),
        "half": torch.tensor([1.5], dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
    },
    "optimiser": {"0": {"step": torch.tensor(4.0), "momentum": torch.ones(2, dtype=torch.float64)}},
    "method": {},
    "rows": {"index": np.array([3, 1]), "seen": np.array([True, False]), "nan": np.array([np.nan]), "n": np.int64(4)},
}


def same(one: object, other: object) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    return repr(one) == repr(other) and type(one) is type(other)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.write_bytes(pack(STATE))
    found = unpack(path)
    wanted = {**STATE, "rows": {**STATE["rows"], "n": 4}}  # type: ignore[dict-item]
    assert same(wanted, found)
    assert pack(found) == path.read_bytes()
    found["model"]["weight"][0] = 0  # what is read may be written to
    found["rows"]["index"][0] = 0


def test_weights_that_are_one_are_both_kept(tmp_path: Path) -> None:
    weight = torch.ones(3)
    (tmp_path / "state").write_bytes(pack({"a": weight, "b": weight, "c": weight[1:]}))
    found = unpack(tmp_path / "state")
    assert [tuple(found[name].shape) for name in "abc"] == [(3,), (3,), (2,)]


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04pickle", save({"a": np.zeros(3)}), save({"a": np.zeros(3)}, {"state": "{"})]
)
def test_what_is_no_state(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"cannot read the state {path}"):
        unpack(path)


def test_what_cannot_be_packed() -> None:
    with pytest.raises(TypeError):
        pack({"a": object()})


def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    whole = pack(
        {"a": torch.arange(6).reshape(2, 3), "b": {"c": np.zeros((0, 2)), "d": [1.5, "x"]}, "e": torch.ones(())}
    )
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            same = pack(unpack(path)) == whole
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            assert same, place  # the length of the header is padded with spaces, of which one may be a tab
