import subprocess
import sys

import numpy as np
import pytest
import torch

from pyrite.arrays import check_same_length, to_flags, to_floats, to_ints


def test_torch_is_not_loaded_for_diagnostics() -> None:
    code = "import sys, pyrite.diagnostics; print([m for m in ('torch', 'sklearn', 'matplotlib') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_every_precision(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0.5, -2.0], dtype=dtype, requires_grad=True)
    values = to_floats(tensor, "x")
    assert values.dtype == np.float64
    assert values.tolist() == [0.5, -2.0]
    assert to_ints(torch.tensor([3, 4], dtype=torch.int32), "y").tolist() == [3, 4]
    assert to_flags(torch.tensor([True, False]), "z").tolist() == [True, False]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: to_floats([0.0, np.nan], "scores"), "scores is nan at index 1"),
        (lambda: to_floats([0.0, np.inf], "scores"), "scores is inf at index 1"),
        (lambda: to_floats([[0.0, 1.0], [0.0, np.nan]], "rows", ndim=2), r"rows is nan at index \(1, 1\)"),
        (lambda: to_floats([[0.0]], "scores"), r"scores has the shape \(1, 1\)"),
        (lambda: to_floats(["a"], "scores"), "scores has the dtype"),
        (lambda: to_floats([1j], "scores"), "scores has the dtype complex128"),
        (lambda: to_floats([[1.0], [1.0, 2.0]], "scores"), "scores cannot be read as an array"),
        (lambda: to_ints([1.0], "labels"), "labels has the dtype float64"),
        (lambda: to_ints([0, -1], "labels", least=0), "labels is -1 at index 1"),
        (lambda: to_ints(np.array([0, 2**63], np.uint64), "labels"), "labels is 9223372036854775808 at index 1"),
        (lambda: to_floats(np.ma.masked_equal([0.0, 1.0], 1), "scores"), "scores cannot be read .* masked values"),
        (lambda: to_flags([0, 2], "is_wrong"), "is_wrong is .*2.* at index 1"),
        (lambda: to_flags([0.0], "is_wrong"), "is_wrong is .*0.0.* at index 0"),
        (lambda: check_same_length(a=np.zeros(2), b=np.zeros(3)), "lengths differ: a 2, b 3"),
    ],
)
def test_bad_arrays_are_refused_by_name_and_place(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=words):
        call()


def test_what_is_allowed() -> None:
    assert to_floats([np.inf, -np.inf], "scores", infinite=True).tolist() == [np.inf, -np.inf]
    assert to_flags([0, 1], "is_wrong").tolist() == [False, True]
    assert to_ints([], "labels").tolist() == []
