"""The measurements of a run: one line of its history per epoch."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from pyrite.data import Batches, Growth
from pyrite.diagnostics import Tally, TrainingObserver, subset_accuracies
from pyrite.methods import Step, Trainer
from pyrite.models import mirrored_scores
from pyrite.processes import all_gather, all_reduce
from pyrite.soft_margin import margins, row_margin
from pyrite.training.best_epoch import BestEpoch

__all__ = ["Line", "Recorder"]

Line = dict[str, Any]


@final
class Recorder:
    """Observes steps and makes one line per epoch. It has the true labels, where they are known; methods never see it.

    Args:
        trainer: predicts the held-out samples, and may add numbers of its own.
        observer: of the training samples, with their true labels where they are known.
        test: batches with true labels.
        validation: batches with given labels.
        best: keeps the weights of the epoch that predicts most of the validation labels; None if they are not wanted.
        mirror: predict the mean of an image and its mirror image.
        growth: the sizes of images in the first epochs. Until they are whole, images are predicted at the size that the
            net is trained on, which it knows best, and the model of such an epoch is not saved.
        split_off: whether the validation samples were split off the training data. Then the observer knows their
            numbers, and their margins are evidence for an audit. Those of a part of its own are other samples.
    """

    def __init__(
        self,
        trainer: Trainer,
        observer: TrainingObserver,
        test: Batches | None,
        validation: Batches | None,
        best: BestEpoch | None = None,
        mirror: bool = False,
        split_off: bool = True,
        growth: Growth | None = None,
    ) -> None:
        self.trainer, self.observer, self.test, self.validation = trainer, observer, test, validation
        self.best, self.mirror, self.split_off = None if validation is None else best, mirror, split_off
        self.growth = growth
        self.history: list[Line] = []
        self.steps = 0
        self._test: Tally | None = None
        self._loss = self._share = self._rate = 0.0

    def after_step(self, step: Step) -> None:
        self.steps += 1
        self._loss += step.loss * step.denominator
        self._share += step.denominator
        self._rate = step.learning_rate
        self.observer.update(step.index, step.margin, step.prediction, step.weight, step.learning_rate, step.trust)
        if self.observer.class_margins is not None and len(step.index):
            values = step.margins if step.unseen is None else margins(step.unseen)
            self.observer.class_margins.record(step.index, values, unseen=step.unseen is not None)

    def after_epoch(self, epoch: int) -> None:
        test = self._test = None if self.test is None else self._tally(self.test, epoch)
        validation, costs, hits = self._held_out(epoch)
        if self.best is not None and (self.growth is None or self.growth.is_whole(epoch - 1)):
            self.best.after_epoch(epoch, hits, self.trainer.predictors)
        self.share()
        line: Line = {
            "epoch": epoch,
            "loss": self._loss / self._share if self._share else None,
            "learning_rate": self._rate,
        }
        line |= {"validation_accuracy": None if validation is None else validation.share} | costs
        self.history.append(line | self.observer.end_epoch(test) | dict(self.trainer.facts()))
        self._loss = self._share = 0.0

    def share(self) -> None:
        """Merge what the processes saw in this epoch, so that all have the same."""
        self.observer.merge(all_gather(self.observer.epoch_state()))

    def predict(self, inputs: Tensor) -> Tensor:
        """Scores of inputs, as the model that is saved gives them."""
        return mirrored_scores(self.trainer.predict, inputs) if self.mirror else self.trainer.predict(inputs)

    def _predict_after(self, epoch: int, inputs: Tensor) -> Tensor:
        return self.predict(inputs if self.growth is None else self.growth.resized(inputs, epoch - 1))

    @property
    def saved(self) -> Line:
        """The epoch whose model is saved; if there was a choice, also the best epoch, and the accuracies."""
        if self.best is None or self.history[-1]["validation_accuracy"] is None:  # no held-out image can be read
            return {"epoch": len(self.history)}
        epoch, name = self.best.chosen, "validation_accuracy"
        accuracies = {name: self.history[epoch - 1][name], f"last_{name}": self.history[-1][name]}
        return {"epoch": epoch, "best_epoch": self.best.epoch, **accuracies}

    def restore_best(self) -> None:
        """Go back to the model of the best epoch, for what is measured and saved at the end."""
        assert self.best is not None
        self.best.restore(self.trainer.predictors)
        if self._test is not None:  # the number of hits follows from the share, so that nothing is evaluated again
            share, total = self.history[self.best.epoch - 1]["test_accuracy"], self._test.total
            self._test = Tally(round(share * total), total)

    def final_model(self, train: Batches) -> Line:
        """Accuracies of the model that is saved on the training samples, without augmentation; None where unknown.

        Those of the history are of predictions made while training. The papers report these.

        Args:
            train: what was trained on.
        """
        evaluated = train.in_order()
        own = [(self.predict(inputs).argmax(1).cpu(), index.cpu()) for inputs, _, index in evaluated]
        predictions, index = zip(*(pair for pairs in all_gather(own) for pair in pairs), strict=True)
        rows, true = torch.cat(index).numpy(), self.observer.true
        given = self.observer.evidence.labels[rows]
        subsets = subset_accuracies(torch.cat(predictions), given, None if true is None else true[rows])
        shares = subsets.shares()
        return {
            "final_train_accuracy": shares["given"],
            "final_clean_accuracy": shares["clean"],
            "final_memorised": shares["memorised"],
            "final_recovered": shares["recovered"],
            "final_intact_accuracy": shares["true"],
            "final_hybrid_accuracy": subsets.hybrid(self._test),
        }

    def _tally(self, batches: Batches, epoch: int) -> Tally:
        counts = torch.zeros(2, dtype=torch.long, device=batches.device)
        for inputs, labels, _ in batches:  # without images that cannot be read
            right = (self._predict_after(epoch, inputs).argmax(1) == labels).sum()
            counts += torch.stack([right, right.new_tensor(len(labels))])
        batches.seek(0)
        return Tally(*all_reduce(counts).tolist())

    def _held_out(self, epoch: int) -> tuple[Tally | None, Line, npt.NDArray[np.bool_]]:
        """The number of held-out given labels that are predicted, the mean losses, and which labels are predicted."""
        if self.validation is None:
            return None, {"validation_mae": None, "validation_ce": None}, np.zeros(0, bool)
        # Right predictions, samples, and the two costs. Counts are exact in float64.
        sums = torch.zeros(4, dtype=torch.float64, device=self.validation.device)
        own: list[Tensor] = []
        for inputs, labels, index in self.validation:
            scores = self._predict_after(epoch, inputs)
            if self.observer.class_margins is not None and len(index) and self.split_off:
                self.observer.class_margins.record(index, margins(scores), unseen=True)
            margin = row_margin(scores, labels).double()
            hit = scores.argmax(1) == labels
            own.append(index[hit].cpu())
            right = hit.double().sum()
            costs = 2 * torch.sigmoid(-margin).sum(), softplus(-margin).sum()
            sums += torch.stack([right, right.new_tensor(len(labels)), *costs])
        self.validation.seek(0)
        right_sum, count, *cost_sums = all_reduce(sums).tolist()
        means = [cost / count if count and isfinite(cost) else None for cost in cost_sums]
        names = ("validation_mae", "validation_ce")
        hit_rows = torch.cat([rows for part in all_gather(own) for rows in part]).numpy()
        hits = np.isin(self.validation.index, hit_rows)
        return Tally(int(right_sum), int(count)), dict(zip(names, means, strict=True)), hits

    def state_dict(self) -> dict[str, Any]:
        """For a resume, in the middle of an epoch too."""
        sums = {"loss": self._loss, "share": self._share, "rate": self._rate, "steps": self.steps}
        test = None if self._test is None else [self._test.hits, self._test.total]
        best = {} if self.best is None else {"best": self.best.state_dict()}
        return sums | {"test": test, "history": self.history, "observer": self.observer.state_dict(), **best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another recorder stopped."""
        self.observer.load_state_dict(state["observer"])
        self._loss, self._share, self._rate = state["loss"], state["share"], state["rate"]
        self.history, self.steps = state["history"], state["steps"]
        tally = state.get("test")
        self._test = None if tally is None else Tally(*tally)
        if self.best is not None:
            self.best.load_state_dict(state["best"])
