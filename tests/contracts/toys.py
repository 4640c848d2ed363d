"""Two methods that need everything the contract offers. They are not meant to be good."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pyrite.data import Batch
from pyrite.methods import Context, Method, Stages, Step, Trainer


class Pair(Method):
    """Two nets; each learns from the samples whose loss is small for the other. Both predict.

    Args:
        keep: the fraction of a batch that is learned from.
    """

    def __init__(self, keep: float = 0.6) -> None:
        self.keep = keep

    def start(self, context: Context) -> "PairTrainer":
        return PairTrainer(self, context)


class PairTrainer(Trainer):
    whole_batch = True
    saved = (*Trainer.saved, "chosen")

    def __init__(self, method: Pair, context: Context) -> None:
        super().__init__(context, nets=2)
        self.keep, self.chosen = method.keep, 0

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        assert losses is not None
        first, second = ((row <= row.sort().values[max(0, int(self.keep * len(row)) - 1)]).double() for row in losses)
        self.chosen += int(first.sum())
        return torch.stack([second, first])

    def end_epoch(self) -> None:
        self.before, self.chosen = self.chosen, 0

    def facts(self) -> Mapping[str, float]:
        return {"chosen": self.before}


class Relabel(Method):
    """Cross entropy first; its confusions are estimated; then, from the initial weights, with labels that change.

    The targets are a running mean of what was predicted, the labels are replaced at the end of every epoch, and an
    average of the weights predicts.
    """

    def start(self, context: Context) -> Stages:
        def estimate(trainer: Trainer) -> Mapping[str, Tensor]:
            own = context.labels >= 0
            probabilities = context.evaluate(trainer.predict).softmax(1)[own]
            rows = torch.zeros(context.classes, context.classes, dtype=probabilities.dtype)
            return {"confusion": rows.index_add(0, context.labels[own], probabilities)}

        return Stages(
            self, context, 0.5, lambda stage, known: RelabelTrainer(stage, known["confusion"]), estimate=estimate
        )


class RelabelTrainer(Trainer):
    targets: Tensor
    labels: Tensor

    def __init__(self, context: Context, confusion: Tensor) -> None:
        super().__init__(context)
        one_hot = nn.functional.one_hot(context.labels.clamp(min=0), context.classes).to(self.learner.dtype)
        self.register_buffer("targets", one_hot)
        self.register_buffer("labels", context.labels.clone())
        self.prior = (confusion.sum(0) / confusion.sum()).to(one_hot)
        self.average = AveragedModel(self.learner.model, multi_avg_fn=get_ema_multi_avg_fn(0.5), use_buffers=True)

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        if epoch > 1:
            self.labels = torch.where(self.labels >= 0, self.targets.argmax(1), -1)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        pull = -(self.prior * scores.log_softmax(1)).sum(1)
        return super().losses(scores, batch._replace(labels=self.labels[batch.index])) + 0.1 * pull

    def after_step(self, step: Step) -> None:
        self.targets[step.index] = 0.7 * self.targets[step.index] + 0.3 * step.scores.softmax(1)
        self.average.update_parameters(self.learner.model)

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return [self.average.module]

    def facts(self) -> Mapping[str, float]:
        return {"kept": float((self.labels == self.targets.argmax(1)).double().mean())}


TOYS = {"pair": Pair, "relabel": Relabel}
