"""A data set whose samples carry their index."""

from collections.abc import Mapping
from typing import Any, final

from torch.utils.data import Dataset, IterableDataset

from pyrite.checks import whole_number
from pyrite.data import Batch
from pyrite.errors import PyriteError


@final
class Indexed(Dataset[Any]):
    """A data set of ``(inputs, labels)`` as one of ``(inputs, labels, index)``; dictionaries get an ``"index"``.

    The triple is a named tuple (``batch.inputs``, ``batch.labels``, ``batch.index``), which torch's collation, pinning
    and transfers to a device preserve.

    Wrap the data set before you split it, so that indices are those of the whole set. Two separate sets get different
    indices by ``start``: ``Indexed(validation, start=len(train))``.

    >>> from torch.utils.data import random_split
    >>> whole = Indexed([("a", 0), ("b", 1), ("c", 0)])
    >>> whole[2], Indexed([("d", 1)], start=len(whole))[0].index
    (Batch(inputs='c', labels=0, index=2), 3)
    """

    def __init__(self, dataset: Any, start: int = 0) -> None:
        if isinstance(dataset, IterableDataset):
            raise PyriteError(
                "an IterableDataset has no numbers for its samples: pass a data set that can be indexed, dataset[i]"
            )
        self.dataset, self.start = dataset, whole_number("start", start, least=0)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> Any:
        index = self.start + range(len(self))[place]
        sample = self.dataset[place]
        if isinstance(sample, Mapping):
            return {**sample, "index": index}
        if not isinstance(sample, tuple | list) or len(sample) != 2:
            raise PyriteError(
                f"sample {place} is {type(sample).__name__}, but must be (inputs, labels) or a dictionary"
            )
        inputs, labels = sample
        return Batch(inputs, labels, index)  # type: ignore[arg-type]  # a sample now, a batch once they are collated
