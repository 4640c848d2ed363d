"""A model with its optimiser and schedule: the passes through it, and the step that is made from gradients."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Final, TypeVar, final, get_args
from weakref import WeakMethod

import torch
from torch import Tensor, nn

from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.processes import all_reduce_gradients, world_size
from pyrite.settings import Precision

CHECK_EVERY: Final = 50
"""Steps after which a device is read to find out whether all of them were finite."""

FAULTS: Final = ("", "the loss is not finite", "the scores are not finite", "the gradient is not finite")
_GROWING: Final = 0.1  # of the steps so far, over which weights are averaged at first
_Result = TypeVar("_Result")
AUTOCAST: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def weakly(method: Callable[..., _Result]) -> Callable[..., _Result]:
    """A method of an object, without a reference to the object.

    A cycle of references would keep the nets of a run in memory until Python collects cycles, many runs later.
    """
    reference = WeakMethod(method)

    def call(*args: Any) -> _Result:
        found = reference()
        assert found is not None, "its object has ended"
        return found(*args)

    return call


@torch.no_grad()
def follow(average: nn.Module, model: nn.Module, steps: int, window: float) -> None:
    """Update a running mean of a model's weights and statistics over so many steps, at first a tenth of those made."""
    fraction = 1 / (1 + min(window, _GROWING * steps))
    for mean, value in zip(average.state_dict().values(), model.state_dict().values(), strict=True):
        if mean.is_floating_point():
            mean.lerp_(value, fraction)
        else:
            mean.copy_(value)


class Stateful(nn.Module):
    """A module whose ``state_dict`` also has the attributes that ``saved`` names.

    They are numbers, texts, lists of these, tensors of any shape, dictionaries of all of that, or objects with a
    ``state_dict`` of their own.
    """

    saved: ClassVar[tuple[str, ...]] = ()

    def get_extra_state(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in self.saved}
        return {name: part.state_dict() if hasattr(part, "state_dict") else part for name, part in parts.items()}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        for name in self.saved:
            if hasattr(part := getattr(self, name), "load_state_dict"):
                part.load_state_dict(state[name])
            else:
                setattr(self, name, state[name])


