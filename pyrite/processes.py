"""Several processes, started by ``torchrun``, that train one model: ranks, sums over all, shared statistics.

With one process every function here works too, and nothing is sent. A mean over all processes is a global sum divided
by a global count, because the mean of local means is wrong where the shares of a batch differ in size.
"""

import atexit
import os
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = [
    "all_gather",
    "all_reduce",
    "all_reduce_gradients",
    "broadcast_weights",
    "differentiable_all_reduce",
    "join",
    "local_device",
    "rank",
    "sync_batch_norm",
    "world_size",
]

Kind = TypeVar("Kind")


def rank() -> int:
    """The number of this process, 0 if it is alone."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def local_device(device: str) -> str:
    """The device of this process: of several that ask for "cuda", each has a card of its own."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device == "cuda" and world_size() > 1 else device


def join(device: str) -> None:
    """Join the processes that ``torchrun`` started, if it did. They stay together until the program ends.

    Left and joined anew, as two trainings in one program would, processes now and then wait for each other forever:
    what the first meeting wrote on torchrun's board is still there at the second.
    """
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if not alone and not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        atexit.register(_leave)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def all_reduce(value: Tensor) -> Tensor:
    """A sum over all processes, without a gradient."""
    value = value.detach().clone()
    if dist.is_initialized():
        dist.all_reduce(value)
    return value


def all_gather(thing: Kind) -> list[Kind]:
    """The objects of all processes, by rank, at every process."""
    if not dist.is_initialized():
        return [thing]
    things: list[Any] = [None] * world_size()
    dist.all_gather_object(things, thing)
    return things


@torch.no_grad()
def broadcast_weights(model: nn.Module) -> None:
    """Give every process the weights and buffers of the first."""
    if dist.is_initialized():
        for part in (*model.parameters(), *model.buffers()):
            contiguous = part.contiguous()
            dist.broadcast(contiguous, 0)
            part.copy_(contiguous)


def all_reduce_gradients(weights: list[nn.Parameter]) -> None:
    """Add up the gradients of all processes in one message.

    A weight that has none at any process keeps none, as with one process: optimisers leave it alone, decay and all.
    """
    if not dist.is_initialized():
        return
    parts = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    used = parts[0].new_tensor([weight.grad is not None for weight in weights])
    flat = torch.cat([part.reshape(-1) for part in parts] + [used])
    dist.all_reduce(flat)
    *totals, used = flat.split([*(part.numel() for part in parts), len(weights)])
    for weight, part, sums, anywhere in zip(weights, parts, totals, used.tolist(), strict=True):
        weight.grad = part.copy_(sums.view_as(part)) if anywhere else None


def sync_batch_norm(model: nn.Module) -> nn.Module:
    """Let every batch norm see the batch of all processes, as one process would; a lone process changes nothing.

    torch's ``SyncBatchNorm`` is for graphics cards alone.
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
    """A sum over all processes that gradients flow through: each process's share moves the objective of all."""

    @staticmethod
    def forward(context: Any, value: Tensor) -> Tensor:
        return all_reduce(value)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return all_reduce(gradient)

    @staticmethod
    def jvp(context: Any, tangent: Tensor) -> Tensor:
        return all_reduce(tangent)


def differentiable_all_reduce(value: Tensor) -> Tensor:
    """A sum over all processes that gradients flow through."""
    summed: Tensor = value if world_size() == 1 else _AllReduce.apply(value)
    return summed


@final
class _SharedNorm(nn.modules.batchnorm._BatchNorm):
    """A batch norm over all processes. It takes over weights and statistics under their own names."""

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        self._parameters, self._buffers = norm._parameters, norm._buffers
        self.train(norm.training)

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training:
            return super().forward(inputs)
        places = [0, *range(2, inputs.dim())]
        size = all_reduce(inputs.new_tensor(inputs.numel() / self.num_features))
        if size == 1:  # as torch's: there is nothing to normalise by
            raise ValueError(f"a batch norm over {self.num_features} features was given a single sample")
        shape = [1, -1, *[1] * (inputs.dim() - 2)]
        mean = _AllReduce.apply(inputs.sum(places)) / size
        away = inputs - mean.view(shape)
        variance = _AllReduce.apply((away * away).sum(places)) / size
        if size:  # none at all, if a batch is cut into more pieces than it has samples
            self._remember(mean.detach(), variance.detach() * size / (size - 1))
        out: Tensor = away * (variance + self.eps).rsqrt().view(shape)
        return out if self.weight is None else out * self.weight.view(shape) + self.bias.view(shape)

    def _check_input_dim(self, inputs: Tensor) -> None:
        """Any shape: the batch norm that is replaced has its own check."""

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)
