"""The callback in real fits: what it records against a reference, what it finds, and that a resume leaves no trace."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Subset, TensorDataset

import pyrite
from pyrite.data import Batch
from pyrite.integrations.lightning import Indexed, LabelAudit

# What Lightning says of folders of checkpoints when a fit goes on, as it is meant to here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
]

SAMPLES, EPOCHS = 1000, 6
INPUTS, TRUE = (part[:SAMPLES] for part in load_digits(return_X_y=True))
NOISY = pyrite.corrupt(TRUE, "flip(0.3)", classes=10, seed=0)
HELD_OUT = np.arange(0, SAMPLES, 4)
TRAINED = np.setdiff1d(np.arange(SAMPLES), HELD_OUT)
QUIET: dict[str, Any] = {
    "logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu",
    "log_every_n_steps": 1,
}  # fmt: skip


def data(labels: np.ndarray[Any, Any] = NOISY.given) -> Indexed:
    return Indexed(TensorDataset(torch.tensor(INPUTS / 16, dtype=torch.float32), torch.tensor(labels)))


def loaders(whole: Dataset[Any] | None = None) -> tuple[DataLoader[Any], DataLoader[Any]]:
    whole = data() if whole is None else whole
    return DataLoader(Subset(whole, TRAINED.tolist()), 50), DataLoader(Subset(whole, HELD_OUT.tolist()), 250)


class Module(lightning.LightningModule):
    """What a user has, with a loss of pyrite's, and two lines for the callback."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.loss = pyrite.loss("unit(scale(mae, tau=1, classes=10))")
        self.seen: list[tuple[int, Tensor, Tensor]] = []
        self.kept: list[tuple[int, Tensor, Tensor]] = []

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        inputs, labels, index = batch
        scores = self.net(inputs)
        self.seen.append((self.current_epoch, index, scores.detach()))
        return {"loss": self.loss(scores, labels), "scores": scores}

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        scores = self.net(batch.inputs)
        if not self.trainer.sanity_checking:
            self.kept.append((self.current_epoch, batch.index, scores))
        return {"scores": scores}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 1e-2)


def fit(
    folder: Path, epochs: int = EPOCHS, module: Any = None, found: LabelAudit | None = None, **options: Any
) -> tuple[Any, LabelAudit]:
    module, found = module or Module(), found or LabelAudit(NOISY.given)
    settings = QUIET | {"enable_checkpointing": False, "callbacks": []} | options
    settings["callbacks"] = [found, *settings["callbacks"]]
    train, held_out = settings.pop("loaders", None) or loaders()
    resume = settings.pop("ckpt_path", None)
    trainer = lightning.Trainer(max_epochs=epochs, default_root_dir=folder, **settings)
    trainer.fit(module, train, held_out, ckpt_path=resume, weights_only=True)
    return module, found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, LabelAudit, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    module, found = fit(folder)
    return module, found, (folder / "suspects.csv").read_bytes()


NO_HELD_OUT = pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no")


def by_epoch(seen: list[tuple[int, Tensor, Tensor]], epoch: int) -> tuple[Tensor, Tensor]:
    parts = [(index, scores) for at, index, scores in seen if at == epoch]
    return torch.cat([index for index, _ in parts]), torch.cat([scores for _, scores in parts]).double()


def test_margins_are_averaged_as_documented(whole: tuple[Any, LabelAudit, bytes]) -> None:
    """By the formula of docs/concepts/audit-method.md, from the scores that the module itself kept."""
    module, found, _ = whole
    given = torch.tensor(NOISY.given)
    total, share = torch.zeros(SAMPLES, dtype=torch.float64), 0.0
    for epoch in range(EPOCHS):
        (trained, scores), (held, others) = by_epoch(module.seen, epoch), by_epoch(module.kept, epoch)
        followed = (scores.argmax(1) == given[trained]).double().mean().item()
        kept = (others.argmax(1) == given[held]).double().mean().item()
        weight = kept**2 * min(1, (1 - followed) / (1 - kept))
        for index, table in ((trained, scores), (held, others)):
            probability = torch.softmax(table, 1).gather(1, given[index][:, None]).squeeze(1)
            total[index] += weight * torch.logit(probability)
        share += weight
    assert found.audit is not None
    np.testing.assert_allclose(found.audit.evidence["margin"], (total / share).numpy(), rtol=2e-5, atol=2e-5)
    assert np.isnan(found.audit.evidence["agreement"][HELD_OUT]).all()
    assert not np.isnan(found.audit.evidence["agreement"][TRAINED]).any()


def test_wrong_labels_are_found_and_written(whole: tuple[Any, LabelAudit, bytes]) -> None:
    _, found, written = whole
    assert found.audit is not None
    assert found.audit.can_tell
    assert pyrite.diagnostics.roc_auc(found.audit.score, NOISY.is_wrong) > 0.9
    assert abs(found.audit.noise_rate - NOISY.rate) < 0.1
    header, *lines = written.decode().split("\r\n")[:-1]
    assert header.startswith("index,path,given,suggested,wrong_probability")
    assert [int(line.split(",")[0]) for line in lines] == found.audit.ranking.tolist()


