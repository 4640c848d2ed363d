"""``pyrite.CE()`` is ``F.cross_entropy`` in every corner; ``Smooth(CE())`` is its label smoothing."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

import pyrite

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@given(
    dims=st.lists(st.integers(0, 3), max_size=3),
    classes=st.integers(2, 6),
    dtype=st.sampled_from(list(TOLERANCE)),
    reduction=st.sampled_from(["none", "mean", "sum"]),
    weighted=st.booleans(),
    ignore_index=st.sampled_from([-100, 1, 3, -1]),
    soft=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1, 0.6]),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=400, deadline=None)
def test_equals_torch(
    dims: list[int],
    classes: int,
    dtype: torch.dtype,
    reduction: str,
    weighted: bool,
    ignore_index: int,
    soft: bool,
    smoothing: float,
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = (*dims[:1], classes, *dims[1:])
    scores = (3 * torch.randn(shape, generator=generator)).to(dtype)
    weight = torch.rand(classes, generator=generator) + 0.1 if weighted else None
    if soft:
        ignore_index = -100
        labels = torch.randn(shape, generator=generator, dtype=torch.float64).softmax(1 if dims else 0).to(dtype)
    else:
        labels = torch.randint(classes, tuple(dims), generator=generator)
        if dims and ignore_index < 0:
            labels = torch.where(torch.rand(labels.shape, generator=generator) < 0.3, ignore_index, labels)
    options = {"reduction": reduction, "ignore_index": ignore_index, "weight": weight}
    loss = pyrite.Smooth(pyrite.CE(), rate=smoothing, **options) if smoothing else pyrite.CE(**options)
    ours, theirs = scores.clone().requires_grad_(), scores.clone().float().requires_grad_()
    value = loss(ours, labels)
    # The reference in float32 at least: torch sums half precision in half precision.
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    theirs = scores.to(kind).requires_grad_()
    reference = F.cross_entropy(
        theirs,
        labels.to(kind) if soft else labels,
        weight=None if weight is None else weight.to(kind),
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=smoothing,
    )
    assert value.shape == reference.shape
    assert value.dtype == dtype
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype], "equal_nan": True}
    assert torch.allclose(value.to(kind), reference, **close)
    if value.isfinite().all():
        value.sum().backward()
        reference.sum().backward()
        assert torch.allclose(ours.grad.to(kind), theirs.grad, **close)


def test_all_ignored_is_nan_as_in_torch() -> None:
    scores, labels = torch.randn(3, 4), torch.full((3,), -100)
    assert torch.isnan(F.cross_entropy(scores, labels))
    assert torch.isnan(pyrite.CE()(scores, labels))
    assert pyrite.CE(reduction="sum")(scores, labels) == 0


def test_soft_labels_cannot_be_ignored() -> None:
    with pytest.raises(ValueError, match="ignore_index is 2"):
        pyrite.CE(ignore_index=2)(torch.randn(3, 4), torch.full((3, 4), 0.25))


def test_stands_where_cross_entropy_stood() -> None:
    """The README's claim: a training loop with another criterion, nothing else changed."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    inputs, labels = torch.randn(60, 4), torch.randint(3, (60,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    criterion = pyrite.IMAE(T=8)
    before = criterion(model(inputs), labels).item()
    for _ in range(30):
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
    assert criterion(model(inputs), labels).item() < before
