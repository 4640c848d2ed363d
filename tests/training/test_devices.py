"""Training on a device that is not the processor: no waits, no float64, and the same results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import pyrite
from pyrite.methods import Learner
from tests.children import FORKS, differing

STEPS = 50, 100
METHODS = ["erm(ce)", "select(erm(ce), elr)", "meta_weight(size=20, hidden=5)"]


def train(out: Path, device: str, method: str = "erm(ce)", steps: int = 20, **options: Any) -> Any:
    return pyrite.train(
        "blobs(samples=2500, classes=5, features=4)", method=method, noise="symmetric(0.3)", device=device,
        model="mlp(hidden=[6])", iterations=steps, batch_size=10, validation=0.02, out=out, progress=False,
        **options,
    )  # fmt: skip


def on_the_device(out: Path) -> None:
    """In a process of its own: what was trained is in folders, and what was counted in a file."""
    from tests.training import counting_device

    kept, found = counting_device.set_up(), dict[str, Any]()
    for number, method in enumerate(METHODS):
        waits = []
        for steps in STEPS:
            counting_device.WAITS.clear()
            train(out / f"{number}-{steps}", "counting", method, steps)
            waits.append(len(counting_device.WAITS))
        found[method] = {"waits": waits}
    train(out / "whole", "counting", checkpoint_every=7)
    answers = iter([False] * 12 + [True])
    train(out / "stopped", "counting", checkpoint_every=7, stop=lambda: next(answers))
    pyrite.train(resume=out / "stopped", progress=False)
    found["classifier"] = probabilities("counting").tolist()
    found["fault"] = [not_finite(scaled=False)]
    counting_device.REFUSED.clear()  # torch's scaler has float64 on every device but Apple's
    found["fault"].append(not_finite(scaled=True))
    (out / "found.json").write_text(json.dumps(found))
    del kept


def probabilities(device: str) -> Any:
    rng, labels = np.random.default_rng(0), np.arange(60) % 3
    rows = rng.normal(size=(60, 4)) + labels[:, None]
    classifier = pyrite.RobustClassifier(device=device, folds=0, epochs=2, members=2)
    return classifier.fit(rows, labels).predict_proba(rows)


def not_finite(scaled: bool) -> dict[str, Any]:
    """A step that is not finite among others that are: what is raised, and whether the weights are those before it.

    torch has no autocast for such a device, so that losses are ``scaled`` as in float16, but in float32.
    """
    from pyrite.curves import CE
    from pyrite.data import Batch, Batches
    from pyrite.methods import ERM, Context
    from pyrite.models import build_model
    from tests.training.counting_device import WAITS, own

    net = build_model("mlp(hidden=[6])", (4,), 5, seed=0).to("counting")
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1, weight_decay=0.1, fused=True)
    inputs, labels = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 5
    batches = Batches(inputs, labels, batch_size=10, seed=0, device="counting")
    context = Context(batches, lambda number, epochs: Learner(net, optimiser), epochs=1, classes=5)
    trainer = ERM(CE()).start(context)
    trainer.learner.scaler = torch.amp.GradScaler("counting") if scaled else None
    every = list(batches)
    WAITS.clear()
    for batch in every[:3]:
        trainer.step(batch)
    before = [own(weight.detach()).clone() for weight in net.parameters()]
    trainer.step(Batch(every[3].inputs * torch.nan, every[3].labels, every[3].index))
    for batch in every[4:]:
        trainer.step(batch)
    waits, message = list(WAITS), ""
    try:
        trainer.check()
    except FloatingPointError as error:
        message = str(error)
    same = all(torch.equal(one, own(two.detach())) for one, two in zip(before, net.parameters(), strict=True))
    return {"message": message, "same": same, "waits": waits}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("device")
    process = FORKS.Process(target=on_the_device, args=(out,))
    process.start()
    process.join(600)
    assert process.exitcode == 0
    return out


@pytest.mark.parametrize(("method", "nets"), list(zip(METHODS, (1, 2, 1), strict=True)))
def test_at_most_one_wait_in_fifty_steps(method: str, nets: int, trained: Path) -> None:
    """Of the longer of two runs that differ in the number of steps alone; each net has a check of its own."""
    found = json.loads((trained / "found.json").read_text())[method]
    fewer, more = found["waits"]
    assert fewer > 0
    assert more - fewer <= nets * (STEPS[1] - STEPS[0]) / 50


def test_the_same_model_as_on_the_processor(trained: Path, tmp_path: Path) -> None:
    run, here = train(tmp_path / "run", "cpu", steps=STEPS[0]), load_file(trained / f"0-{STEPS[0]}/model.safetensors")
    for name, values in load_file(run.path / "model.safetensors").items():
        np.testing.assert_allclose(here[name], values, rtol=1e-3, atol=1e-4, err_msg=name)


def test_the_same_classifier_as_on_the_processor(trained: Path) -> None:
    found = json.loads((trained / "found.json").read_text())["classifier"]
    np.testing.assert_allclose(found, probabilities("cpu"), atol=1e-4)


def test_a_resumed_run_ends_with_the_same_bytes(trained: Path) -> None:
    assert differing(trained / "whole", trained / "stopped") == []


def test_what_is_not_finite_is_raised_later_and_changes_nothing(trained: Path) -> None:
    found = json.loads((trained / "found.json").read_text())["fault"]
    assert found == 2 * [{"message": "the loss is not finite", "same": True, "waits": []}]


def test_float16_is_close_and_resumes(tmp_path: Path) -> None:
    """On the processor; its losses are scaled, and the scale is part of the state."""
    exact = train(tmp_path / "exact", "cpu")
    half = train(tmp_path / "half", "cpu", precision="float16")
    answers = iter([False] * 12 + [True])
    stopped = train(tmp_path / "stopped", "cpu", precision="float16", stop=lambda: next(answers))
    assert not stopped.finished
    pyrite.train(resume=stopped.path, progress=False)
    assert differing(half.path, stopped.path) == []
    weights = [load_file(run.path / "model.safetensors") for run in (exact, half)]
    moved = max(float(np.abs(weights[0][name] - weights[1][name]).max()) for name in weights[0])
    assert 0 < moved < 0.05


def test_float16_skips_a_step_that_overflows_and_scales_less() -> None:
    """The derivative of the scores is one of the loss as it is, without the scale."""
    net = torch.nn.Linear(1, 2, bias=False)
    learner = Learner(net, torch.optim.SGD(net.parameters(), lr=0.1), precision="float16")
    before, assumed = net.weight.detach().clone(), learner.scaler.state_dict()["scale"]
    for size, skipped in ((1e35, True), (1.0, False)):
        learner.optimiser.zero_grad()
        scores = learner.scores(torch.ones(1, 1))
        gradient = learner.backward(scores.sum(), torch.tensor(size), scores)
        assert gradient.tolist() == [[size, size]] or skipped
        learner.update()
        assert torch.equal(net.weight, before) == skipped
        assert learner.scaler.state_dict()["scale"] == assumed / 2


def test_float16_of_methods_with_gradients_of_their_own(tmp_path: Path) -> None:
    for method in ("bilevel", "meta_weight(size=20)"):
        with pytest.raises(pyrite.PyriteError, match="precision is float16, but"):
            train(tmp_path / "run", "cpu", method, precision="float16")
