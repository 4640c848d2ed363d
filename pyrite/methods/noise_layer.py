"""A layer of noise on top of a net, learned with it: from probabilities of true classes to those of given labels."""

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.methods.context import Context
from pyrite.methods.descent import descend
from pyrite.methods.erm import ERM
from pyrite.methods.method import Method, Trainer
from pyrite.methods.staged import Estimate, Stage, Stages, stage_lengths
from pyrite.methods.step import Step
from pyrite.methods.transition import as_estimate, from_confusion
from pyrite.soft_margin import row_margins

__all__ = ["NoiseLayer", "noise_layer_stages"]


def noise_layer_stages(method: Method, context: Context, at: float, structure: Callable[[Tensor], Tensor]) -> Stages:
    """Cross entropy for the share ``at`` of the epochs; then the same net with a noise layer on top.

    The layer starts from the confusion matrix of the first stage, in which ``structure`` sets entries to 0 that the
    layer must not have.
    """
    early, late = stage_lengths(method, context.epochs, at)

    def first(known: Estimate, before: Trainer | None) -> Trainer:
        return ERM(CE()).start(context.stage(context.epochs))

    def estimate(trainer: Trainer) -> Estimate:
        return as_estimate(structure(from_confusion(context.evaluate(trainer.predict), context.labels)))

    def then(known: Estimate, before: Trainer | None) -> Trainer:
        return NoiseLayer(context.stage(context.epochs, before.learners if before else ()), known["matrix"])

    return Stages([Stage(early, first, estimate), Stage(late, then)])


@final
class NoiseLayer(Trainer):
    """Steps on −log Σ_i T[i, y] p_i, by the weights of the net and by those of T = softmax(b), row by row.

    Entries of T that are 0 stay 0. The net alone predicts.

    Args:
        context: what makes the net.
        matrix: T at the beginning.
    """

    def __init__(self, context: Context, matrix: Tensor) -> None:
        learner = context.make_learner()
        self.learners = [learner]
        weights = learner.weights[0]
        self.absent = (matrix == 0).to(weights.device)
        bias = matrix.log().to(weights.device, learner.dtype).masked_fill(self.absent, 0.0)
        self.bias = nn.Parameter(bias)
        learner.add_weight(self.bias)

    def log_matrix(self) -> Tensor:
        """log T in float64."""
        return self.bias.double().masked_fill(self.absent, -torch.inf).log_softmax(1)

    def step(self, batch: Batch) -> Step:
        return descend(self.learners[0], batch, self._cost, torch.tensor(len(batch.labels), device=batch.labels.device))

    def _cost(self, scores: Tensor, piece: Batch) -> Tensor:
        log_p = logsigmoid(row_margins(scores)).double()
        return -torch.logsumexp(self.log_matrix().mT[piece.labels] + log_p, 1)

    def facts(self) -> Mapping[str, float]:
        return {"estimated_noise_rate": 1 - float(self._matrix().diagonal().mean())}

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        return {"noise_layer": self._matrix().numpy()}

    @torch.no_grad()
    def _matrix(self) -> Tensor:
        return self.log_matrix().exp().cpu()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "bias": self.bias.detach()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        with torch.no_grad():
            self.bias.copy_(state["bias"])
