"""The compiled kernel (``kernel.c``): its library, if one was built with the package, and calls of it on tensors.

Nothing needs it. Where there is no library, and where torch must see the operations, those of ``soft_margin`` compute
the same numbers.
"""

import ctypes
import os
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pyrite.kernel.build import SOURCE, library_name

_NOT_A_LABEL = -(1 << 63)

# As in kernel.c. From "nce" on they are functions of the total too.
_CURVES = ("ce", "focal", "proportional", "gce", "truncated_gce", "sce", "tce", "aul", "agce", "ael", "imae")
KINDS = {kind: float(number) for number, kind in enumerate((*_CURVES, "nce", "total"))}

_DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
_TENSORS = {Tensor, torch.nn.Parameter}
_Double, _Long, _Pointer, _Int = ctypes.c_double, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
# dtype, rows, stride, count, classes, labels, ignored
_ROWS: list[Any] = [_Int, _Pointer, _Long, _Long, _Long, _Pointer, _Long]
_Sums, _Term = _Double * 2, _Double * 6


class Term(NamedTuple):
    """factor * f(scale * margin + shift), where f is a curve with up to two parameters.

    The kinds "nce" and "total" are functions of the margin and of the cross entropy summed over all labels.
    """

    kind: float
    a: float = 0.0
    b: float = 0.0
    factor: float = 1.0
    scale: float = 1.0
    shift: float = 0.0


@cache
def library() -> ctypes.CDLL | None:
    """The library of the source in this folder; None if there is none, or none for this machine."""
    try:
        return load(SOURCE.with_name(library_name()))
    except OSError:
        return None


def load(path: Path) -> ctypes.CDLL:
    """A library, with the types of its calls."""
    found = ctypes.CDLL(str(path))
    found.pyrite_forward.restype = _Long
    found.pyrite_forward.argtypes = [*_ROWS, _Int, _Pointer, _Pointer, _Long, *[_Pointer] * 5, _Int, _Int]
    found.pyrite_backward.restype = None
    found.pyrite_backward.argtypes = [*_ROWS, *[_Pointer] * 4, _Double, _Pointer, _Int]
    return found


def transformed(tensor: Tensor) -> bool:
    """Whether torch.compile, torch.func or forward-mode differentiation is active, which need plain operations."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()  # what autograd.Function.apply asks too
        or torch._C._functorch.is_legacy_batchedtensor(tensor)  # torch.autograd.grad(..., is_grads_batched=True)
        or (forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None)
    )


def takes(rows: Tensor, labels: Tensor) -> bool:
    """Whether the kernel can compute (M, C) rows with (M,) labels. Under torch.compile nothing else is looked at."""
    return (
        not transformed(rows)
        and type(rows) in _TENSORS
        and type(labels) in _TENSORS
        and rows.is_cpu
        and labels.is_cpu
        and rows.dtype in _DTYPES
        and not torch._C._functorch.is_functorch_wrapped_tensor(rows)  # left over from a transform that has ended
        and not torch._C._functorch.is_functorch_wrapped_tensor(labels)
        and torch._C._len_torch_dispatch_stack() == 0  # FakeTensorMode and the like make tensors without memory
        and library() is not None
    )


def forward(
    rows: Tensor,
    labels: Tensor,
    terms: tuple[Term, ...] = (),
    with_total: bool = False,
    ignored: int = _NOT_A_LABEL,
    class_weight: Tensor | None = None,
    sample_weight: Tensor | None = None,
    values: Tensor | None = None,
    gradient: Tensor | None = None,
    mean: bool = False,
) -> tuple[Tensor, float, float]:
    """One pass over (M, C) rows; returns numbers of each row, and the sums of its losses and weights.

    The numbers are margin, largest other score and mass relative to it; then the total, if it is asked for, or, with
    terms, the derivatives of the loss by margin and, if they need it, total. The losses are put into ``values``, and
    the gradient of their sum, or with ``mean`` of their weighted mean, into ``gradient``. The scores of a row are
    contiguous, as are all other tensors; labels are int64, ``gradient`` is as the rows, and the rest is float64.

    IndexError: a label is neither a class nor ignored.
    """
    array, needed = _as_array(terms)
    with_total = needed or with_total
    numbers = torch.empty((3 + with_total + (array is not None), rows.shape[0]), dtype=torch.float64)
    sums = _Sums()
    parts = (class_weight, sample_weight, values, gradient)
    weights, own, out, grad = [None if part is None else part.data_ptr() for part in parts]
    bad = library().pyrite_forward(  # type: ignore[union-attr]
        _DTYPES[rows.dtype], rows.data_ptr(), rows.stride(0), *rows.shape, labels.data_ptr(), ignored,
        with_total, numbers.data_ptr(), array, len(terms), weights, own, out, sums, grad, mean, torch.get_num_threads(),
    )  # fmt: skip
    if bad == -2:
        raise MemoryError
    if bad >= 0:
        raise IndexError(f"the label of row {bad} is no class")
    return numbers, sums[0], sums[1]


def backward(
    rows: Tensor,
    labels: Tensor,
    numbers: Tensor,
    d_delta: Tensor | None = None,
    d_total: Tensor | None = None,
    ignored: int = _NOT_A_LABEL,
    factor: float = 1.0,
    each: Tensor | None = None,
) -> Tensor:
    """The gradient by the scores, of the derivatives by margin and total times ``factor`` and ``each`` row's own.

    The derivatives are those among the ``numbers`` that ``forward`` left, if none are given.
    """
    row, start = 8 * rows.shape[0], numbers.data_ptr()
    grad = torch.empty_like(rows, memory_format=torch.contiguous_format)
    by_delta, by_total = start + 3 * row, start + 4 * row if numbers.shape[0] > 4 else None
    if d_delta is not None:
        by_delta, by_total = d_delta.data_ptr(), None if d_total is None else d_total.data_ptr()
    library().pyrite_backward(  # type: ignore[union-attr]
        _DTYPES[rows.dtype], rows.data_ptr(), rows.stride(0), *rows.shape, labels.data_ptr(), ignored,
        start, by_delta, by_total, None if each is None else each.data_ptr(), factor, grad.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return grad


@lru_cache(maxsize=64)
def _as_array(terms: tuple[Any, ...]) -> tuple[ctypes.Array[ctypes.Array[ctypes.c_double]] | None, bool]:
    """Terms as the kernel reads them, and whether any needs the total."""
    return (_Term * len(terms))(*terms) if terms else None, any(term.kind >= KINDS["nce"] for term in terms)


# With such a processor oneDNN, and so every product of bfloat16 matrices in torch, ends the program with an illegal
# instruction. oneDNN reads the variable when it is first used; a value that the user has set stays.
if (_found := library()) is not None and _found.pyrite_amx_without_tiles():
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
