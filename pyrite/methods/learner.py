"""What every method has in its hands: a model, its optimiser, and how a gradient becomes a step."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, NamedTuple, final, get_args

import torch
from torch import Tensor, nn

from pyrite.data import Batch
from pyrite.processes import all_reduce_gradients, world_size

__all__ = ["Learner", "Precision", "Step"]

Precision = Literal["float32", "float64", "bfloat16"]


class Step(NamedTuple):
    """What a step shows of itself to observers.

    Attributes:
        index: the numbers of this process's samples; the three that follow have a row for each of them.
        scores: what the model gave them, before the step.
        margin: Δ of the given label.
        weight: how much the sample counted: half the L1 norm of its loss's gradient by the scores. For a curve this
            is w(Δ), because ∇L = −w ∇Δ and the L1 norm of ∇Δ is 2.
        loss: the mean loss of the whole batch, over all processes.
        share: what that mean was divided by: the number of samples, or the sum of their class weights.
        rate: the learning rate of the step.
        trust: what the method multiplied each sample's loss by; None if it does not weigh samples.
    """

    index: Tensor  # type: ignore[assignment]
    scores: Tensor
    margin: Tensor
    weight: Tensor
    loss: float
    share: float
    rate: float
    trust: Tensor | None = None

    @property
    def prediction(self) -> Tensor:
        """The class with the highest score."""
        return self.scores.argmax(1)

    @classmethod
    def empty(cls, batch: Batch, rate: float) -> "Step":
        """What a batch shows in which no sample counts."""
        none = torch.zeros(0, dtype=torch.float64)
        return cls(batch.index[:0], none.view(0, 1), none, none, 0.0, 0.0, rate)


@final
class Learner:
    """A model with its optimiser.

    Args:
        model: any module from inputs to scores.
        optimiser: of its weights. Its learning rates are those of the beginning; ``share_at`` scales them.
        share_at: what share of the learning rate step number 0, 1, ... has.
        clip: the largest norm a gradient may have; a longer one is shortened to it.
        accumulate: in how many pieces a batch goes through the model, one after the other, for less memory. The step is
            that of the whole batch, but that a batch norm sees each piece alone.
        precision: ``"bfloat16"`` is torch's autocast. On processors without fast bfloat16 it is slower than float32.
        compiled: run the model through ``torch.compile``.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        share_at: Callable[[int], float] = lambda step: 1.0,
        *,
        clip: float | None = None,
        accumulate: int = 1,
        precision: Precision = "float32",
        compiled: bool = False,
    ) -> None:
        if precision not in get_args(Precision):
            raise ValueError(f"precision is {precision!r}, but must be one of {', '.join(get_args(Precision))}")
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not self.weights:
            raise ValueError("model has no weights to train")
        self.model, self.optimiser, self.share_at = model, optimiser, share_at
        self.clip, self.accumulate, self.precision = clip, accumulate, precision
        self.dtype = torch.float64 if precision == "float64" else torch.float32
        self.rates = [float(group["lr"]) for group in optimiser.param_groups]
        self.steps = 0
        self._forward = torch.compile(model) if compiled else model

    @property
    def rate(self) -> float:
        """The learning rate of the step that comes next."""
        return self.rates[0] * self.share_at(self.steps)

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """The batch in the pieces that go through the model, ready for it.

        Several processes always make the same number of pieces, be some of them empty: their batch norms wait for
        each other.
        """
        pieces = self.accumulate if world_size() > 1 else max(1, min(self.accumulate, len(batch.labels)))
        for inputs, labels, index in zip(*(part.tensor_split(pieces) for part in batch), strict=True):
            yield Batch(self.ready(inputs), labels, index)

    def ready(self, inputs: Tensor) -> Tensor:
        """Inputs as the model takes them: images with their channels last, which convolutions are fastest with."""
        layout = torch.channels_last if inputs.dim() == 4 else torch.preserve_format
        return inputs.to(self.dtype, memory_format=layout)

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of what is ``ready``, in training mode."""
        self.model.train()
        with self._autocast(inputs):
            scores: Tensor = self._forward(inputs)
        return scores.to(self.dtype)  # a sum of losses in bfloat16 would keep two digits

    @torch.inference_mode()
    def evaluate(self, inputs: Tensor) -> Tensor:
        """Scores as they will be when the model is used."""
        self.model.eval()
        with self._autocast(inputs):
            scores: Tensor = self.model(self.ready(inputs))
        return scores.to(self.dtype)

    @contextmanager
    def descent(self) -> Iterator[None]:
        """Around the backward passes of a step: their gradients, of all processes, add up; then one step is made.

        The objective's denominators are global, so that what the processes and pieces add up to is its gradient.
        """
        self.optimiser.zero_grad(set_to_none=True)
        yield
        all_reduce_gradients(self.weights)
        length = nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])
        if not length.isfinite():  # before the step, so that the weights are still good
            raise FloatingPointError("the gradient is not finite")
        if self.clip is not None:
            nn.utils.clip_grads_with_norm_(self.weights, self.clip, length)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.share_at(self.steps)
        self.optimiser.step()
        self.steps += 1

    def _autocast(self, inputs: Tensor) -> AbstractContextManager[object]:
        return torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.precision == "bfloat16")
