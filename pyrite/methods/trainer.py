"""The training step, once for all methods."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, final

import torch
from torch import Tensor, nn

from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.learner import FAULTS, Learner, Stateful
from pyrite.models import Ensemble, mean_scores
from pyrite.processes import all_reduce, gather, rank, world_size
from pyrite.soft_margin import row_margin, row_margins, wide_dtype

_FEW: Final = 256  # classes up to which the margins of all cost about as much as that of one


@final
@dataclass(frozen=True, eq=False)
class Step:
    """The data of one training step, as passed to observers. Margins and weights are computed on first use.

    Attributes:
        index: the indices of the samples of this process; all tensors have one row for each sample.
        labels: the given labels of the samples.
        scores: the scores of the model before the step.
        gradient: the derivative of the objective (a mean over all processes) with respect to the scores.
        mean: the mean loss of the whole batch over all processes; a tensor on a GPU.
        divisor: the denominator of ``mean``: the number of samples, or the sum of their weights.
        learning_rate: the learning rate of the step.
        trust: the factor that the method applied to the loss of each sample; None if it does not weight samples.
        unseen: scores of nets that are not trained on the sample; None if the method has no such net.
        losses: the loss of each sample before weighting; None if the method has no loss per sample.

    >>> scores = torch.zeros(2, 3)
    >>> step = Step(torch.tensor([4, 7]), torch.tensor([0, 1]), scores, torch.zeros(2, 3), 1.1, 2.0, 0.1)
    >>> step.margin, step.loss
    (tensor([-0.6931, -0.6931]), 1.1)
    """

    index: Tensor
    labels: Tensor
    scores: Tensor
    gradient: Tensor
    mean: float | Tensor
    divisor: float | Tensor
    learning_rate: float
    trust: Tensor | None = None
    unseen: Tensor | None = None
    losses: Tensor | None = None

    @property
    def loss(self) -> float:
        """``mean`` as a number, which synchronises with the device."""
        return float(self.mean)

    @property
    def denominator(self) -> float:
        """``divisor`` as a number, which synchronises with the device."""
        return float(self.divisor)

    @cached_property
    def margin(self) -> Tensor:
        """The margin of the given label. With few classes, it is selected from ``margins``."""
        if self.scores.shape[1] <= _FEW:
            return self.margins.gather(1, self.labels.unsqueeze(1)).squeeze(1)
        return row_margin(self.scores, self.labels).to(self.scores.dtype)

    @cached_property
    def margins(self) -> Tensor:
        """The margins of all classes, each taken as the label."""
        return row_margins(self.scores).to(self.scores.dtype)

    @cached_property
    def weight(self) -> Tensor:
        """The weight of each sample: half the L1 norm of the gradient of its loss with respect to the scores.

        For a curve, this is w(Δ), because ∇L = −w ∇Δ and the L1 norm of ∇Δ is 2.
        """
        return self.gradient.abs().sum(1, dtype=wide_dtype(self.gradient)) * (self.divisor / 2)

    @property
    def prediction(self) -> Tensor:
        """The class with the highest score."""
        return self.scores.argmax(1)

    @classmethod
    def empty(cls, batch: Batch, learning_rate: float) -> "Step":
        """The step of a batch without samples that are trained on."""
        nothing = torch.zeros((0, 2), dtype=wide_dtype(batch.index), device=batch.index.device)
        return cls(batch.index[:0], batch.labels[:0], nothing, nothing, 0.0, 0.0, learning_rate)


class Pass(NamedTuple):
    """A forward pass. If the method needs the whole batch, it has the losses of the samples of all processes."""

    scores: Tensor  # of this process's samples, with their graph
    batch: Batch  # the samples of the losses; its inputs are those of this process
    losses: Tensor  # with their graph
    own: slice  # where this process's samples are among them


class Trainer(Stateful):
    """The training steps of one run: empirical risk minimisation, whose parts a subclass overrides.

    Most methods override ``losses``, ``weights`` and ``after_step``. Per-sample state is a registered buffer with
    ``context.samples`` rows; other state between steps consists of the attributes listed in ``saved``. Both are part of
    ``state_dict``, so a resumed run gives byte-for-byte identical results. With several processes, the trainer of each
    process receives a slice of every batch; only this class communicates with other processes.

    Args:
        context: the context of the run.
        loss: the loss to minimise; cross entropy if None.
        nets: the number of nets to train.

    >>> class HalfWeight(Trainer):
    ...     def weights(self, batch, losses):
    ...         return torch.where(batch.labels % 2 == 1, 0.5, 1.0)  # odd classes count half
    """

    whole_batch: bool = False
    """Whether losses or weights depend on all samples of a batch. Then the batch is not cut in pieces, and ``losses``
    and ``weights`` get the samples of all processes."""

    saved: ClassVar[tuple[str, ...]] = ("epoch",)
    nets: Sequence[Learner]
    trainers: "Sequence[Trainer]"

    def __init__(self, context: Context, loss: Loss | None = None, *, nets: int = 1) -> None:
        super().__init__()
        self.context, self.epoch, self.processes = context, 0, world_size()
        self.loss = deepcopy(CE() if loss is None else loss).configure(reduction="none")
        self.wide = wide_dtype(context.device)
        if self.wide == torch.float64:  # which its buffers, such as class weights, are
            self.loss.to(context.device)
        self.nets = nn.ModuleList(context.make_learner() for _ in range(nets))  # type: ignore[assignment]
        self.deferred = any(net.deferred for net in self.nets)  # whether steps are made without reading the device
        self.trainers = nn.ModuleList()  # type: ignore[assignment]  # those that it is made of, such as its stages
        if self.loss.weight is not None and len(self.loss.weight) != context.classes:
            raise PyriteError(f"weight has {len(self.loss.weight)} numbers, but there are {context.classes} classes")
        couples = any(part.couples for part in self.loss.modules() if isinstance(part, Loss))
        self.whole_batch = self.whole_batch or couples
        for net in self.nets:
            if self.whole_batch and net.accumulate > 1:
                what = str(loss) if couples else "the method"
                raise PyriteError(
                    f"accumulate is {net.accumulate}, but {what} needs the whole batch at once: set it to 1"
                )

    # --- what a method overrides --------------------------------------------------------------------------------------

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        """The loss of each sample, or the total loss if it is not a sum over samples."""
        soft, targets = self.context.soft_labels, batch.labels
        if soft is not None and self.loss.ignore_index < 0:  # a distribution cannot be ignored
            targets = soft[batch.index]
        losses: Tensor = self.loss(scores, targets)
        return losses

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor | None:
        """The factor of the loss of each sample; None if all samples have the same weight.

        The sum of the weights is the denominator of the mean. ``losses`` are detached, with one row per net if there
        are several. They are None unless ``whole_batch`` is set, because the loss of a piece is divided by the sum of
        all weights before the losses of the next piece are known.
        """
        return None

    def denominator(self, batch: Batch, weights: Tensor | None) -> Tensor:
        """The contribution of the samples to the denominator of the mean."""
        return self.loss.denominator(batch.labels) if weights is None else weights.sum()

    def after_step(self, step: Step) -> None:
        """Update the state between steps; called without gradients after each successful step.

        The step contains the samples of all processes, so the state is the same in all of them.
        """

    def begin_epoch(self, epoch: int) -> None:
        """Called before the first batch of an epoch; epochs are counted from 1."""
        self.epoch = epoch
        for trainer in self.trainers:
            trainer.begin_epoch(epoch)

    def end_epoch(self) -> None:
        """Called after the last batch of an epoch, before evaluation."""
        for trainer in self.trainers:
            trainer.end_epoch()

    def facts(self) -> Mapping[str, float]:
        """Numbers for the history of the epoch that has ended; the names must not be those of built-in metrics."""
        return {}

    def arrays(self) -> Mapping[str, Tensor]:
        """Arrays that the method learned, by name, for ``method.npz``."""
        return {}

    @property
    def predictors(self) -> Sequence[nn.Module]:
        """The nets that predict; the prediction is the mean of their probabilities."""
        return [*(net.model for net in self.nets), *(net for trainer in self.trainers for net in trainer.predictors)]

    # --- the step -----------------------------------------------------------------------------------------------------

    def step(self, batch: Batch) -> Step:
        """One step of every net on a batch.

        If the loss or the gradient is not finite, ``FloatingPointError`` is raised, and the weights do not change. If
        steps do not synchronise with the device, ``check`` raises the error.
        """
        if self.whole_batch:
            if not self.count(len(batch.labels)):
                return self.skip(batch)
            made = [next(self.passes(net, batch)) for net in self.nets]
            losses = torch.stack([each.losses.detach() for each in made])
            if not self.deferred and not losses.isfinite().all():  # before weights are made from them
                raise FloatingPointError(f"the loss is {float(losses.mean())}")
            weights = self.weights(made[0].batch, losses if len(losses) > 1 else losses[0])
            rows = [None] * len(self.nets) if weights is None else weights.expand(len(self.nets), -1)
            parts = zip(self.nets, made, rows, strict=True)
            step, *_ = [
                self.descend(net, batch, [one], self.denominator(one.batch, row), row) for net, one, row in parts
            ]
        else:
            weights = self.weights(batch, None)
            denominator = self.denominator(batch, weights)
            if self.processes > 1:
                denominator = all_reduce(denominator.to(self.context.device, self.wide))
            step = self.descend(self.nets[0], batch, self.passes(self.nets[0], batch), denominator, weights)
        if (self.deferred or step.divisor) and type(self).after_step is not Trainer.after_step:
            with torch.no_grad():
                self.after_step(step if self.processes == 1 else _of_all_processes(step))
        return step

    def passes(self, net: Learner, batch: Batch, scorer: Callable[[Tensor], Tensor] | None = None) -> Iterator[Pass]:
        """The forward passes of a batch, piece by piece, through the net or another function."""
        for piece in [batch] if net.accumulate == 1 else net.pieces(batch):
            scores = (scorer or net.scores)(piece.inputs)
            if not self.whole_batch or self.processes == 1:
                yield Pass(scores, piece, self.losses(scores, piece), slice(piece.labels.shape[0]))
                continue
            own = self.own(len(scores))
            rows = self.spread(scores, own)
            samples = Batch(piece.inputs, self.gather(piece.labels), self.gather(piece.index))
            yield Pass(scores, samples, self.losses(rows, samples), own)

    def descend(
        self, net: Learner, batch: Batch, passes: Iterable[Pass], denominator: Tensor, weights: Tensor | None = None
    ) -> Step:
        """Run the backward passes and the optimiser step of a net, unless the global denominator is 0.

        If the forward passes run one after the other, only one graph is in memory at a time.
        """
        divisor: float | Tensor
        if net.deferred:
            denominator = denominator.detach().to(self.context.device, self.wide)
            nothing, empty = self.processes == 1 and not len(batch.labels), denominator == 0
            divisor = torch.where(empty, 1.0, denominator)
        else:
            divisor, empty = float(denominator.detach()), None
            nothing = not divisor
        if nothing:  # no image could be read, or no label counts
            return self.skip(batch, [net])
        for weight in net.weights:
            weight.grad = None
        trust, done = weights, 0
        rows: list[tuple[Tensor, Tensor, Tensor]] = []
        sums: list[Tensor] = []
        for scores, samples, losses, own in passes:
            found = each = losses.detach()
            by_loss = torch.full_like(each, 1.0 if net.deferred else 1 / float(divisor))
            if net.deferred:
                by_loss.div_(divisor)
            if weights is not None:
                factors = weights[done : done + len(samples.labels)].to(losses.dtype)
                each, by_loss = each * factors, (by_loss * factors).sum_to_size(losses.shape)
                trust = weights[own] if self.whole_batch else weights
            done += samples.labels.shape[0]
            sums.append(each.sum(dtype=self.wide))
            gradient = net.backward(losses, by_loss, scores)
            rows.append((scores.detach(), gradient, found[own] if found.dim() else found.new_zeros(0)))
        scores, gradient, losses = rows[0] if len(rows) == 1 else map(torch.cat, zip(*rows, strict=True))
        mean = self._checked_mean(net, sum(sums[1:], sums[0]), divisor, scores, batch.labels)
        learning_rate = net.update(empty)
        known = losses if losses.shape[0] == scores.shape[0] else None
        return Step(batch.index, batch.labels, scores, gradient, mean, divisor, learning_rate, trust, losses=known)

    def _checked_mean(
        self, net: Learner, value: Tensor, divisor: float | Tensor, scores: Tensor, labels: Tensor
    ) -> float | Tensor:
        """The mean loss over all processes, if it is finite. A bounded loss is finite even where scores are not."""
        if self.processes == 1 and not net.deferred:  # one sum finds nearly always that all scores are finite
            mean = float(value) / float(divisor)
            if math.isfinite(mean) and math.isfinite(scores.sum()):
                return mean
        numbers: Iterable[Tensor]
        if len(scores):  # a class may have a score of -inf, but not the label
            numbers = [value, scores.amax(), scores.gather(1, labels.clamp(min=0).unsqueeze(1)).amin()]
        else:
            numbers = [value, *value.new_zeros(2)]
        if self.processes > 1:
            numbers = all_reduce(torch.stack([number.to(value) for number in numbers]))
        parts = self.processes if self.whole_batch else 1  # of a whole batch, each process has the sum over all
        if net.deferred:
            total, *extremes = numbers
            of_all = total / (parts * divisor)
            net.note(~of_all.isfinite(), 1)
            net.note(~torch.stack(extremes).isfinite().all(), 2)
            return of_all
        summed, *found = map(float, numbers)
        mean = summed / parts / float(divisor)
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss is {mean}")
        if not all(map(math.isfinite, found)):
            raise FloatingPointError("the scores are not finite")
        return mean

    def skip(self, batch: Batch, nets: Iterable[Learner] | None = None) -> Step:
        """Skip the step of a batch without samples: schedules (by default of all nets) advance, and weights do not
        change.
        """
        step = Step.empty(batch, self.learning_rate)
        for net in self.nets if nets is None else nets:
            net.steps += 1
        return step

    def total(self, value: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        return all_reduce(value)

    def count(self, number: int) -> int:
        """The sum of an integer over all processes, without synchronisation with the device."""
        return number if self.processes == 1 else int(all_reduce(torch.tensor(number)))

    def check(self) -> None:
        """Raise ``FloatingPointError`` if a number on the device was not finite. The weights are those before that
        step.
        """
        for learner in self.learners:
            if learner.deferred and (fault := int(learner.fault)):
                raise FloatingPointError(FAULTS[fault])

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, in order of rank, detached."""
        return gather(rows)

    def own(self, count: int) -> slice:
        """Where the rows of this process, of which there are so many, are among those of all processes."""
        start = 0 if self.processes == 1 else sum(self.gather(torch.tensor([count]))[: rank()].tolist())
        return slice(start, start + count)

    def spread(self, rows: Tensor, own: slice) -> Tensor:
        """The rows of all processes. Those of others have no graph, so each process gets the gradient of its own."""
        if self.processes == 1:
            return rows
        others = self.gather(rows)
        return torch.cat([others[: own.start], rows, others[own.stop :]])

    # --- what others see ----------------------------------------------------------------------------------------------

    @property
    def learners(self) -> list[Learner]:
        """All nets with their optimisers, including those of nested trainers."""
        return [*self.nets, *(learner for trainer in self.trainers for learner in trainer.learners)]

    @property
    def learner(self) -> Learner:
        """The first learner."""
        return self.nets[0] if self.nets else self.trainers[0].learner

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self.learner.learning_rate

    def predict(self, inputs: Tensor, epoch: int | None = None, mirror: bool = False) -> Tensor:
        """The scores of the trained model; with ``mirror``, averaged over images and their mirror images.

        With an ``epoch``, counted from 0, images have the training size of that epoch.
        """
        growth = self.context.batches.growth
        if growth is not None and epoch is not None:
            inputs = growth.resized(inputs, epoch)
        shown = (inputs, inputs.flip(-1)) if mirror else (inputs,)
        each = [self.learner.evaluate(images, net) for images in shown for net in self.predictors]
        return each[0] if len(each) == 1 else mean_scores(torch.stack(each))

    @property
    def model(self) -> nn.Module:
        """The nets that predict, as one module, which is saved."""
        nets = self.predictors
        return nets[0] if len(nets) == 1 else Ensemble(nets)

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        device = self.context.device
        super().set_extra_state({k: v.to(device) if isinstance(v, Tensor) else v for k, v in state.items()})


def joined(steps: Sequence[Step]) -> Step:
    """The samples of several steps as one step; its numbers are tensors too, with one for each sample."""
    columns: dict[str, Any] = {}
    counts = torch.tensor([len(step.index) for step in steps])
    for name in (field.name for field in fields(Step)):
        parts: list[Any] = [getattr(step, name) for step in steps]
        if any(part is None for part in parts):
            columns[name] = None
        elif isinstance(parts[0], Tensor) and parts[0].dim():
            columns[name] = torch.cat(parts)
        else:
            device = steps[0].index.device
            known = torch.stack(parts) if isinstance(parts[0], Tensor) else torch.tensor(parts, dtype=torch.float64)
            numbers = known.to(wide_dtype(device)).to(device)
            columns[name] = numbers.repeat_interleave(counts.to(device), output_size=int(counts.sum()))
    return Step(**columns)


def _of_all_processes(step: Step) -> Step:
    columns = {field.name: getattr(step, field.name) for field in fields(step)}
    rows: dict[str, Any]
    rows = {name: gather(value) for name, value in columns.items() if isinstance(value, Tensor) and value.dim()}
    return replace(step, **rows)
