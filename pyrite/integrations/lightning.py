"""Lightning: a callback that looks on while a model trains, and says at the end which labels are wrong.

Losses need nothing: they are modules that are called like ``nn.CrossEntropyLoss``.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from pyrite.auditing import Audit, audit_margins
from pyrite.data import Batch
from pyrite.diagnostics import Tally, TrainingObserver
from pyrite.diagnostics.arrays import Ints, to_ints
from pyrite.diagnostics.evidence import within
from pyrite.integrations.indexed import Indexed
from pyrite.processes import all_gather, rank
from pyrite.soft_margin import margins

try:
    from lightning.pytorch import Callback
except ImportError as error:
    raise ImportError(f'Lightning is not installed ({error}): pip install "pyrite[lightning]"') from None
except Exception as error:  # what it imports may be broken: a torchvision of another torch raises RuntimeError
    raise ImportError(f"Lightning is installed, but cannot be imported ({error}): mend or remove that") from error

__all__ = ["Indexed", "LabelAudit"]


@final
class LabelAudit(Callback):
    """Records the margins of every sample while a model trains, and audits the labels when it is done.

    The data sets are wrapped in ``Indexed``, and the steps of the module give their scores:
    ``return {"loss": loss, "scores": scores}``. Lightning hands both on to callbacks, so the module knows nothing of
    this one and works as well without it. Validation batches that are indexed are the held-out labels by which the
    noise is told and epochs are weighed; others are left alone. Without any there is a ranking only.

    In an epoch the first visit to a sample counts. If validation comes only every few epochs, the others say nothing.

    Everything is in Lightning's checkpoints, so a fit with ``ckpt_path`` goes on as if it had not been stopped. Several
    devices tell each other what they saw at the end of an epoch, and all end with the same audit.

    Args:
        labels: the given labels of all samples, by the numbers that ``Indexed`` gives them.
        path: where to write the suspects, from the trainer's ``default_root_dir``; None for nowhere.
        classes: the names of the classes, or how many there are; by default as many as ``labels`` name.
        seed: for the standard errors.

    Attributes:
        audit: what was found, once training has ended; None before.
    """

    def __init__(
        self,
        labels: object,
        path: str | Path | None = "suspects.csv",
        *,
        classes: Sequence[str] | int | None = None,
        seed: int = 0,
    ) -> None:
        given = to_ints(labels, "labels", least=0)
        if not len(given):
            raise ValueError("labels are empty")
        count = int(given.max()) + 1
        names = range(count) if classes is None else range(classes) if isinstance(classes, int) else classes
        self.classes = tuple(map(str, names))
        if len(self.classes) < max(count, 2):
            raise ValueError(
                f"there are {len(self.classes)} classes, but labels up to {count - 1}: two at least, and all"
            )
        self.path = None if path is None else Path(path)
        self.seed = seed
        self.audit: Audit | None = None
        self._observer = TrainingObserver(given, classes=len(self.classes))
        assert self._observer.class_margins is not None
        self._margins = self._observer.class_margins
        if not self._margins.kept:
            raise ValueError(f"{len(given)} samples times {len(self.classes)} classes are too many to keep margins of")
        self._epoch = 0  # that the margins are of which are not folded in yet
        self._weighed = False  # whether an epoch was by held-out labels

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        index = _index(batch)
        if index is None:
            raise ValueError("the training batches do not say which samples they hold: wrap the data set in Indexed")
        scores = self._scores(outputs, index, "training_step")
        self._begin(trainer.current_epoch)
        self._same_labels(batch, index)
        every = margins(scores)
        own = every.gather(1, torch.from_numpy(self._given[index]).to(every.device).unsqueeze(1)).squeeze(1)
        good = torch.isfinite(own).cpu().numpy()  # what overflowed says nothing
        self._observer.update(index[good], own.cpu()[good], scores.argmax(1).cpu()[good])
        self._margins.record(index[good], every.cpu()[good])

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        index = _index(batch)
        if index is None or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        scores = self._scores(outputs, index, "validation_step")
        self._begin(trainer.current_epoch)
        self._same_labels(batch, index)
        evidence = self._observer.evidence
        trained = (evidence.visits[index] > 0) | evidence.epoch.seen[index]
        if trained.any():
            raise ValueError(
                f"sample {index[trained.argmax()]} was trained on, and now is held out: wrap the whole in Indexed "
                "before it is split, split it the same way when training goes on, or number another set by start="
            )
        self._margins.record(index, margins(scores))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._end_epoch()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Audit, and write. Labels that are too few to say anything about are a warning, and undo no training."""
        self._end_epoch()
        evidence = self._observer.evidence
        held_out = evidence.visits == 0
        try:
            self.audit = audit_margins(
                self._margins.mean, self._given, held_out, self.classes, evidence.arrays(), self.seed
            )
        except ValueError as error:
            warnings.warn(f"no label was audited: {error}", stacklevel=2)
            return
        if rank() == 0 and self.path is not None:
            self.audit.to_csv(Path(trainer.default_root_dir) / self.path)

    @property
    def _given(self) -> Ints:
        return self._observer.evidence.labels

    def _scores(self, outputs: Any, index: Ints, step: str) -> Tensor:
        scores = outputs.get("scores") if isinstance(outputs, Mapping) else None
        if not isinstance(scores, Tensor):
            raise ValueError(f'{step} gives no scores: let it return {{"loss": loss, "scores": scores}}')
        if scores.shape != (len(index), len(self.classes)):
            shape = len(index), len(self.classes)
            raise ValueError(
                f"scores of {step} have the shape {tuple(scores.shape)}, but must have {shape}: a row a sample"
            )
        if index.max(initial=-1) >= len(self._given):
            raise ValueError(f"there is a sample {index.max()}, but labels are {len(self._given)}")
        return scores.detach()

    def _same_labels(self, batch: Any, index: Ints) -> None:
        """Refuse labels in another order than the samples: every sample would be a suspect."""
        labels = batch.labels if isinstance(batch, Batch) else batch.get("labels")
        if not isinstance(labels, Tensor) or labels.shape != index.shape or labels.is_floating_point():
            return  # mixed, say
        wrong = labels.cpu().numpy() != self._given[index]
        if wrong.any():
            first = int(wrong.argmax())
            named = f"{int(labels[first])} in a batch, but {self._given[index[first]]} in labels"
            raise ValueError(
                f"the label of sample {index[first]} is {named}: they must be in the order of the data set"
            )

    def _begin(self, epoch: int) -> None:
        """Fold in what is left of another epoch, if a checkpoint was made between its last step and its end."""
        if epoch != self._epoch:
            self._end_epoch()
        self._epoch = epoch

    def _share(self) -> None:
        self._observer.merge(all_gather(self._observer.epoch_state()))

    def _end_epoch(self) -> None:
        """Fold the epoch in, weighed by held-out labels; if these came in some epochs only, only those count."""
        self._share()
        seen = self._margins.epoch_state()
        if not len(seen["index"]):
            return
        index, now = seen["index"], seen["now"]
        held = ~self._observer.evidence.epoch.seen[index]
        right = now[held].argmax(1) == self._given[index[held]]
        if held.any() and not self._weighed:
            nothing = {name: np.zeros_like(value) for name, value in self._margins.state_dict().items()}
            self._margins.load_state_dict(nothing | seen)
            self._weighed = True
        elif self._weighed and not held.any():
            self._margins.merge([])
        self._observer.end_epoch(held_out=Tally(int(right.sum()), len(right)) if held.any() else None)

    def state_dict(self) -> dict[str, Any]:
        """Tensors and numbers, which are read back without unpickling. Lightning asks all processes at once."""
        self._share()
        held = {f"observer.{name}": _plain(value) for name, value in self._observer.state_dict().items()}
        return held | {"labels": _plain(self._given.copy()), "epoch": self._epoch, "weighed": self._weighed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another left off, with the same labels."""
        held = {name: value.numpy() if isinstance(value, Tensor) else value for name, value in state_dict.items()}
        if not np.array_equal(held["labels"], self._given):
            raise ValueError("the checkpoint is of other labels: its margins are of other samples")
        self._observer.load_state_dict(within(held, "observer"))
        self._epoch, self._weighed = int(held["epoch"]), bool(held["weighed"])


def _plain(value: Any) -> Any:
    """What torch reads back without unpickling."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _index(batch: Any) -> Ints | None:
    """Which samples a batch holds; None if it does not say."""
    index = batch.index if isinstance(batch, Batch) else batch.get("index") if isinstance(batch, Mapping) else None
    return None if index is None else to_ints(index, "index", least=0)
