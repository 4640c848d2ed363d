"""DivideMix against the published algorithm, written out for two nets with autograd of the printed formulas."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import beta
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from pyrite.data import Batches, CropFlip
from pyrite.draws import Stream, uniforms
from pyrite.methods import Context, Learner, method
from pyrite.methods.mixed_pair import small_losses
from pyrite.training import fit

ROWS = np.random.default_rng(0)
IMAGES, LABELS = ROWS.integers(256, size=(40, 1, 4, 4), dtype=np.uint8), ROWS.integers(3, size=40)


def batches() -> Batches:
    return Batches(IMAGES, LABELS, batch_size=10, seed=5, augment=CropFlip(pad=1), index=np.arange(35))


def net(number: int) -> nn.Module:
    torch.manual_seed(number)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3)).double()


def learner(number: int, epochs: int) -> Learner:
    own = net(number)
    return Learner(own, torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.9), precision="float64")


def mixture(losses: Tensor) -> Tensor:
    """As in the paper, by scikit-learn alone."""
    column = ((losses - losses.min()) / (losses.max() - losses.min())).numpy()[:, None]
    fitted = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(column)
    return torch.from_numpy(fitted.predict_proba(column)[:, fitted.means_.argmin()])


def test_the_probability_is_that_of_the_smaller_component() -> None:
    generator = torch.Generator().manual_seed(0)
    for wrong in (0.1, 0.4, 0.8):
        is_wrong = torch.rand(500, generator=generator) < wrong
        losses = 5.0 * is_wrong + torch.randn(500, dtype=torch.float64, generator=generator).abs()
        torch.testing.assert_close(small_losses(losses), mixture(losses), rtol=1e-6, atol=1e-8)
    losses[3] = torch.nan
    assert small_losses(losses)[3] == 0
    assert small_losses(torch.ones(9)).tolist() == [1.0] * 9


@pytest.mark.parametrize("entropy", [0.0, 1.0])
def test_a_run_is_the_published_algorithm(entropy: float) -> None:
    data, seed, temperature = batches(), 5, 0.4
    spec = f"divide_mix(unlabelled=6, warm_up=1, ramp=2, temperature={temperature}, balance=0.7, entropy={entropy})"
    trainer = method(spec).start(Context(data, learner, epochs=3, classes=3))
    fit(trainer, data, 3)

    nets, data, steps = [net(0), net(1)], batches(), 0
    optimisers = [torch.optim.SGD(own.parameters(), lr=0.2, momentum=0.9) for own in nets]
    everything = torch.cat([batch.inputs for batch in data.in_order()]).double()
    given = torch.from_numpy(LABELS)
    for epoch in (1, 2, 3):
        clean = torch.zeros(2, 40, dtype=torch.float64)
        for own, row in zip(nets, clean, strict=True):
            with torch.no_grad():
                row[:35] = mixture(cross_entropy(own.eval()(everything), given[:35], reduction="none"))
        for inputs, labels, index in data:
            for own in nets:
                own.eval()
            views = [inputs.double(), data.again(index).double()]
            with torch.no_grad():
                p = [sum(own(view).softmax(1) for view in views) / 2 for own in nets]
            losses = []
            for number, own in enumerate(nets):
                own.train()
                if epoch == 1:
                    scores = own(inputs.double())
                    p_now = scores.softmax(1)
                    loss = cross_entropy(scores, labels) + entropy * (p_now * p_now.log()).sum(1).mean()
                    losses.append(loss)
                    continue
                w = clean[1 - number, index].unsqueeze(1)
                kept = w > 0.5
                target = torch.where(kept, w * one_hot(labels, 3) + (1 - w) * p[number], (p[0] + p[1]) / 2)
                target = target ** (1 / temperature)
                target = target / target.sum(1, keepdim=True)
                x = torch.stack(views, 1).flatten(0, 1)
                t, kept = target.repeat_interleave(2, 0), kept.squeeze(1).repeat_interleave(2)
                drawn = uniforms(seed, Stream.MIXUP, 1 + len(x), steps, number)
                part = beta.ppf(drawn[0], 4, 4)
                part = max(part, 1 - part)
                other = drawn[1:].argsort(kind="stable")
                scores = own(part * x + (1 - part) * x[other])
                t, q = part * t + (1 - part) * t[other], scores.softmax(1)
                labelled = -(t * q.log()).sum(1)[kept].mean() if kept.any() else 0
                unlabelled = ((q - t) ** 2)[~kept].mean() if (~kept).any() else 0
                mean = q.mean(0)
                loss = labelled + 6 * (epoch - 1) / 2 * unlabelled + 0.7 * (1 / 3 * (1 / 3 / mean).log()).sum()
                losses.append(loss)
            for optimiser, loss in zip(optimisers, losses, strict=True):
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            steps += 1
        if epoch == 3:
            kept = clean[:, :35] > 0.5
            expected = {"labelled_fraction": pytest.approx(float(kept.double().mean())), "unlabelled_factor": 6.0}
            assert trainer.facts() == expected
            assert 0 < kept.double().mean() < 1
            torch.testing.assert_close(trainer.arrays()["clean_probability"], clean, rtol=1e-6, atol=1e-8)
    for mine, theirs in zip(trainer.learners, nets, strict=True):
        for one, two in zip(mine.weights, theirs.parameters(), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-7)


def test_observers_see_the_samples_and_not_the_mixtures() -> None:
    data = batches()
    trainer = method("divide_mix(warm_up=0)").start(Context(data, learner, epochs=2, classes=3))
    trainer.begin_epoch(1)
    batch = next(iter(data))
    expected = trainer.learner.evaluate(batch.inputs).clone()
    step = trainer.step(batch)
    assert torch.equal(step.scores, expected)
    assert step.gradient.shape == (10, 3)
    assert step.index.tolist() == batch.index.tolist()


def test_what_is_refused() -> None:
    for spec, words in {
        "divide_mix(threshold=2)": "threshold is 2",
        "divide_mix(temperature=0)": "temperature is 0",
        "divide_mix(alpha=0)": "alpha is 0",
        "divide_mix(warm_up=-1)": "warm_up is -1",
    }.items():
        with pytest.raises(ValueError, match=words):
            method(spec)