@final
class Learner(Stateful):
    """A model with its optimiser, which implements forward and backward passes and steps in any precision.

    Args:
        model: any module that maps inputs to scores.
        optimiser: the optimiser of the weights of the model. ``factor_at`` scales its initial learning rates.
        factor_at: a function that maps the number of a step, counted from 0, to the factor of the learning rate.
        clip: the maximum norm of the gradient, or a function that clips the gradients, if a single norm over all
            weights is not suitable.
        accumulate: the number of pieces into which a batch is divided to save memory. The step equals that of the whole
            batch, except that batch normalisation uses the statistics of each piece.
        precision: ``"bfloat16"`` and ``"float16"`` use the autocast of PyTorch, float16 with scaled losses. On
            processors without fast bfloat16, both are slower than float32.
        compiled: whether to compile the model with ``torch.compile``.

    Attributes:
        deferred: whether steps do not synchronise with the device. The first non-finite number is then recorded on the
            device (``fault``, a number of ``FAULTS``), later steps do not change the weights, and ``Trainer.check``
            raises the error. This requires a fused optimiser, which can skip a step depending on a number on the
            device.

    >>> net = nn.Linear(2, 3)
    >>> learner = Learner(net, torch.optim.SGD(net.parameters(), lr=0.1), clip=1.0)
    >>> learner.scores(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    """

    saved = ("steps", "optimiser_state")

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        factor_at: Callable[[int], float] = lambda step: 1.0,
        *,
        clip: float | Callable[[], None] | None = None,
        accumulate: int = 1,
        precision: Precision = "float32",
        compiled: bool = False,
    ) -> None:
        super().__init__()
        if precision not in get_args(Precision):
            raise PyriteError(f"precision is {precision!r}, but must be one of {', '.join(get_args(Precision))}")
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not self.weights:
            raise PyriteError("model has no weights to train: set requires_grad of some parameters")
        self.model, self.optimiser, self.factor_at = model, optimiser, factor_at
        self.clip, self.accumulate = clip, accumulate
        self.dtype = torch.float64 if precision == "float64" else torch.float32
        self.autocast, device = AUTOCAST.get(precision), self.weights[0].device
        casting = torch.autocast(device.type, self.autocast, enabled=self.autocast is not None)
        # To enter one that changes nothing takes as long as a small layer.
        plain = self.autocast is None and device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        self._casting: AbstractContextManager[None] = nullcontext() if plain else casting
        self.scaler = torch.amp.GradScaler(device.type) if precision == "float16" else None
        self.saved = type(self).saved if self.scaler is None else (*type(self).saved, "scaler")  # type: ignore[misc,assignment]
        self.deferred = device.type != "cpu" and all(group.get("fused") for group in optimiser.param_groups)
        self.fault = torch.zeros((), device=device)
        self.learning_rates = [float(group["lr"]) for group in optimiser.param_groups]
        self.steps, self.processes = 0, world_size()
        # In a partial, because a compiled module would be registered, and its weights saved twice.
        self._forward = partial(torch.compile(model)) if compiled else model.__call__

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self.learning_rates[0] * self.factor_at(self.steps)

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """Divide a batch into the pieces that pass through the model.

        Each piece has at least two samples, because batch normalisation requires them. All processes create the same
        number of pieces, some of which may be empty, because their batch norms exchange statistics.
        """
        pieces = self.accumulate if self.processes > 1 else max(1, min(self.accumulate, len(batch.labels) // 2))
        yield from map(Batch, *(part.tensor_split(pieces) for part in batch))

    def ready(self, inputs: Tensor) -> Tensor:
        """Convert inputs to the memory format of the model: channels last for images, with which convolutions are
        fastest.
        """
        layout = torch.channels_last if inputs.dim() == 4 else torch.preserve_format
        return inputs.to(self.dtype, memory_format=layout)

    def scores(self, inputs: Tensor) -> Tensor:
        """Compute scores in training mode."""
        if not self.model.training:  # to set it in every module takes as long as a small layer
            self.model.train()
        try:
            with self._casting:
                scores: Tensor = self._forward(self.ready(inputs))
        except ValueError as error:
            if len(inputs) != 1 or "more than 1 value per channel" not in str(error):
                raise
            raise PyriteError(
                "the method trains on a single sample, but the net has batch norms, which need 2 or more at a time: "
                "use larger batches, or a net without batch norms"
            ) from None
        return scores.to(self.dtype)  # a sum of losses in bfloat16 would keep two digits

    @torch.inference_mode()
    def evaluate(self, inputs: Tensor, model: nn.Module | None = None) -> Tensor:
        """Compute scores in evaluation mode, with this model or with one of the same kind, such as its average."""
        model = self.model if model is None else model
        model.eval()
        with self._casting:
            scores: Tensor = model(self.ready(inputs))
        return scores.to(self.dtype)

    def backward(self, losses: Tensor, by_loss: Tensor, scores: Tensor) -> Tensor:
        """Run the backward pass from the derivatives with respect to the losses; return those with respect to the
        scores.
        """
        scores.retain_grad()
        scale = None if self.scaler is None else self.scaler.scale(by_loss.new_ones(()))
        losses.backward(by_loss if scale is None else by_loss * scale)
        assert scores.grad is not None
        return scores.grad if scale is None else scores.grad / scale

    def note(self, wrong: Tensor, fault: int) -> None:
        """Record on the device that a number is not finite, unless one was recorded before."""
        self.fault = torch.where((self.fault == 0) & wrong, float(fault), self.fault)

    def update(self, skip: Tensor | None = None) -> float:
        """Sum the gradients over all processes, clip them, and run the optimiser step; return its learning rate.

        The gradients must have global denominators, so that their sum over pieces and processes is the gradient of the
        objective. If ``skip`` is not 0, which is possible only for ``deferred`` steps, the weights do not change. In
        float16, they do not change either if the gradient is not finite; later losses are then scaled less.
        """
        if self.processes > 1:
            all_reduce_gradients(self.weights)
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        if self.scaler is not None:
            if self.deferred:  # the scaler skips what is not finite
                for gradient in gradients:
                    gradient.mul_(torch.where(self._held(skip), torch.nan, 1.0))
            self.scaler.unscale_(self.optimiser)
        # As nn.utils.get_total_norm, which on the CPU takes a call for each gradient.
        norm = torch.stack(torch._foreach_norm(gradients)).norm() if gradients else torch.zeros(())
        if self.scaler is None:  # checked before the step, so that the weights are still good
            if self.deferred:
                self.note(~norm.isfinite(), 3)
            elif not math.isfinite(norm):
                raise FloatingPointError(FAULTS[3])
        if callable(self.clip):
            self.clip()
        elif self.clip is not None:
            nn.utils.clip_grads_with_norm_(self.weights, self.clip, norm)
        factor = self.factor_at(self.steps)
        for group, learning_rate in zip(self.optimiser.param_groups, self.learning_rates, strict=True):
            group["lr"] = learning_rate * factor
        if self.scaler is not None:
            self.scaler.step(self.optimiser)
            self.scaler.update()
        else:
            if self.deferred:
                self.optimiser.found_inf = self._held(skip).float()  # type: ignore[attr-defined]  # as GradScaler does
            self.optimiser.step()
        self.steps += 1
        return self.learning_rates[0] * factor

    def _held(self, skip: Tensor | None) -> Tensor:
        return self.fault > 0 if skip is None else (self.fault > 0) | skip

    def add_weight(self, weight: nn.Parameter) -> None:
        """Train a weight outside the model too, without weight decay. The caller must save it."""
        self.weights.append(weight)
        self.optimiser.add_param_group({"params": [weight], "lr": self.learning_rates[0], "weight_decay": 0.0})
        self.learning_rates.append(self.learning_rates[0])

    @property
    def optimiser_state(self) -> dict[str, Any]:
        """The state of the optimiser, such as momentum, by the indices of the weights."""
        return {str(number): entry for number, entry in self.optimiser.state_dict()["state"].items()}

    @optimiser_state.setter
    def optimiser_state(self, state: Mapping[str, Any]) -> None:
        entries = {int(number): entry for number, entry in state.items()}
        self.optimiser.load_state_dict({"state": entries, "param_groups": self.optimiser.state_dict()["param_groups"]})
