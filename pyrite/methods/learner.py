"""A model with its optimiser and schedule, and the step that they make from gradients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, final, get_args

import torch
from torch import Tensor, nn

from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.processes import all_reduce_gradients, world_size
from pyrite.settings import Precision

__all__ = ["Learner"]


@final
class Learner:
    """A model with its optimiser. A method makes as many of them as it trains nets.

    Args:
        model: any module from inputs to scores.
        optimiser: of its weights. Its learning rates are those of the beginning; ``factor_at`` scales them.
        factor_at: from a step number, counted from 0, to the share of the learning rate in that step.
        clip: the largest norm a gradient may have; a longer one is shortened to it. Or a function that shortens the
            gradients itself, where one norm for all weights is not what is wanted.
        accumulate: the number of pieces in which a batch goes through the model, to save memory. The step is that of
            the whole batch, except that batch norms normalise each piece by itself.
        precision: ``"bfloat16"`` is torch's autocast. On processors without fast bfloat16 it is slower than float32.
        compiled: run the model through ``torch.compile``.
    """

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
        if precision not in get_args(Precision):
            raise PyriteError(f"precision is {precision!r}, but must be one of {', '.join(get_args(Precision))}")
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not self.weights:
            raise PyriteError("model has no weights to train")
        self.model, self.optimiser, self.factor_at = model, optimiser, factor_at
        self.clip, self.accumulate, self.precision = clip, accumulate, precision
        self.dtype = torch.float64 if precision == "float64" else torch.float32
        self.learning_rates = [float(group["lr"]) for group in optimiser.param_groups]
        self.steps = 0
        self._forward = torch.compile(model) if compiled else model

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self.learning_rates[0] * self.factor_at(self.steps)

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """The batch in the pieces that go through the model, ready for it.

        Several processes always make the same number of pieces, even if some are empty, because their batch norms wait
        for each other.
        """
        pieces = self.accumulate if world_size() > 1 else max(1, min(self.accumulate, len(batch.labels)))
        for inputs, labels, index in zip(*(part.tensor_split(pieces) for part in batch), strict=True):
            yield Batch(self.ready(inputs), labels, index)

    def ready(self, inputs: Tensor) -> Tensor:
        """Inputs as the model takes them: images with their channels last, with which convolutions are fastest."""
        layout = torch.channels_last if inputs.dim() == 4 else torch.preserve_format
        return inputs.to(self.dtype, memory_format=layout)

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores of inputs that are ``ready``, in training mode."""
        self.model.train()
        with self._autocast(inputs):
            scores: Tensor = self._forward(inputs)
        return scores.to(self.dtype)  # a sum of losses in bfloat16 would keep two digits

    @torch.inference_mode()
    def evaluate(self, inputs: Tensor, model: nn.Module | None = None) -> Tensor:
        """Scores in evaluation mode, of this model or of another one of its kind, such as its average."""
        model = self.model if model is None else model
        model.eval()
        with self._autocast(inputs):
            scores: Tensor = model(self.ready(inputs))
        return scores.to(self.dtype)

    @contextmanager
    def descent(self) -> Iterator[None]:
        """A context for the backward passes of one step: on exit, gradients are summed over processes and applied.

        The objective must have global denominators, so that pieces and processes add up to its gradient.
        """
        self.optimiser.zero_grad(set_to_none=True)
        yield
        all_reduce_gradients(self.weights)
        norm = nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])
        if not norm.isfinite():  # checked before the step, so that the weights are still good
            raise FloatingPointError("the gradient is not finite")
        if callable(self.clip):
            self.clip()
        elif self.clip is not None:
            nn.utils.clip_grads_with_norm_(self.weights, self.clip, norm)
        for group, rate in zip(self.optimiser.param_groups, self.learning_rates, strict=True):
            group["lr"] = rate * self.factor_at(self.steps)
        self.optimiser.step()
        self.steps += 1

    def add_weight(self, weight: nn.Parameter) -> None:
        """Train a weight outside the model too, with the model's optimiser and learning rate, without weight decay.

        It is not part of ``state_dict``; the optimiser's memory of its gradients is.
        """
        self.weights.append(weight)
        self.optimiser.add_param_group({"params": [weight], "lr": self.learning_rates[0], "weight_decay": 0.0})
        self.learning_rates.append(self.learning_rates[0])

    def skip(self) -> None:
        """Count a step without samples: the schedule advances, the weights stay."""
        self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        """The weights, the optimiser's memory of past gradients, and the number of steps."""
        optimiser = {str(number): entry for number, entry in self.optimiser.state_dict()["state"].items()}
        return {"steps": self.steps, "model": self.model.state_dict(), "optimiser": optimiser}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another learner of the same kind stopped."""
        self.model.load_state_dict(state["model"])
        entries = {int(number): entry for number, entry in state["optimiser"].items()}
        self.optimiser.load_state_dict({"state": entries, "param_groups": self.optimiser.state_dict()["param_groups"]})
        self.steps = state["steps"]

    def _autocast(self, inputs: Tensor) -> AbstractContextManager[object]:
        return torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.precision == "bfloat16")
