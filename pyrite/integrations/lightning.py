"""Lightning: a callback that records margins while a model trains, and audits the labels at the end.

Losses need nothing: they are modules that are called like ``nn.CrossEntropyLoss``.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from pyrite.arrays import Ints, to_ints
from pyrite.auditing import Audit, audit_margins
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.integrations.indexed import Indexed
from pyrite.processes import rank
from pyrite.soft_margin import margins
from pyrite.training import Record

try:
    from lightning.pytorch import Callback
except ImportError as error:
    raise ImportError(f'Lightning is not installed ({error}): pip install "pyrite-labels[lightning]"') from None
except Exception as error:  # what it imports may be broken: a torchvision of another torch raises RuntimeError
    raise ImportError(f"Lightning is installed, but cannot be imported ({error}): repair or remove it") from error

__all__ = ["Indexed", "LabelAudit"]


@final
class LabelAudit(Callback):
    """Records the margins of every sample while a model trains, and audits the labels when it is done.

    The data sets are wrapped in ``Indexed``, and the steps of the module give their scores:
    ``return {"loss": loss, "scores": scores}``. Lightning passes both to callbacks, so the module needs no other change
    and works without this callback, too. Indexed validation batches are the held-out labels to which the noise is
    fitted and by which epochs are weighted; other batches are ignored. Without any there is only a ranking.

    In an epoch the first visit to a sample counts. If there is validation in some epochs only, the others are ignored.

    Everything is in Lightning's checkpoints, so a fit with ``ckpt_path`` continues as if it had not been stopped.
    Several devices exchange their records at the end of an epoch, and all end with the same audit.

    Args:
        labels: the given labels of all samples, by the numbers that ``Indexed`` gives them.
        path: the file for the suspects, relative to the trainer's ``default_root_dir``; None to write nothing.
        classes: the names of the classes, or their number; by default the largest label plus 1.
        seed: for the standard errors.

    Attributes:
        audit: the audit, once training has ended; None before.
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
            raise PyriteError("labels are empty")
        count = int(given.max()) + 1
        names = range(count) if classes is None else range(classes) if isinstance(classes, int) else classes
        self.classes = tuple(map(str, names))
        if len(self.classes) < max(count, 2):
            raise PyriteError(
                f"there are {len(self.classes)} classes, but labels up to {count - 1}: pass {max(count, 2)} or more"
            )
        self.path = None if path is None else Path(path)
        self.seed = seed
        self.audit: Audit | None = None
        self._record = Record(given, classes=len(self.classes))
        if not self._record.keeps_margins:
            raise PyriteError(f"{len(given)} samples times {len(self.classes)} classes are too many to keep margins of")
        self._epoch = 0  # the epoch of the margins that are not averaged in yet
        self._weighted = False  # whether an epoch was weighted by held-out labels

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        index = _index(batch)
        if index is None:
            raise PyriteError("the training batches have no index: wrap the data set in Indexed")
        scores = self._scores(trainer, outputs, batch, index, "training_step")
        of_classes = margins(scores)
        own = of_classes.gather(1, torch.from_numpy(self._record.given[index])[:, None]).squeeze(1)
        good = own.isfinite().numpy()  # without margins that overflowed
        self._record.update(index[good], own[good], scores.argmax(1)[good])
        self._record.update_margins(index[good], of_classes[good])

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        index = _index(batch)
        if index is None or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        scores = self._scores(trainer, outputs, batch, index, "validation_step")
        now = np.concatenate([visits["index"] for visits in self._record.visits])
        trained = (self._record.columns["visits"][index] > 0) | np.isin(index, now)
        if trained.any():
            raise PyriteError(
                f"sample {index[trained.argmax()]} was trained on, and now is held out: wrap the whole set in Indexed "
                "before it is split, split it in the same way when training is resumed, or set start for a second set"
            )
        self._record.update_margins(index, margins(scores), unseen=True)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._end_epoch()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Audit the labels and write the suspects. Too few labels are a warning, so that the training is not lost."""
        self._end_epoch()
        record = self._record
        held_out = record.columns["visits"] == 0
        try:
            self.audit = audit_margins(record.class_margins, record.given, held_out, self.classes, record.arrays())
        except ValueError as error:
            warnings.warn(f"no label was audited: {error}", stacklevel=2)
            return
        if rank() == 0 and self.path is not None:
            self.audit.to_csv(Path(trainer.default_root_dir) / self.path)

    def _scores(self, trainer: Any, outputs: Any, batch: Any, index: Ints, step: str) -> Tensor:
        """The scores that a step gave, on the processor, after checks; the epoch before is ended if it was not."""
        scores, given = outputs.get("scores") if isinstance(outputs, Mapping) else None, self._record.given
        if not isinstance(scores, Tensor):
            raise PyriteError(f'{step} returns no scores: return {{"loss": loss, "scores": scores}}')
        shape, wanted = tuple(scores.shape), (len(index), len(self.classes))
        if shape != wanted:
            raise PyriteError(f"scores of {step} have the shape {shape}, but must have {wanted}: one row per sample")
        if index.max(initial=-1) >= len(given):
            raise PyriteError(f"there is a sample {index.max()}, but there are {len(given)} labels")
        if trainer.current_epoch != self._epoch:  # a checkpoint was made between its last step and its end
            self._end_epoch()
        self._epoch = trainer.current_epoch
        labels = batch.labels if isinstance(batch, Batch) else batch.get("labels")
        hard = isinstance(labels, Tensor) and labels.shape == index.shape and not labels.is_floating_point()
        wrong = labels.cpu().numpy() != given[index] if hard else np.zeros(0, bool)
        if wrong.any():  # labels in another order than the samples: every sample would be a suspect
            first = int(wrong.argmax())
            named = f"{int(labels[first])} in a batch, but {given[index[first]]} in labels"
            raise PyriteError(
                f"the label of sample {index[first]} is {named}: they must be in the order of the data set"
            )
        return scores.detach().cpu()

    def _end_epoch(self) -> None:
        """Average the epoch in, weighted by held-out labels; epochs without them count only if all are without."""
        record = self._record
        record.merge()
        seen = record.epoch_state()["first_margins"]
        if not len(seen["index"]):
            return
        held_out = bool(seen["unseen"].any())
        if held_out and not self._weighted:
            for name in ("margin_sum", "margin_weight", "unseen"):
                record.columns[name][:] = 0
            self._weighted = True
        elif self._weighted and not held_out:
            del record.visited_margins[1:]
        record.end_epoch()

    def state_dict(self) -> dict[str, Any]:
        """Tensors and numbers, which torch loads without unpickling. Lightning calls it on all processes at once."""
        self._record.merge()
        saved = (self._record.state_dict() | {"labels": self._record.given.copy()}).items()
        state = {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in saved}
        return {"record": state, "epoch": self._epoch, "weighted": self._weighted}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where another callback with the same labels stopped."""
        saved = state_dict["record"].items()
        state = {name: value.numpy() if isinstance(value, Tensor) else value for name, value in saved}
        if not np.array_equal(state["labels"], self._record.given):
            raise PyriteError("the checkpoint belongs to other labels")
        self._record.load_state_dict(state)
        self._epoch, self._weighted = int(state_dict["epoch"]), bool(state_dict["weighted"])


def _index(batch: Any) -> Ints | None:
    """The indices of a batch's samples; None if it has none."""
    index = batch.index if isinstance(batch, Batch) else batch.get("index") if isinstance(batch, Mapping) else None
    return None if index is None else to_ints(index, "index", least=0)
