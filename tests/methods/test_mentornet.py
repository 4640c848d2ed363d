"""MentorNet against its formula."""

import numpy as np
import pytest
import torch
from torch import nn

from pyrite.data import Batches
from pyrite.methods import Context, Learner, method
from pyrite.models import build_model

ROWS = np.random.default_rng(0)
INPUTS, LABELS = ROWS.normal(size=(40, 4)).astype(np.float32), ROWS.integers(3, size=40)


def net() -> nn.Module:
    return build_model("mlp(hidden=[7], norm=False)", (4,), 3, seed=0).double()


def learner(number: int, epochs: int) -> Learner:
    own = net()
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.2), precision="float64")


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_weights_are_those_of_the_formula(width: float) -> None:
    trainer = method(f"mentornet(percentile=0.6, decay=0.3, width={width}, burn_in=0.5)").start(
        Context(Batches(INPUTS, LABELS, batch_size=10, seed=0), learner, epochs=2, classes=3)
    )
    own, threshold = net(), None
    optimiser = torch.optim.SGD(own.parameters(), lr=0.2)
    for epoch in (1, 2):
        trainer.begin_epoch(epoch)
        for batch in Batches(INPUTS, LABELS, batch_size=10, seed=epoch):
            step = trainer.step(batch)
            losses = nn.functional.cross_entropy(own(batch.inputs.double()), batch.labels, reduction="none")
            now = float(np.quantile(losses.detach().numpy(), 0.6))
            threshold = now if threshold is None else 0.3 * threshold + 0.7 * now
            over = losses.detach() - threshold
            weights = (over <= 0).double() if width == 0 else (1 - over / (width * threshold)).clamp(0, 1)
            weights = torch.ones(10) if epoch == 1 else weights  # burn-in
            torch.testing.assert_close(step.trust, weights.double(), rtol=1e-9, atol=1e-12)
            optimiser.zero_grad()
            ((weights * losses).sum() / weights.sum()).backward()
            optimiser.step()
        trainer.end_epoch()
    assert trainer.facts() == {"loss_threshold": pytest.approx(threshold)}
    for one, other in zip(trainer.learners[0].weights, own.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_what_is_refused() -> None:
    for spec, words in {
        "mentornet(percentile=2)": "percentile is 2",
        "mentornet(decay=1)": "decay is 1",
        "mentornet(width=-1)": "width is -1",
        "mentornet(burn_in=-1)": "burn_in is -1",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