class Killed(lightning.Callback):
    def on_train_batch_end(self, trainer: Any, *more: Any) -> None:
        if trainer.current_epoch == 2 and trainer.global_step == 2 * 15 + 3:
            raise RuntimeError("killed")


@pytest.mark.parametrize("after_epoch", [True, False], ids=["after the epoch", "after validation"])
def test_a_resumed_fit_ends_the_same(whole: tuple[Any, LabelAudit, bytes], after_epoch: bool, tmp_path: Path) -> None:
    """Killed in the third epoch; the checkpoint of the second was written before or after that epoch was folded in."""
    keep = ModelCheckpoint(tmp_path, filename="last", save_on_train_epoch_end=after_epoch)
    with pytest.raises(RuntimeError, match="killed"):
        fit(tmp_path, callbacks=[Killed(), keep], enable_checkpointing=True)
    assert not (tmp_path / "suspects.csv").exists()
    again = {"callbacks": [ModelCheckpoint(tmp_path / "again")], "enable_checkpointing": True}
    module, found = fit(tmp_path, ckpt_path=tmp_path / "last.ckpt", **again)
    assert {epoch for epoch, *_ in module.seen} == set(range(2, EPOCHS))
    assert (tmp_path / "suspects.csv").read_bytes() == whole[2]
    assert found.audit is not None
    assert whole[1].audit is not None
    assert np.array_equal(found.audit.wrong_probability, whole[1].audit.wrong_probability)


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_same(value, other[name])
    else:
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_an_epoch_that_was_not_ended_is_folded_in_with_the_next() -> None:
    """Not every version of Lightning ends an epoch again after a resume from the checkpoint of its validation."""
    labels, index = torch.tensor([0, 1, 1]), torch.arange(3)
    ended, resumed = LabelAudit(labels), LabelAudit(labels)
    for epoch, scores in enumerate(torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0))):
        batch, trainer = Batch(scores, labels, index), SimpleNamespace(current_epoch=epoch)
        for callback in (ended, resumed):
            callback.on_train_batch_end(trainer, None, {"scores": scores}, batch, 0)
        ended.on_train_epoch_end(trainer, None)
    resumed.on_train_epoch_end(SimpleNamespace(current_epoch=1), None)
    one, other = ended.state_dict(), resumed.state_dict()
    assert len(one["record"]["history"]) == len(other["record"]["history"]) == 2
    assert_same(one, other)


def test_validation_every_other_epoch(whole: tuple[Any, LabelAudit, bytes], tmp_path: Path) -> None:
    """Only the epochs that were validated count: the second, fourth and sixth."""
    _, found = fit(tmp_path, check_val_every_n_epoch=2)
    given, module = torch.tensor(NOISY.given), whole[0]
    total, share = torch.zeros(SAMPLES, dtype=torch.float64), 0.0
    for epoch in (1, 3, 5):
        (trained, scores), (held, others) = by_epoch(module.seen, epoch), by_epoch(module.kept, epoch)
        followed = (scores.argmax(1) == given[trained]).double().mean().item()
        kept = (others.argmax(1) == given[held]).double().mean().item()
        weight = kept**2 * min(1, (1 - followed) / (1 - kept))
        total[trained] += weight * torch.logit(torch.softmax(scores, 1).gather(1, given[trained][:, None]).squeeze(1))
        share += weight
    assert found.audit is not None
    expected = (total / share).numpy()[TRAINED]
    np.testing.assert_allclose(found.audit.evidence["margin"][TRAINED], expected, rtol=2e-5, atol=2e-5)


@NO_HELD_OUT
def test_without_held_out_labels_there_is_a_ranking(tmp_path: Path) -> None:
    _, found = fit(tmp_path, loaders=(loaders()[0], None))
    assert found.audit is not None
    assert not found.audit.can_tell
    assert len(found.audit) == len(TRAINED)
    assert "0 samples were held out" in found.audit.warnings[-1]
    assert pyrite.diagnostics.roc_auc(found.audit.score, NOISY.is_wrong[TRAINED]) > 0.8


class Dictionaries(Dataset[Any]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {"inputs": torch.tensor(INPUTS[place] / 16, dtype=torch.float32), "labels": int(NOISY.given[place])}


class OfDictionaries(Module):
    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return super().training_step((batch["inputs"], batch["labels"], batch["index"]), batch_idx)

    def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
        return super().validation_step(Batch(batch["inputs"], batch["labels"], batch["index"]), batch_idx)


def test_dictionaries_do_the_same(whole: tuple[Any, LabelAudit, bytes], tmp_path: Path) -> None:
    fit(tmp_path, module=OfDictionaries(), loaders=loaders(Indexed(Dictionaries())))
    assert (tmp_path / "suspects.csv").read_bytes() == whole[2]


def test_other_validation_is_left_alone(tmp_path: Path) -> None:
    """Batches without an index, and ``trainer.validate``, are nothing to the callback."""

    class Plain(Module):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.net(batch[0])

    plain = DataLoader(TensorDataset(torch.zeros(60, 64), torch.zeros(60, dtype=torch.long)), 60)
    _, found = fit(tmp_path, epochs=1, module=Plain(), loaders=(loaders()[0], plain))
    assert found.audit is not None
    before = found.state_dict()
    lightning.Trainer(**QUIET, callbacks=[found], enable_checkpointing=False).validate(
        Module(), loaders()[1], verbose=False
    )
    after = found.state_dict()
    assert_same(before, after)


@NO_HELD_OUT
def test_a_fit_of_too_few_is_a_warning(tmp_path: Path) -> None:
    few = LabelAudit(NOISY.given[:40])
    with pytest.warns(UserWarning, match="no label was audited: there are 40 samples"):
        fit(tmp_path, epochs=1, found=few, loaders=(DataLoader(Subset(data(), range(40)), 10), None))
    assert few.audit is None


class NoScores(Module):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx)["loss"]


