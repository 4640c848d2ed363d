"""A device made of the processor's memory that counts the waits for it and has no float64, as Apple's GPUs have none.

torch takes it for an accelerator: every operation on its tensors comes to ``_run``, which makes it on the tensor of the
processor that is kept for each of them. Strides are those of contiguous tensors, so a few operations do not work. It is
set up once in a process, for which reason tests use it in processes of their own.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import pyrite.soft_margin

NAME = "counting"
WAITS: list[str] = []  # what the processor waited for
REFUSED = {torch.float64}

# What depends on values has to be read by the processor.
_READS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "bincount", "_unique2", "unique_consecutive"}
_KEYS = "CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"
_OWN: dict[int, Tensor] = {}  # the processor's tensor, by the storage of the device's


class _Backend:
    """What torch asks of the module of a device."""

    is_available = is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = staticmethod(lambda seed: None)
    get_rng_state = staticmethod(lambda device=None: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, device=None: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.float16, torch.bfloat16])


def own(value: Any) -> Any:
    """The processor's tensor of one of the device; any other value as it is."""
    return _OWN[value.untyped_storage()._cdata] if _is_here(value) else value


def _is_here(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type == NAME


def _kept(tensor: Tensor) -> Tensor:
    if tensor.dtype in REFUSED:
        raise TypeError(f"the device has no {tensor.dtype}")
    with torch.inference_mode(False):
        here: Tensor = torch._C._acc.create_empty_tensor(list(tensor.shape), tensor.dtype)  # type: ignore[attr-defined]
    _OWN[here.untyped_storage()._cdata] = tensor
    return here


def _note(name: str, args: Any, options: dict[str, Any]) -> None:
    by_flags = name.startswith(("index", "_index_put")) and any(
        isinstance(part, Tensor) and part.dtype == torch.bool for part in pytree.tree_leaves(args[1])
    )
    if name in _READS or by_flags:
        WAITS.append(name)
    crosses = name in ("copy_", "_copy_from") and args[0].device != args[1].device
    if crosses and not (args[2] if len(args) > 2 else options.get("non_blocking")):
        WAITS.append(name)


def _run(op: Any, *args: Any, **options: Any) -> Any:
    name = op._schema.name.removeprefix("aten::")
    _note(name, args, options)
    before = {id(own(value)): value for value in pytree.tree_leaves((args, options)) if _is_here(value)}
    inner, named = pytree.tree_map(own, (args, options))
    if named.get("device") is not None:
        named["device"] = "cpu"
    named |= {"pin_memory": False} if "pin_memory" in named else {}
    # Numbers arrive where torch has tensors that stand for numbers.
    expected = [str(argument.type) for argument in op._schema.arguments]
    inner = tuple(
        torch.tensor(value) if kind == "Tensor" and isinstance(value, int | float) else value
        for value, kind in zip(inner, expected, strict=False)
    )
    if name.startswith("_fused_"):  # they take the strides of gradients for those of the weights
        inner = (inner[0], [gradient.contiguous() for gradient in inner[1]], *inner[2:])
    if name == "_copy_from":
        inner[1].copy_(inner[0])
        return args[1]
    if name == "as_strided":  # with the strides of a contiguous tensor
        whole = inner[0].contiguous()
        out = whole.as_strided(inner[1], inner[2], whole.storage_offset() + (inner[3] or 0 if len(inner) > 3 else 0))
    elif name in ("view", "_unsafe_view", "_reshape_alias"):
        out = inner[0].reshape(inner[1])
    else:
        out = op(*inner, **named)
    if name == "_local_scalar_dense":
        return out
    is_view = any(value.alias_info is not None for value in op._schema.returns)

    def kept(value: Tensor) -> Tensor:
        return before[id(value)] if id(value) in before else _kept(value if is_view else value.contiguous())

    return pytree.tree_map_only(Tensor, kept, out)


def _kernel(op: Any) -> Callable[..., Any]:
    return lambda *args, **options: _run(op, *args, **options)


def set_up() -> list[torch.library.Library]:
    """Make the device known to torch, for as long as what is returned exists."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
    pyrite.soft_margin.WITHOUT_FLOAT64.add(NAME)
    every, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(_run, "PrivateUse1")
    names = {"empty.memory_format", "empty_strided", "_copy_from"}
    for full in torch._C._dispatch_get_all_op_names():
        name = full.removeprefix("aten::")
        made = any(torch._C._dispatch_has_kernel_for_dispatch_key(full, key) for key in _KEYS)
        if name != full and (made or name in names):
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            views = op is None or any(r.alias_info and not r.alias_info.is_write for r in op._schema.returns)
            if not views and packet not in ("_to_copy", "copy_", "lift", "lift_fresh"):
                aten.impl(name, _kernel(op), "PrivateUse1")
    copy = Tensor.__deepcopy__

    def deepcopy(self: Tensor, memo: dict[int, Any]) -> Any:
        if not _is_here(self):
            return copy(self, memo)
        new = self.detach().clone()
        return nn.Parameter(new, self.requires_grad) if isinstance(self, nn.Parameter) else new

    Tensor.__deepcopy__ = deepcopy  # type: ignore[method-assign]
    return [every, aten]
