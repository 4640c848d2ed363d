"""The meta-gradient: the derivative of a meta loss after one training step by what weights the samples of that step.

A weight network V gives every training sample a weight by its loss. One virtual step on the weighted losses leads from
w to ŵ = w − α Σ_i ω_i g_i, with g_i the gradient of sample i's loss and ω_i = V_i / n. With G the gradient of the meta
loss at ŵ, the derivative of that loss by the parameters Θ of V is (Eq. 4 of the gold-samples paper)

    −α Σ_i (G·g_i) ∂ω_i/∂Θ

G·g_i is the derivative of sample i's loss along G: *one* pass in forward mode gives it for all samples, with no second
backward pass, no graph through the virtual step and no rewritten layers. Batch norms in training mode are no exception:
the derivative goes through the statistics of the batch.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from typing import Literal, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call

from pyrite.criterion import Loss
from pyrite.curves import CE, MAE
from pyrite.processes import all_reduce

Normalise = Literal["mean", "sum"]
Weights = dict[str, Tensor]
_PerSample = Callable[[Tensor, Tensor], Tensor]
_Samples = tuple[Tensor, Tensor]  # inputs and labels


class MetaGradient(NamedTuple):
    """``gradients`` of the weight network's parameters, in their order, and the ``products`` G·g_i, one per sample."""

    gradients: tuple[Tensor, ...]
    products: Tensor


def meta_gradient(
    model: nn.Module,
    weight_net: nn.Module,
    batch: tuple[Tensor, Tensor],
    meta: tuple[Tensor, Tensor],
    *,
    lr: float,
    loss: Loss | None = None,
    meta_loss: Loss | None = None,
    normalise: Normalise = "sum",
) -> MetaGradient:
    """The derivative of the meta loss after a virtual step, by the parameters of the weight network.

    The model, its buffers and the random state are left as they were.

    Args:
        model: in training or evaluation mode, as it is.
        weight_net: from a column of losses to a column of weights.
        batch: inputs and labels of the virtual step.
        meta: inputs and labels of the meta loss.
        lr: α, the size of the virtual step.
        loss: what trains the model; cross entropy if None.
        meta_loss: absolute error if None.
        normalise: ``"sum"`` divides weights by their sum, ``"mean"`` by the number of samples.
    """
    passes = Passes(model, per_sample(loss or CE()), per_sample(meta_loss or MAE()))
    with same_draws(model) as again:
        losses = passes.losses(batch)
        with torch.no_grad():
            omega = normalised_weights(weight_net(losses.detach().unsqueeze(1)).reshape(-1), normalise)
        direction = passes.direction(losses, omega, meta, lr)
        with again():
            slopes = passes.slopes(direction, batch, losses.detach())
    gradients = theta_gradient(weight_net, losses.detach(), slopes, normalise)
    return MetaGradient(gradients, -slopes / lr)


def theta_gradient(weight_net: nn.Module, losses: Tensor, slopes: Tensor, normalise: Normalise) -> tuple[Tensor, ...]:
    """The derivative of Σ_i ω_i s_i by the weight network's parameters."""
    omega = normalised_weights(weight_net(losses.unsqueeze(1)).reshape(-1), normalise)
    return torch.autograd.grad(omega @ slopes, list(weight_net.parameters()))


def normalised_weights(weights: Tensor, normalise: Normalise) -> Tensor:
    """ω: what each sample's loss is multiplied by in the objective, from the weights of the whole batch."""
    if normalise == "mean":
        return weights / len(weights)
    weight_sum = weights.sum()
    return weights / torch.where(weight_sum > 0, weight_sum, 1.0)


def per_sample(loss: Loss) -> Loss:
    """The loss with one value per sample."""
    return deepcopy(loss).configure(reduction="none")


