"""The compiled kernel (``kernel.c``): its library, if one was built with the package, and calls of it on tensors.

Nothing needs it. Where there is no library, and where torch must see the operations, those of ``soft_margin`` compute
the same numbers.
"""

import ctypes
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
_ROWS: list[Any] = [
    _Int,
    _Pointer,
    _Long,
    _Long,
    _Long,
    _Pointer,
    _Long,
]  # dtype, rows, stride, count, classes, labels, ignored
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
    found.pyrite_forward.argtypes = [*_ROWS, _Int, _Pointer, _Pointer, _Long, *[_Pointer] * 4, _Int]
    found.pyrite_backward.restype = None
    found.pyrite_backward.argtypes = [*_ROWS, *[_Pointer] * 4, _Double, _Pointer, _Int]
    return found


def transformed(tensor: Tensor) -> bool:
    """Whether torch.compile, torch.func or forward-mode differentiation is active, which need plain operations."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()  # what autograd.Function.apply asks too
        or torch._C._functorch.is_legacy_batchedtensor(tensor)  # torch.autograd.grad(..., is_grads_batched=True)
        or forward_ad.unpack_dual(tensor).tangent is not None
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
        and torch._C._len_torch_dispatch_stack() == 0  # FakeTensorMode and the like make tensors without memory
        and library() is not None
    )


def margins(rows: Tensor, labels: Tensor, with_total: bool) -> Tensor:
    """Numbers of each row, (3 or 4, M): the margin, the largest other score, the mass relative to it, the total.

    The scores of a row are contiguous, as are the labels, which are int64.
    """
    numbers = torch.empty((3 + with_total, len(rows)), dtype=torch.float64)
    _forward(rows, labels, _NOT_A_LABEL, with_total, numbers, None, 0, None, None, None, None)
    return numbers


def losses(
    rows: Tensor,
    labels: Tensor,
    terms: tuple[Term, ...],
    ignored: int,
    class_weight: Tensor | None,
    sample_weight: Tensor | None,
    values: Tensor | None,
) -> tuple[Tensor, float, float]:
    """Numbers of each row, (4 or 5, M): the first three of ``margins`` and the derivatives by margin and total; and
    the sums of all losses and of their weights. The losses go to ``values``; weights are contiguous and float64.

    It raises IndexError where a label is neither a class nor ignored.
    """
    array, with_total = _as_array(terms)
    numbers, sums = torch.empty((4 + with_total, len(rows)), dtype=torch.float64), _Sums()
    by_class = None if class_weight is None else class_weight.data_ptr()
    by_sample = None if sample_weight is None else sample_weight.data_ptr()
    out = None if values is None else values.data_ptr()
    _forward(rows, labels, ignored, with_total, numbers, array, len(terms), by_class, by_sample, out, sums)
    return numbers, sums[0], sums[1]


def gradient_of_losses(rows: Tensor, labels: Tensor, numbers: Tensor, ignored: int, factor: Tensor | float) -> Tensor:
    """The gradient by the scores of a sum of ``losses`` with a factor for all, or one for each in float64."""
    start, length = numbers.data_ptr(), 8 * numbers.shape[1]
    d_total = start + 4 * length if len(numbers) > 4 else None
    if isinstance(factor, Tensor):
        return _backward(rows, labels, ignored, start, start + 3 * length, d_total, factor.data_ptr(), 1.0)
    return _backward(rows, labels, ignored, start, start + 3 * length, d_total, None, factor)


def gradient(rows: Tensor, labels: Tensor, numbers: Tensor, d_delta: Tensor, d_total: Tensor | None) -> Tensor:
    """The gradient by the scores of a function with these derivatives by the ``margins`` and totals."""
    total = None if d_total is None else d_total.data_ptr()
    return _backward(rows, labels, _NOT_A_LABEL, numbers.data_ptr(), d_delta.data_ptr(), total, None, 1.0)


def _forward(rows: Tensor, labels: Tensor, ignored: int, with_total: bool, numbers: Tensor, *more: object) -> None:
    bad = library().pyrite_forward(  # type: ignore[union-attr]
        _DTYPES[rows.dtype],
        rows.data_ptr(),
        rows.stride(0),
        *rows.shape,
        labels.data_ptr(),
        ignored,
        with_total,
        numbers.data_ptr(),
        *more,
        torch.get_num_threads(),
    )
    if bad >= 0:
        raise IndexError(f"the label of row {bad} is no class")
    if bad == -2:
        raise MemoryError


def _backward(rows: Tensor, labels: Tensor, ignored: int, *more: object) -> Tensor:
    grad = torch.empty_like(rows, memory_format=torch.contiguous_format)
    library().pyrite_backward(  # type: ignore[union-attr]
        _DTYPES[rows.dtype],
        rows.data_ptr(),
        rows.stride(0),
        *rows.shape,
        labels.data_ptr(),
        ignored,
        *more,
        grad.data_ptr(),
        torch.get_num_threads(),
    )
    return grad


@lru_cache(maxsize=64)
def _as_array(terms: tuple[Any, ...]) -> tuple[ctypes.Array[ctypes.Array[ctypes.c_double]], bool]:
    """Terms as the kernel reads them, and whether any needs the total."""
    return (_Term * len(terms))(*terms), any(term.kind >= KINDS["nce"] for term in terms)
