"""Progressive early stopping: later layers, which memorise first, are trained for fewer epochs."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, final

import torch
from torch import Tensor, nn

from pyrite.checks import Count, whole_number
from pyrite.data import Batch
from pyrite.methods.method import Context, Method, Trainer
from pyrite.soft_margin import wide, wide_dtype

_Epochs = Annotated[int, partial(whole_number, least=0)]


@final
@dataclass(repr=False, eq=False)
class PES(Method):
    """Cross entropy for some epochs; new later layers on fixed earlier ones; then training on confident samples.

    After ``warm_up`` epochs, the last quarter of the layers gets new initial weights and is trained for ``block``
    epochs while the others are fixed; then the last layer alone, for ``head`` epochs. From then on the whole net is
    trained. At the beginning of each of these epochs, samples count whose label the net predicts. A class has a weight
    in inverse proportion to the number of its confident samples.

    Bai et al., 2021 ("Understanding and improving early stopping for learning with noisy labels").
    """

    _: KW_ONLY
    warm_up: Count | None = None  # epochs; None: 25, as in the paper for CIFAR-10, or a quarter of a shorter run
    block: _Epochs | None = None  # epochs; None: 7, as in the paper, or a tenth of a shorter run
    head: _Epochs | None = None  # epochs; None: 5, as in the paper, or a tenth of a shorter run

    def start(self, context: Context) -> "PESTrainer":
        return PESTrainer(self, context)


def later_layers(net: nn.Module) -> list[int]:
    """The number of the first weight of the last quarter of the layers with matrices, and of the last one."""
    matrices = [number for number, weight in enumerate(net.parameters()) if weight.dim() > 1]
    return [matrices[-max(1, len(matrices) // 4)], matrices[-1]]


@final
class PESTrainer(Trainer):
    """Steps on all weights or on those of later layers, and on all samples or on confident ones."""

    counted: Tensor

    def __init__(self, method: PES, context: Context) -> None:
        super().__init__(context)
        epochs = context.epochs
        warm_up = method.warm_up or min(25, max(1, epochs // 4))
        block = min(7, max(1, epochs // 10)) if method.block is None else method.block
        head = min(5, max(1, epochs // 10)) if method.head is None else method.head
        self.ends = warm_up, warm_up + block, warm_up + block + head  # the last epochs of the stages
        self.first = later_layers(self.learner.model)
        self.fresh = context.make_learner().model.state_dict()  # the initial state of another net
        self.trainable = [weight.requires_grad for weight in self.learner.model.parameters()]
        ones = torch.ones(context.samples, dtype=wide_dtype(context.device), device=context.device)
        self.register_buffer("counted", ones)  # the weight of each sample

    @property
    def stage(self) -> int:
        """Counted from 0."""
        return sum(self.epoch > end for end in self.ends)

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self._fix_earlier_layers()
        for stage in (1, 2):
            if stage == self.stage and epoch == self.ends[stage - 1] + 1:
                self._renew(self.first[stage - 1])
        if self.stage == 3:
            self._count_confident()

    def _fix_earlier_layers(self) -> None:
        begin = self.first[self.stage - 1] if self.stage in (1, 2) else 0
        weights = self.learner.model.parameters()
        for number, (weight, trainable) in enumerate(zip(weights, self.trainable, strict=True)):
            weight.requires_grad_(trainable and number >= begin)

    def _renew(self, begin: int) -> None:
        """Give all layers from a weight on their new initial state, and the optimiser no memory of them."""
        named = list(self.learner.model.named_parameters())[begin:]
        state = self.learner.model.state_dict()
        for name in list(state)[list(state).index(named[0][0]) :]:
            state[name].copy_(self.fresh[name])
        for _, weight in named:
            for value in self.learner.optimiser.state.get(weight, {}).values():
                if isinstance(value, Tensor):
                    value.zero_()

    def _count_confident(self) -> None:
        labels, augment = self.context.labels, self.context.batches.augment
        mirror = augment is not None and augment.flip != "none"
        scores = self.context.evaluate(partial(self.predict, epoch=self.epoch - 2, mirror=mirror))
        confident = (scores.argmax(1) == labels) & ~scores.isnan().any(1)
        counts = wide(torch.bincount(labels[confident], minlength=self.context.classes))
        weights = (counts.sum() / (counts > 0).sum().clamp(min=1) / counts).where(counts > 0, 0.0)
        self.counted.copy_(weights[labels.clamp(min=0)] * confident)

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor | None:
        return self.counted[batch.index] if self.stage == 3 else None

    def facts(self) -> Mapping[str, float]:
        """The number of the stage and, in the last one, the fraction of confident samples."""
        known = {"stage": self.stage + 1}
        confident = wide(self.counted[self.context.labels >= 0] > 0).mean()
        return known if self.stage < 3 else known | {"confident_fraction": float(confident)}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        self._fix_earlier_layers()