class NoHeldOutScores(Module):
    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        return None


def pairs() -> tuple[DataLoader[Any], None]:
    class Pairs(Dataset[Any]):
        def __len__(self) -> int:
            return 100

        def __getitem__(self, place: int) -> Any:
            return {"inputs": torch.zeros(64), "labels": 0}

    return DataLoader(Pairs(), 10), None


class OfPairs(Module):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return {"loss": self.net(batch["inputs"]).sum(), "scores": self.net(batch["inputs"])}


@NO_HELD_OUT
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"module": NoScores()}, r"training_step returns no scores: return"),
        ({"module": NoHeldOutScores()}, r"validation_step returns no scores"),
        ({"module": OfPairs(), "loaders": pairs()}, "wrap the data set in Indexed"),
        ({"found": LabelAudit(np.roll(NOISY.given, 1))}, r"the label of sample 1 is \d in a batch, but \d in labels"),
        ({"found": LabelAudit(NOISY.given[:20])}, "there is a sample 66, but there are 20 labels"),
        ({"found": LabelAudit(NOISY.given, classes=11)}, r"shape \(50, 10\), but must have \(50, 11\)"),
        ({"loaders": (loaders()[0], DataLoader(Subset(data(), range(250)), 250))}, "sample 1 was trained on, and now"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        fit(tmp_path, num_sanity_val_steps=0, **options)


def test_a_checkpoint_of_other_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="the checkpoint belongs to other labels"):
        LabelAudit(NOISY.given).load_state_dict(LabelAudit(TRUE).state_dict())


def test_labels_and_classes_must_fit() -> None:
    with pytest.raises(ValueError, match="labels are empty"):
        LabelAudit([])
    with pytest.raises(ValueError, match="there are 2 classes, but labels up to 2"):
        LabelAudit([0, 1, 2], classes=["cat", "dog"])
    assert LabelAudit([0, 1], classes=3).classes == ("0", "1", "2")


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


def test_indexed() -> None:
    whole = Indexed([(0.5, 3), (1.5, 4)], start=10)
    assert whole[-1] == (1.5, 4, 11)
    assert [tuple(part.tolist()) for part in next(iter(DataLoader(whole, 2)))] == [(0.5, 1.5), (3, 4), (10, 11)]
    with pytest.raises(ValueError, match="sample 0 is int"):
        Indexed([1])[0]
    with pytest.raises(ValueError, match="start is -1"):
        Indexed([], start=-1)
    with pytest.raises(ValueError, match="IterableDataset has no numbers"):
        Indexed(Stream())


class Shared(Module):
    """Each process takes every other sample, so that the two batches of a step are one of the single process."""

    def _loader(self, loader: DataLoader[Any]) -> DataLoader[Any]:
        size = loader.batch_size or 0
        if self.trainer.world_size == 1:
            return loader
        return DataLoader(loader.dataset, size // 2, sampler=DistributedSampler(loader.dataset, shuffle=False))

    def train_dataloader(self) -> DataLoader[Any]:
        return self._loader(loaders()[0])

    def val_dataloader(self) -> DataLoader[Any]:
        return self._loader(loaders()[1])


def test_two_processes_end_like_one(tmp_path: Path) -> None:
    """Also when the checkpoint between them is made before the epoch is folded in: each knows half of it then."""
    fit(tmp_path / "one", 2)
    both: dict[str, Any] = {
        "devices": 2, "strategy": "ddp_fork", "use_distributed_sampler": False, "enable_checkpointing": True,
        "loaders": (None, None),
    }  # fmt: skip
    keep = ModelCheckpoint(tmp_path / "kept", filename="last", save_on_train_epoch_end=False)
    fit(tmp_path / "two", 1, Shared(), callbacks=[keep], **both)
    both |= {"ckpt_path": tmp_path / "kept" / "last.ckpt", "callbacks": [ModelCheckpoint(tmp_path / "again")]}
    fit(tmp_path / "two", 2, Shared(), **both)
    one, two = (
        np.genfromtxt(tmp_path / name / "suspects.csv", delimiter=",", skip_header=1)[:, [0, 7]]
        for name in ("one", "two")
    )
    one, two = (table[np.argsort(table[:, 0])] for table in (one, two))
    assert len(one) == SAMPLES
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-3)
