"""What the model predicts of test and held-out samples after every epoch, and the epoch whose model is saved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from pyrite.arrays import Flags
from pyrite.data import Batches, Dataset, Statistics
from pyrite.diagnostics import Tally, clearly_better, embed_sets, hybrid_accuracy, retrieve, subset_accuracies
from pyrite.errors import PyriteError
from pyrite.methods import Trainer
from pyrite.models import embed
from pyrite.processes import all_gather, all_reduce
from pyrite.soft_margin import row_margins, wide_dtype
from pyrite.training.metrics import METRICS, Line, measure

if TYPE_CHECKING:
    from pyrite.training.record import Record

_PARTS: Final = 7  # a prime number, so that every part has samples of all classes where these alternate


@final
@dataclass
class BestEpoch:
    """Keeps the weights of the epoch that predicts most of the held-out labels, and decides whether they are saved.

    Of many epochs some are better than the last by chance, so the best must be better by more than a standard error.
    Of equals, ``epoch``, counted from 1, is the later.
    """

    epoch: int = 0
    last: int = 0
    hits: Flags = field(default_factory=partial(np.array, (), bool))
    last_hits: Flags = field(default_factory=partial(np.array, (), bool))
    weights: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # by the number of the net

    def after_epoch(self, epoch: int, hits: Flags, nets: Sequence[nn.Module]) -> None:
        """Compare an epoch with the best one, by which of the held-out labels are predicted.

        If a new stage of a method predicts with nets of another number or kind, which cannot take the weights of the
        earlier ones, epochs are compared from this one on.
        """
        self.last, self.last_hits = epoch, hits
        states = {str(number): net.state_dict() for number, net in enumerate(nets)}
        fit = [list(state) for state in states.values()] == [list(weights) for weights in self.weights.values()]
        if not fit or hits.sum() >= self.hits.sum():
            self.epoch, self.hits = epoch, hits
            self.weights = {key: {name: v.detach().clone() for name, v in one.items()} for key, one in states.items()}

    @property
    def chosen(self) -> int:
        """The best epoch, if it beats the last by more than one standard error of their difference; else the last.

        The best of E equal epochs is ahead by more than that rather often, and rarely by √(2 ln E) standard errors.
        But an epoch that is chosen by chance is nearly as good as the last, while a high threshold keeps the last of a
        net that has become worse. Simulated (``benchmarks.best_epoch``), one standard error loses less.
        """
        return self.epoch if clearly_better(self.hits, self.last_hits) else self.last

    def restore(self, nets: Sequence[nn.Module]) -> None:
        """Give the nets the weights that they had after the best epoch."""
        for net, weights in zip(nets, self.weights.values(), strict=True):
            net.load_state_dict(weights)


@final
class Evaluation:
    """Predicts test and held-out samples.

    With ``keep_best``, the weights of the epoch that predicts most of the validation labels are kept. ``split_off``
    means that the validation samples were split off the training data: then their margins are evidence for an audit.
    Until images are whole, they are predicted at the size that the net is trained on, at which it is best,
    and the model of such an epoch is not saved.
    """

    def __init__(
        self,
        trainer: Trainer,
        test: Batches | None,
        validation: Batches | None,
        *,
        keep_best: bool = False,
        mirror: bool = False,
        split_off: bool = True,
    ) -> None:
        self.trainer, self.test, self.validation = trainer, test, validation
        self.split_off, self.growth = split_off, trainer.context.batches.growth
        self.predict = partial(trainer.predict, mirror=mirror)  # as the model that is saved
        self.best = BestEpoch() if keep_best and validation is not None else None
        self.tested = 0  # test samples that can be read

    def after_epoch(self, epoch: int, record: "Record") -> tuple[Tally | None, Line]:
        """The test samples that are predicted, and what is measured on held-out ones; their margins are recorded."""
        test = None
        if self.test is not None:
            hits = torch.cat([self.predict(x, epoch - 1).argmax(1) == labels for x, labels, _ in self.test])
            test = Tally(*all_reduce(torch.tensor([int(hits.sum()), len(hits)], device=self.test.device)).tolist())
            self.tested = test.total
        line: Line = {}
        if self.validation is not None:
            own, names = list[Tensor](), [name for name, each in METRICS.items() if each.source == "held-out"]
            device = self.validation.device
            sums = torch.zeros(1 + len(names), dtype=wide_dtype(device), device=device)
            for inputs, labels, index in self.validation:
                scores = self.predict(inputs, epoch - 1)
                margins, hits = row_margins(scores), scores.argmax(1) == labels
                if len(index) and self.split_off:
                    record.update_margins(index, margins, unseen=True)
                margin = margins.gather(1, labels.unsqueeze(1)).squeeze(1)
                found = SimpleNamespace(margin=margin, hits=hits, mae=(-margin).sigmoid() * 2, ce=softplus(-margin))
                own.append(index[hits].cpu())
                values = measure("held-out", found).values()
                sums += torch.stack([sums.new_tensor(len(labels)), *(value.to(sums).sum() for value in values)])
            count, *totals = all_reduce(sums).tolist()
            if self.best is not None and (self.growth is None or epoch > self.growth.rising):
                hit_rows = torch.cat([rows for part in all_gather(own) for rows in part]).numpy()
                self.best.after_epoch(epoch, np.isin(self.validation.index, hit_rows), self.trainer.predictors)
            means = [total / count if count and np.isfinite(total) else None for total in totals]
            line = dict(zip(names, means, strict=True))
        return test, line | dict(self.trainer.facts())

    def saved(self, history: Sequence[Line]) -> Line:
        """The epoch whose model is saved; if there was a choice, also the best epoch, and the accuracies."""
        if self.best is None or history[-1]["validation_accuracy"] is None:  # no held-out image can be read
            return {"epoch": len(history)}
        epoch, name = self.best.chosen, "validation_accuracy"
        accuracies = {name: history[epoch - 1][name], f"last_{name}": history[-1][name]}
        return {"epoch": epoch, "best_epoch": self.best.epoch, **accuracies}

    def final_model(self, train: Batches, record: "Record", deadline: float | None = None) -> tuple[Line, int]:
        """Accuracies of the model that is saved on the training samples, without augmentation; None where unknown.

        Those of the history are of predictions made while training. The papers report these. The samples are predicted
        in parts, of which none is begun after ``deadline`` but the first. Also returns how many are predicted.
        """
        own, parts = list[tuple[Tensor, Tensor]](), 1 if deadline is None else _PARTS
        for part in range(parts):
            batches = train.in_order(train.index[part::parts])
            own += [(self.predict(inputs).argmax(1).cpu(), index.cpu()) for inputs, _, index in batches]
            if deadline is not None and any(all_gather(perf_counter() > deadline)):
                break
        predictions, index = zip(*(pair for pairs in all_gather(own) for pair in pairs), strict=True)
        rows = torch.cat(index).numpy()
        true = None if record.true is None else record.true[rows]
        accuracy = record.history[self.saved(record.history)["epoch"] - 1]["test_accuracy"]
        # The number of hits follows from the accuracy, so that nothing is evaluated again.
        test = None if accuracy is None else Tally(round(accuracy * self.tested), self.tested)
        subsets = subset_accuracies(torch.cat(predictions), record.given[rows], true)
        hybrid = test and subsets.true and hybrid_accuracy(test, subsets.true)
        return measure("model", SimpleNamespace(**subsets.fractions(), hybrid=hybrid)), len(rows)

    def state_dict(self) -> dict[str, Any]:
        return {"tested": self.tested} | ({} if self.best is None else {"best": dict(vars(self.best))})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.tested = state["tested"]
        if self.best is not None:
            self.best = BestEpoch(**state["best"])


def measure_retrieval(trainer: Trainer, test: Dataset, scale: Statistics) -> dict[str, Any] | None:
    """Mean average precision and cumulative matches on a test part in tracklets; None if it is not.

    A tracklet is the mean of its frames' embeddings, brought to length 1; the gallery is every tracklet, without those
    of the same person in the same camera (see ``diagnostics.retrieve``).
    """
    learner, model, tracklets = trainer.learners[0], trainer.model, test.tracklets
    if tracklets is None:
        return None
    device = learner.weights[0].device
    batches = Batches(test.numeric, test.labels, batch_size=500, seed=0, shuffle=False, normalise=scale, device=device)
    model.eval()
    with torch.inference_mode():
        frames = np.concatenate([embed(model, learner.ready(batch.inputs)).float().cpu().numpy() for batch in batches])
    if len(frames) != len(test):
        raise PyriteError(
            f"{len(test) - len(frames)} frames of {test.name} cannot be read, so some tracklets are "
            "incomplete: restore the files"
        )
    sets = embed_sets(frames, tracklets.start, tracklets.stop)
    query = tracklets.query
    result = retrieve(
        sets[query], sets, query_identity=tracklets.identity[query], gallery_identity=tracklets.identity,
        query_camera=tracklets.camera[query], gallery_camera=tracklets.camera,
    )  # fmt: skip
    names = ("mean_average_precision", "queries", "without_match")
    return {name: getattr(result, name) for name in names} | {"cmc": {str(k): value for k, value in result.cmc.items()}}
