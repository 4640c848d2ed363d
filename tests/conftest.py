"""Set for every test."""

from collections.abc import Iterator

import pytest
import torch

# The tensors here are tiny; two threads would spend their time waiting for each other, and more so on a busy machine.
torch.set_num_threads(1)


@pytest.fixture
def registries_as_before() -> Iterator[None]:
    """What a test registers is gone after it."""
    from pyrite.registration import REGISTRIES

    before = {kind: dict(registry.entries) for kind, registry in REGISTRIES.items()}
    yield
    for kind, registry in REGISTRIES.items():
        registry.entries.clear()
        registry.entries.update(before[kind])