@final
class Passes:
    """The passes through a model that a meta-gradient is made of. All leave its buffers as they are."""

    def __init__(self, model: nn.Module, loss: _PerSample, meta_loss: _PerSample) -> None:
        self.model, self.loss, self.meta_loss = model, loss, meta_loss
        self._forward_mode = True
        self.weights: Weights = {name: w for name, w in model.named_parameters() if w.requires_grad}

    def scores(self, inputs: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Scores with a graph, of the model or with other weights in it."""
        tensors = {id(self.weights[name]): new for name, new in (weights or {}).items()}
        tensors |= {id(buffer): buffer.clone() for buffer in self.model.buffers()}
        # Every tensor once per module that holds it. Where a module has two names, torch's own ``tie_weights`` would
        # replace its tensors twice, and would not restore the first ones.
        replaced = {
            f"{prefix}.{name}".lstrip("."): tensors[id(old)]
            for prefix, module in self.model.named_modules()
            for name, old in (*module._parameters.items(), *module._buffers.items())
            if id(old) in tensors
        }
        scores: Tensor = functional_call(self.model, replaced, (inputs,), tie_weights=False)
        return scores

    def losses(self, batch: _Samples, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """The training losses of a batch."""
        return self.loss(self.scores(batch[0], weights), batch[1])

    def direction(
        self, losses: Tensor, omega: Tensor | None, meta: _Samples, lr: float, *, keep: bool = False
    ) -> Weights:
        """The direction along which a sample's loss must fall for its ω to grow: −α G, with α = ``lr``.

        The graph of the losses is kept if ``keep``. Without ω, G is that at the weights as they are.
        """
        names, moved = list(self.weights), {name: w.detach() for name, w in self.weights.items()}
        if omega is not None:
            weights = list(self.weights.values())
            parts = torch.autograd.grad(losses @ omega, weights, retain_graph=keep, materialize_grads=True)
            moved = {name: moved[name] - lr * all_reduce(part) for name, part in zip(names, parts, strict=True)}
        leaves = {name: w.requires_grad_() for name, w in moved.items()}
        values = self.meta_loss(self.scores(meta[0], leaves), meta[1])
        mean = values.sum() / all_reduce(values.new_full((), len(values)))
        meta_parts = torch.autograd.grad(mean, list(leaves.values()), materialize_grads=True)
        return {name: -lr * all_reduce(part) for name, part in zip(names, meta_parts, strict=True)}

    def slopes(self, direction: Weights, batch: _Samples, losses: Tensor) -> Tensor:
        """The derivative of each sample's loss along ``direction``, in one forward-mode pass."""
        if self._forward_mode:
            state = torch.get_rng_state()
            try:
                return self._along(direction, batch, losses)
            except (NotImplementedError, RuntimeError) as error:
                if not re.search(r"forward( mode)? AD", str(error)):  # torch's message for a layer without it
                    raise
                self._forward_mode = False
                torch.set_rng_state(state)
                warnings.warn(
                    f"{type(self.model).__name__} has no derivative in forward mode ({str(error).splitlines()[0]}): "
                    "its meta-gradient is computed by differentiating twice, which takes longer and more memory",
                    stacklevel=2,
                )
        return self._twice(direction, batch)

    @torch.no_grad()
    def _along(self, direction: Weights, batch: _Samples, losses: Tensor) -> Tensor:
        with forward_ad.dual_level():
            duals = {name: forward_ad.make_dual(w.detach(), direction[name]) for name, w in self.weights.items()}
            tangent = forward_ad.unpack_dual(self.losses(batch, duals)).tangent
            return torch.zeros_like(losses) if tangent is None else tangent.detach().clone()

    def _twice(self, direction: Weights, batch: _Samples) -> Tensor:
        """The same by two backward passes: the first is linear in its cotangent, by which the second differentiates."""
        leaves = {name: w.detach().requires_grad_() for name, w in self.weights.items()}
        losses = self.losses(batch, leaves)
        cotangent = torch.zeros_like(losses, requires_grad=True)
        parts = torch.autograd.grad(losses, list(leaves.values()), cotangent, create_graph=True, materialize_grads=True)
        product = torch.stack([(part * direction[name]).sum() for name, part in zip(leaves, parts, strict=True)]).sum()
        return torch.autograd.grad(product, cotangent)[0]


@contextmanager
def same_draws(model: nn.Module) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Yield ``again``, in which random layers repeat their first draws; torch's random state is restored on exit."""
    device = next(iter(model.parameters())).device
    gpus = [device] if device.type == "cuda" else []
    states = torch.get_rng_state(), [torch.cuda.get_rng_state(gpu) for gpu in gpus]

    @contextmanager
    def again() -> Iterator[None]:
        with torch.random.fork_rng(devices=gpus):
            torch.set_rng_state(states[0])
            for gpu, state in zip(gpus, states[1], strict=True):
                torch.cuda.set_rng_state(state, gpu)
            yield

    with torch.random.fork_rng(devices=gpus):
        yield again
