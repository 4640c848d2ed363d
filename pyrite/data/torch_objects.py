"""What is recognised of PyTorch and torchvision: tensors, data sets, subsets, loaders, and folders of images."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from pyrite.data.dataset import Labels
from pyrite.data.images import SUFFIXES
from pyrite.data.records import listed
from pyrite.data.tables import is_arrow
from pyrite.errors import PyriteError


def is_torch(data: object, *names: str) -> bool:
    """Whether it is an object of these classes of ``torch.utils.data``; none is if torch is not imported."""
    module = sys.modules.get("torch.utils.data")
    return module is not None and isinstance(data, tuple(getattr(module, name) for name in names))


def is_tensor(data: object) -> bool:
    """Whether it is a tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def is_files(data: object) -> bool:
    """Whether it is an ``ImageFolder`` of torchvision, or an object like it: image files with class numbers."""
    if not all(hasattr(data, name) for name in ("samples", "classes", "class_to_idx")):
        return False
    samples: Any = data.samples  # type: ignore[attr-defined]
    loader = getattr(data, "loader", None)  # the user's own may read other pixels from a file
    if _makes_items(type(data)) or not getattr(loader, "__module__", "torchvision").startswith("torchvision"):
        return False
    pairs = isinstance(samples, list) and samples and isinstance(samples[0], tuple) and len(samples[0]) == 2
    return bool(pairs) and isinstance(samples[0][0], str | Path) and Path(samples[0][0]).suffix.lower() in SUFFIXES


def _makes_items(kind: type) -> bool:
    """Whether a class that is derived from one of torchvision makes items of its own, maybe with other labels."""
    reader = next((cls for cls in kind.__mro__ if "__getitem__" in vars(cls)), kind)
    ours = [cls.__module__.partition(".")[0] == "torchvision" for cls in (reader, *kind.__mro__)]
    return any(ours) and not ours[0]


def base_of(data: Any) -> tuple[Any, Labels | None]:
    """The data set of which nested subsets select items, and which these are; None for all of them."""
    rows: Labels | None = None
    while is_torch(data, "Subset") and type(data).__module__.startswith("torch."):  # a derived one has own items
        own = np.asarray(data.indices, np.int64)
        data, rows = data.dataset, own if rows is None else own[rows]
    return data, rows


def class_names(data: Any) -> tuple[str, ...]:
    """The names of the classes, if the data set has them."""
    if is_torch(data, "ConcatDataset"):
        found = sorted({class_names(base_of(part)[0]) for part in data.datasets})
        named = [names for names in found if names]
        if len(named) > 1:
            raise PyriteError(
                f"data is a ConcatDataset whose parts have different classes, {listed(named[0])} and "
                f"{listed(named[1])}: map their labels to one list of classes first"
            )
        return found[0] if len(found) == 1 else ()
    if getattr(data, "target_transform", None) is not None:  # its numbers are not those of the names
        return ()
    names = getattr(data, "classes", None) if is_torch(data, "Dataset") or is_files(data) else None
    return tuple(map(str, names)) if isinstance(names, list | tuple) and len(names) > 1 else ()


def loader_notes(loader: Any) -> tuple[str, ...]:
    """Sentences about what a loader does to its data set that is not done here."""
    import torch.utils.data as torch_data

    sampler, notes = getattr(loader.batch_sampler, "sampler", loader.sampler), []
    usual = torch_data.SequentialSampler, torch_data.RandomSampler
    drawn = torch_data.WeightedRandomSampler, torch_data.DistributedSampler  # from the whole data set
    parts = hasattr(sampler, "__len__") and not isinstance(sampler, (*usual, *drawn))
    if parts and hasattr(loader.dataset, "__len__") and len(sampler) < len(loader.dataset):
        raise PyriteError(
            f"data is a DataLoader whose sampler selects {len(sampler):,} of the {len(loader.dataset):,} items of its "
            "data set: pass torch.utils.data.Subset(loader.dataset, list(loader.sampler))"
        )
    batches = type(loader.batch_sampler).__name__ if loader.batch_sampler is not None else "BatchSampler"
    name = type(sampler).__name__ if not isinstance(sampler, usual) else batches
    if name != "BatchSampler" and not is_torch(loader.dataset, "IterableDataset"):
        notes.append(f"the {name} of the DataLoader is not used: every item of its data set is read once")
    if loader.collate_fn not in (torch_data.default_collate, torch_data.default_convert):
        notes.append("the collate_fn of the DataLoader is not used: items are read from its data set")
    return tuple(notes)


def refuse_streams(data: Any) -> None:
    """Raise PyriteError for what has no numbered items."""
    if is_torch(data, "IterableDataset"):
        raise PyriteError(
            f"data is a {type(data).__name__}, an IterableDataset, whose items have neither number nor index: pass "
            "list(data), if it fits into memory, or a Dataset with __len__ and __getitem__"
        )
    if is_arrow(data):
        raise PyriteError("data is of pyarrow: pass it as data.to_pandas(types_mapper=pandas.ArrowDtype)")
    if not hasattr(data, "__getitem__"):
        raise PyriteError(f"data is a {type(data).__name__}, which can only be iterated over: pass list(data)")
