"""The spec string: what it reads, what it refuses, and that nothing is ever run."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from torch import Tensor

import pyrite
from pyrite.spec import build, spec_string, write_spec


class Thing:
    def __init__(self, a: float, b: object = None, c: str = "x") -> None:
        self.a, self.b, self.c = a, b, c

    def __str__(self) -> str:
        return write_spec(self)


REGISTRY = {"thing": Thing}


def test_reads_calls_and_literals() -> None:
    made = build(" thing(-1.5, b=[1, (2, 'x')], c='y') ", REGISTRY, "thing")
    assert (made.a, made.b, made.c) == (-1.5, [1, [2, "x"]], "y")


@given(a=st.floats(allow_nan=False, allow_infinity=False), b=st.lists(st.integers(), max_size=3), c=st.text(max_size=8))
@settings(deadline=None)
def test_round_trip(a: float, b: list[int], c: str) -> None:
    made = build(str(Thing(a, b, c)), REGISTRY, "thing")
    assert (made.a, made.b, made.c) == (a, b, c)


@pytest.mark.parametrize("text", ["thing(1) + thing(2)", "2 * thing(1)"])
def test_what_has_no_sums_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="a thing cannot be added or multiplied"):
        build(text, REGISTRY, "thing")


def test_nested_things_come_first_without_their_name_and_later_with_it() -> None:
    assert write_spec(Thing(Thing(1), b=2)) == "thing(thing(a=1, c='x'), b=2, c='x')"  # type: ignore[arg-type]
    assert write_spec(Thing(1, b=Thing(2))) == "thing(a=1, b=thing(a=2, c='x'), c='x')"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch {path}')",
        "ce.__class__",
        "[x for x in (1,)]",
        "lambda: 1",
        "ce if 1 else mae",
        "ce - mae",
        "ce / 2",
        "2 ** ce",
        "ce + 1",
        "ce * mae",
        "2 * 3",
        "-ce",
        "ce or mae",
        "gce(*[0.7])",
        "gce(**{{'q': 0.7}})",
        "f'{{1}}'",
        "(y := ce)",
        "ce; mae",
        "ce(",
        "",
        "3",
        "'ce'",
        "open('{path}', 'w')",
        "exec('1')",
        "gce(q=1j)",
        "gce(q=b'1')",
        "(" * 500 + "ce" + ")" * 500,
        "+".join(["ce"] * 20000),
        "unit(" * 2000 + "ce" + ")" * 2000,
        "ce\0",
    ],
)
def test_everything_else_is_refused(text: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    with pytest.raises(ValueError):
        pyrite.loss(text.format(path=touched))
    assert not touched.exists()


def test_errors_help() -> None:
    with pytest.raises(ValueError, match="unknown loss 'imea': did you mean 'imae'"):
        pyrite.loss("imea(T=8)")
    with pytest.raises(ValueError, match="unknown loss 'zzzzz': there are: ael, agce"):
        pyrite.loss("zzzzz")
    with pytest.raises(ValueError, match="GCE does not take Q; it takes q, reduction, ignore_index, weight, check"):
        pyrite.loss("gce(Q=0.7)")
    with pytest.raises(ValueError, match="scale: missing a required argument: 'tau'"):
        pyrite.loss("scale(mae)")
    with pytest.raises(ValueError, match="only names, calls, numbers"):
        pyrite.loss("ce - mae")
    with pytest.raises(ValueError, match="plain value, not a loss"):
        pyrite.loss("0.5")
    with pytest.raises(ValueError, match="loss is 3, but must be a text such as"):
        pyrite.loss(3)  # type: ignore[arg-type]


def test_a_loss_comes_back_as_it_is() -> None:
    loss = pyrite.GCE()
    assert pyrite.loss(loss) is loss
    with pytest.raises(ValueError, match="is already a loss"):
        pyrite.loss(loss, reduction="sum")


def test_sums() -> None:
    assert str(pyrite.loss("0.7*nce + 0.3*mae")) == str(0.7 * pyrite.NCE() + 0.3 * pyrite.MAE()) == "0.7*nce + 0.3*mae"
    assert str(2 * (pyrite.CE() + 3 * pyrite.MAE())) == "2*ce + 6*mae"
    assert str(sum([pyrite.CE(), pyrite.MAE()])) == "ce + mae"
    assert isinstance(pyrite.CE() + pyrite.MAE(), pyrite.Curve)
    assert not isinstance(pyrite.CE() + pyrite.NCE(), pyrite.Curve)
    with pytest.raises(TypeError):
        pyrite.CE() + 1  # type: ignore[operator]


class OtherMAE(pyrite.Loss):
    """A class of the user's own, which is not registered."""

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return 1 - scores.softmax(1).gather(1, labels[:, None]).squeeze(1)


OtherMAE.__name__ = "MAE"  # as a registered class


@pytest.mark.usefixtures("registries_as_before")
def test_a_spec_string_is_given_only_to_what_it_makes_again() -> None:
    for spec in ("0.7*nce + 0.3*unit(mae)", "unit(nce, classes=10)", "gce(q=0.5, weight=[1.0, 2.0])"):
        assert spec_string(pyrite.loss(spec)) == spec
        assert spec_string(pyrite.ERM(pyrite.loss(spec))) == f"erm({spec})"
    own: pyrite.Loss = OtherMAE()
    for thing in (own, own + pyrite.CE(), pyrite.ERM(own), pyrite.OwnLoss(own), pyrite.ERM(pyrite.OwnLoss(own))):
        assert spec_string(thing) is None
    assert spec_string(pyrite.Architecture) is None
    pyrite.register("other_mae", OtherMAE)
    assert spec_string(pyrite.ERM(own)) == "erm(other_mae)"

    def half(factor: float = 0.5) -> pyrite.Loss:
        return pyrite.OwnLoss(lambda scores, labels: factor * own(scores, labels))

    pyrite.register("half", half)
    assert spec_string(pyrite.METHODS.read("erm(half(factor=0.2))")) == "erm(half(factor=0.2))"
    assert spec_string(pyrite.loss("half", reduction="sum")) is None
