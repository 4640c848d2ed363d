"""What there is to choose from."""

from typing import Any

import pytest

from pyrite.tuning.space import METHOD, Between, OneOf, Range, Space, default_methods, read_range, short


def middle(name: str, held: Range) -> Any:
    return held.middle


def test_ranges_are_filled_in_where_they_stand() -> None:
    text = (
        "between(0.2, 0.4)*gce(q=between(0.1, 0.9)) + scale(one_of(ce, mae), tau=between(1, 4, log=True), classes=10)"
    )
    space = Space([text])
    assert space.ranges == {
        METHOD: OneOf((text,)),
        "factor": Between(0.2, 0.4),
        "gce.q": Between(0.1, 0.9),
        "scale.1": OneOf(tuple(space.ranges["scale.1"].choices)),  # type: ignore[union-attr]
        "scale.tau": Between(1, 4, log=True),
    }
    values = {METHOD: text, "factor": 0.25, "gce.q": 0.3, "scale.1": "mae", "scale.tau": 3.0}
    method, rate = space.pick(lambda name, held: values[name])
    assert str(method) == "erm(0.25*gce(q=0.3) + scale(mae, tau=3.0, classes=10))"
    assert rate is None


def test_methods_losses_and_rates() -> None:
    space = Space(["meta_weight(one_of(mae, ce), every=one_of(1, 5))", "ce"], Between(0.25, 4, log=True))
    assert list(space.ranges) == [METHOD, "meta_weight.1", "meta_weight.every", "lr_factor"]
    method, rate = space.pick(lambda name, held: held.ends[-1])
    assert (short(method), rate) == ("ce", 4.0)
    chosen = space.read(space.methods[0], lambda name, held: held.ends[-1])
    assert str(chosen).startswith("meta_weight(ce, ")
    assert "every=5" in str(chosen)
    assert short(chosen) == str(chosen)


def test_two_of_a_kind_have_ranges_of_their_own() -> None:
    space = Space(["gce(q=between(0.1, 0.2))", "gce(q=between(0.3, 0.4)) + gce(q=between(0.5, 0.6))"])
    assert {name: held.ends for name, held in space.ranges.items() if name != METHOD} == {
        "gce.q": (0.1, 0.2),
        "gce.q 2": (0.3, 0.4),
        "gce.q 3": (0.5, 0.6),
    }


def test_three_digits_within_the_range() -> None:
    assert Between(0, 1).rounded(0.123456) == 0.123
    assert Between(0, 0.123456).rounded(0.123456) == 0.123
    assert Between(0.12345, 1).rounded(0.12345) == 0.12345  # 0.123 would be below
    assert Between(0.5, 8).middle == 4.25
    assert Between(0.5, 8, log=True).middle == 2.0


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_there_is_something_to_choose_from_by_itself(classes: int) -> None:
    space = Space(default_methods(classes))
    assert [short(space.read(one, middle)).split("(")[0] for one in space.methods] == ["ce", "gce", "imae", "unit"]


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ([], r"methods is \[\], but must be a list"),
        ("ce", "methods is 'ce', but must be a list"),
        (["ce", "ce"], "methods has 'ce' twice"),
        (["cee"], "unknown method 'cee'"),
        (["gce(p=between(0.1, 1))"], "GCE does not take p"),
        (["gce(q=between(0.1, 2))"], r"q is 2.0, but must be a number above 0 and at most 1"),
        (["gce(q=between(0, 1))"], "q is 0.0"),
        (["gce(q=between(0.9, 0.1))"], "low is 0.9 and high 0.1, but low must be below high"),
        (["gce(q=between(0.1, 1e999))"], "high is inf, but must be a number"),
        (["gce(q=between('a', 1))"], "low is 'a', but must be a number"),
        (["imae(T=between(0, 8, log=True))"], "low is 0, but must be above 0 with log=True"),
        (["imae(T=between(1, 8, log=2))"], "log is 2, but must be True or False"),
        (["imae(T=between(1, 8, base=2))"], "the signature is between"),
        (["imae(T=between(1))"], "between: missing a required argument: 'high'"),
        (["gce(q=one_of())"], "one_of has no choices"),
        (["gce(q=one_of(0.5, 0.5))"], "one_of has a choice twice: 0.5, 0.5"),
        (["gce(q=one_of(0.5, 3))"], "q is 3"),
        (["gce(q=one_of(0.5, between(0.1, 0.2)))"], "a range within a range"),
        (["between(0, 1)"], "is a plain value, not a method"),
        (["gce(q=between(0.1, 1)"], "cannot read the method"),
    ],
)
def test_what_cannot_be_is_said_at_the_door(methods: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Space(methods)


def test_a_range_by_itself() -> None:
    assert read_range("between(0.01, 1, log=True)", "lr") == Between(0.01, 1, log=True)
    assert read_range("one_of(0.1, 0.2)", "lr") == OneOf((0.1, 0.2))
    with pytest.raises(ValueError, match="unknown range 'betwen': did you mean 'between'"):
        read_range("betwen(0.01, 1)", "lr")
