"""Distributed training with ``torchrun``: rank, world size, all-reduce, and batch norm over all processes.

Every function here also works in a single process, where nothing is communicated. A mean over all processes is a global
sum divided by a global count: the mean of local means is wrong where batches of the processes differ in size.
"""

import atexit
import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.functional import batch_norm

from pyrite.errors import PyriteError
from pyrite.shared_sums import shared_sums

_Kind = TypeVar("_Kind")
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # numbers of glibc's malloc.h


def rank() -> int:
    """The rank of this process; 0 in a single process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """The number of processes; 1 in a single process."""
    return dist.get_world_size() if dist.is_initialized() else 1


def pick_device(device: str) -> str:
    """For "auto" the first of CUDA, MPS and the processor that is available; any other name as it is."""
    if device != "auto":
        return device
    single = int(os.environ.get("WORLD_SIZE", "1")) == 1  # gloo cannot send what is on MPS
    return "cuda" if torch.cuda.is_available() else "mps" if single and torch.backends.mps.is_available() else "cpu"


def local_device(device: str) -> str:
    """The device of this process; ``PyriteError`` if it is not available.

    With "cuda" and several processes, each one uses the GPU of its local rank.
    """
    own = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device == "cuda" and world_size() > 1 else device
    try:
        torch.zeros((), device=own).item()  # a meta tensor has no value
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        if reason.startswith("Expected one of"):  # and a long list of devices, most of them unsupported
            reason = "pass auto, cpu, cuda, cuda:1 or mps"
        raise PyriteError(f"device is {own!r}, which is not available: {reason}") from None
    return own


def fast_bfloat16(device: str) -> bool:
    """Whether a device multiplies bfloat16 faster than float32. Older versions of torch cannot tell for processors."""
    if device.startswith("cuda"):
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities: Callable[[], Mapping[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    return device == "cpu" and any(capabilities().get(name, False) for name in ("avx512_bf16", "amx_bf16"))


@cache
def reuse_memory() -> None:
    """Keep freed memory for the next step instead of returning it to the operating system, where that can be set.

    By default glibc maps every large tensor anew, and each of its pages is a fault: 16 to 28 % of the processor time of
    steps of EfficientNet-Lite0 with 32 and 64 images of 96 pixels. The memory of a run is then kept until the program
    ends, for the whole process. The environment variable ``MALLOC_TRIM_THRESHOLD_`` takes precedence.
    """
    if sys.platform == "linux" and "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        with suppress(AttributeError):  # another C library
            set_option = ctypes.CDLL(None).mallopt
            set_option(_MMAP_MAX, 0)
            set_option(_TRIM_THRESHOLD, 2**31 - 1)


def join(device: str) -> None:
    """Initialise the process group if ``torchrun`` started several processes. It exists until the program ends.

    The group is not destroyed and created again for a second training in the same program: keys of the first group are
    still in torchrun's store, and processes then sometimes wait for each other for ever.
    """
    if device == "cpu":
        reuse_memory()
    single = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if not single and not dist.is_initialized():
        cuda = pick_device(device).startswith("cuda")
        if cuda and pick_device(device) != "cuda":
            raise PyriteError(f"device is {device!r}, but with several processes it must be 'cuda': each has a GPU")
        if cuda:  # before anything is allocated: otherwise every process takes memory of the first GPU
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
        atexit.register(_leave)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def is_lost(error: RuntimeError) -> bool:
    """Whether an error is that of a connection to another process, such as one that was killed."""
    return world_size() > 1 and (isinstance(error, dist.DistError) or "gloo" in str(error))


def all_reduce(value: Tensor) -> Tensor:
    """The sum of a tensor over all processes, without a gradient."""
    value = value.detach()
    if world_size() > 1:
        shared = shared_sums(dist.group.WORLD)
        if shared is not None and shared.fits(value):
            return shared.add(value)
        dist.all_reduce(value := value.clone())
        return value
    return value.clone()


def all_gather(value: _Kind) -> list[_Kind]:
    """The objects of all processes, in order of rank, on every process."""
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values


@contextmanager
def together() -> Iterator[None]:
    """A context that all processes leave together: what one of them raises in it is raised on all."""
    problem = None
    try:
        yield
    except Exception as error:
        if not dist.is_initialized():
            raise
        problem = error
    for found in all_gather(problem):
        if found is not None:
            raise found


def on_first(compute: Callable[[], _Kind]) -> _Kind:
    """What process 0 computes, on every process; what it raises is raised on all of them."""
    with together():
        value = compute() if rank() == 0 else None
    return cast(_Kind, all_gather(value)[0])


def gather(rows: Tensor) -> Tensor:
    """The rows of all processes, in order of rank, on every process, without a gradient."""
    if not dist.is_initialized():
        return rows.detach()
    return torch.cat([part.to(rows.device) for part in all_gather(rows.detach().cpu())])


@torch.no_grad()
def broadcast_weights(model: nn.Module) -> None:
    """Copy weights and buffers of rank 0 to every process."""
    if dist.is_initialized():
        for part in (*model.parameters(), *model.buffers()):
            contiguous = part.contiguous()
            dist.broadcast(contiguous, 0)
            part.copy_(contiguous)


def all_reduce_gradients(weights: list[nn.Parameter]) -> None:
    """Sum the gradients over all processes, in one all-reduce.

    A weight without a gradient on every process keeps ``None``, as in a single process, so that optimisers skip it and
    apply no weight decay to it.
    """
    if not dist.is_initialized():
        return
    parts = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    # On the processor, so that no device is waited for.
    used = all_reduce(torch.tensor([float(weight.grad is not None) for weight in weights]))
    sums = all_reduce(torch.cat([part.reshape(-1) for part in parts])).split([part.numel() for part in parts])
    for weight, part, gradient, is_used in zip(weights, parts, sums, used.tolist(), strict=True):
        weight.grad = part.copy_(gradient.view_as(part)) if is_used else None


def sync_batch_norm(model: nn.Module) -> nn.Module:
    """Replace every batch norm by one over the batches of all processes. With one process nothing is changed.

    torch's ``SyncBatchNorm`` works on GPUs only.
    """
    if world_size() == 1:
        return model
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                setattr(parent, name, _SharedNorm(child))
    return _SharedNorm(model) if isinstance(model, nn.modules.batchnorm._BatchNorm) else model


@final
class _AllReduce(torch.autograd.Function):
    """A sum over all processes that gradients flow through: the backward pass sums the gradients of all processes."""

    @staticmethod
    def forward(context: Any, value: Tensor) -> Tensor:
        return all_reduce(value)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        summed: Tensor = _AllReduce.apply(gradient)  # which may be differentiated again
        return summed

    @staticmethod
    def jvp(context: Any, tangent: Tensor) -> Tensor:
        return all_reduce(tangent)


class _Norm(NamedTuple):
    """The result of a batch norm over all processes, with mean and variance of all values, and their number."""

    out: Tensor
    mean: Tensor
    variance: Tensor
    size: float


def _plain_norm(inputs: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> _Norm:
    """By operations that can be differentiated any number of times, backward and forward."""
    axes, dtype, features = [0, *range(2, inputs.dim())], inputs.dtype, inputs.shape[1]
    inputs = inputs.to(torch.promote_types(dtype, torch.float32))  # sums in half precision have three digits
    # On the processor, so that no device is waited for.
    size = float(all_reduce(torch.tensor(inputs.numel() / features, dtype=torch.float64)))
    shape = [1, -1, *[1] * (inputs.dim() - 2)]
    mean = _AllReduce.apply(inputs.sum(axes)) / max(size, 1.0)
    centred = inputs - mean.view(shape)
    variance = _AllReduce.apply((centred * centred).sum(axes)) / max(size, 1.0)
    out: Tensor = centred * (variance + eps).rsqrt().view(shape)
    if weight is not None and bias is not None:
        out = out * weight.view(shape) + bias.view(shape)
    return _Norm(out.to(dtype), mean.detach(), variance.detach(), size)


@final
class _FusedNorm(torch.autograd.Function):
    """The same on the processor, by torch's fused kernels, with one all-reduce in place of three."""

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        zeros = inputs.new_zeros(inputs.shape[1], dtype=torch.promote_types(inputs.dtype, torch.float32))
        mean, variance = zeros, zeros
        if inputs.numel():
            mean, variance = torch.batch_norm_update_stats(inputs, zeros, zeros.clone(), 0.0)
        mean, variance = mean.double(), variance.double()
        count = torch.full_like(zeros, inputs.numel() / inputs.shape[1], dtype=torch.float64)
        size, mean, square = all_reduce(torch.stack([count, count * mean, count * (variance + mean * mean)]))
        mean, square = mean / size.clamp(min=1), square / size.clamp(min=1)
        variance = (square - mean * mean).clamp(min=0).to(zeros)
        mean = mean.to(zeros)
        out = batch_norm(inputs, mean, variance, weight, bias, False, 0.0, eps)
        context.save_for_backward(inputs, weight, bias, mean, variance)
        context.eps, context.size = eps, float(size[0])
        size = size[0].clone()
        context.mark_non_differentiable(mean, variance, size)
        return out, mean, variance, size

    @staticmethod
    def backward(context: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, bias, mean, variance = context.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated
            leaves = [part for part in (inputs, weight, bias) if part is not None]
            out = _plain_norm(inputs, weight, bias, context.eps).out
            found = iter(torch.autograd.grad(out, leaves, gradient, create_graph=True))
            return *(None if part is None else next(found) for part in (inputs, weight, bias)), None
        scale = torch.ones_like(mean) if weight is None else weight
        by_input, by_scale, by_shift = torch.zeros_like(inputs), torch.zeros_like(mean), torch.zeros_like(mean)
        if inputs.numel():  # as if mean and variance were constants
            by_input, by_scale, by_shift = torch.ops.aten.native_batch_norm_backward(
                gradient, inputs, scale, mean, variance, None, None, False, context.eps, [True, True, True]
            )
        shift, slope = (all_reduce(torch.stack([by_shift, by_scale]).double()) / max(context.size, 1.0)).to(mean)
        inverse = (variance + context.eps).rsqrt()
        slope = scale * inverse * inverse * slope
        shape = [1, -1, *[1] * (inputs.dim() - 2)]
        by_input = by_input.addcmul_(inputs, -slope.view(shape).to(inputs)).add_(
            (slope * mean - scale * inverse * shift).view(shape).to(inputs)
        )
        return by_input, None if weight is None else by_scale, None if bias is None else by_shift, None


@final
class _SharedNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over all processes. It shares parameters and buffers, with their names, with the norm it replaces."""

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        self._parameters, self._buffers = norm._parameters, norm._buffers
        self.train(norm.training)

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training:
            return super().forward(inputs)
        if inputs.device.type == "cpu" and forward_ad._current_level < 0:
            out, mean, variance, count = _FusedNorm.apply(inputs, self.weight, self.bias, self.eps)
            size = float(count)
        else:
            out, mean, variance, size = _plain_norm(inputs, self.weight, self.bias, self.eps)
        if size == 1:  # as in torch: the variance of one value is not defined
            raise PyriteError(f"a batch norm over {self.num_features} features was given a single sample")
        if size:  # 0 if the batch is empty on every process
            self._update_statistics(mean, variance * size / (size - 1))
        return out  # type: ignore[no-any-return]

    def _check_input_dim(self, inputs: Tensor) -> None:
        """Any shape is accepted."""

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, variance: Tensor) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        factor = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean += factor * (mean - self.running_mean)
        self.running_var += factor * (variance - self.running_var)
