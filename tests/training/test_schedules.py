"""Learning rates against values worked out by hand."""

import math

import pytest

from pyrite.training.optimisers import SCHEDULES, Constant, Steps


def shares(spec: str, per_epoch: int, epochs: int) -> list[float]:
    return [SCHEDULES.read(spec).factor_at(step, per_epoch, epochs) for step in range(per_epoch * epochs)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("constant", [1] * 8),
        ("constant(warmup=1)", [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]),
        ("constant(warmup=0.5)", [0.5, 1, 1, 1, 1, 1, 1, 1]),
        ("constant(warmup=0.6)", [1 / 2.4, 2 / 2.4, 1, 1, 1, 1, 1, 1]),  # 2.4 steps: the third would be above 1
        ("linear", [1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
        ("linear(warmup=1)", [0.25, 0.5, 0.75, 1, 1, 0.75, 0.5, 0.25]),
        ("cosine", [(1 + math.cos(math.pi * step / 8)) / 2 for step in range(8)]),
        ("cosine(warmup=0.5)", [0.5, 1] + [(1 + math.cos(math.pi * step / 6)) / 2 for step in range(6)]),
        ("steps(at=[1])", [1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1]),
        ("steps(at=[3, 5], factor=0.5, by='iteration')", [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]),
        ("steps(at=[3], by='iteration', warmup=0.5)", [0.5, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.1]),
        ("steps(at=[0.5, 1.5])", [1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01]),
        ("constant(warmup=4)", [step / 16 for step in range(1, 9)]),  # longer than the run
        ("linear(warmup=2)", [step / 8 for step in range(1, 9)]),
    ],
)
def test_two_epochs_of_four_steps(spec: str, expected: list[float]) -> None:
    assert shares(spec, per_epoch=4, epochs=2) == pytest.approx(expected, abs=1e-12)


def test_the_rate_is_nothing_after_the_end() -> None:
    """A learner may ask for the step that would come next."""
    for spec in ("linear", "cosine", "linear(warmup=2)", "cosine(warmup=3)"):
        last = SCHEDULES.read(spec).factor_at(8, 4, 2)
        assert last == pytest.approx(9 / 12 if spec == "cosine(warmup=3)" else 0, abs=1e-12)


def test_a_paper_s_own() -> None:
    """The rate of a ResNet on CIFAR: a tenth after 32,000 and 48,000 iterations (He et al., 2016)."""
    he = Steps(at=[32000, 48000], by="iteration")
    found = [he.factor_at(step, 391, 164) for step in (0, 31999, 32000, 47999, 48000, 64000)]
    assert found == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_spelling() -> None:
    for spec in ("constant", "cosine(warmup=1)", "steps(at=(40, 80), factor=0.1, by='epoch')"):
        assert str(SCHEDULES.read(spec)) == spec
        assert SCHEDULES.read(str(SCHEDULES.read(spec))) == SCHEDULES.read(spec)
    assert repr(SCHEDULES.read("linear")) == "Linear()"
    own = Constant(warmup=2)
    assert SCHEDULES.read(own) is own
    assert set(SCHEDULES) == {"constant", "cosine", "linear", "steps"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("cosinus", "unknown schedule 'cosinus': did you mean 'cosine'"),
        (
            "linear(warm=1)",
            r"linear: got an unexpected keyword argument 'warm'; the signature is linear\(\*, warmup=0.0\)",
        ),
        ("linear(warmup=-1)", "warmup is -1, but must be a number of epochs, 0 or more"),
        ("linear(warmup='1')", "warmup is '1'"),
        ("linear(warmup=True)", "warmup is True"),
        ("linear(warmup=1e999)", "warmup is inf"),
        ("steps", r"at is \(\), but must be a list of epochs or iterations, such as \[40, 80\]"),
        ("steps(at=40)", "at is 40"),
        ("steps(at=[0, 4])", r"at is \[0, 4\]"),
        ("steps(at=[80, 40])", r"at is \[80, 40\], but must be in ascending order"),
        ("steps(at=[40, 40])", "ascending"),
        ("steps(at=[40], factor=0)", "factor is 0, but must be a number above 0"),
        ("steps(at=[40], by='step')", "by is 'step', but must be one of 'epoch', 'iteration'"),
        ("0.1", "plain value, not a schedule"),
    ],
)
def test_what_is_no_schedule(spec: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SCHEDULES.read(spec)
