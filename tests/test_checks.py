import fractions
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import pytest

from pyrite.checks import Count, check_fields, flag, is_number, is_whole, number, one_of, require, whole_number

NOT_NUMBERS = [True, np.True_, "1", None, [1], math.nan, np.float32("nan"), math.inf, -math.inf, 1j, b"1"]
WHOLE = [3, np.int64(3), np.uint8(3), np.int8(3)]
BROKEN = [3.0, np.float32(3), fractions.Fraction(3, 1)]


def test_what_counts_as_a_number() -> None:
    assert not any(is_number(value) for value in NOT_NUMBERS if not isinstance(value, float | np.floating))
    assert all(map(is_number, [*WHOLE, *BROKEN, -0.5, 1e300]))
    assert all(map(is_whole, WHOLE))
    assert not any(map(is_whole, NOT_NUMBERS + BROKEN))


def test_numbers_come_back_as_those_of_python() -> None:
    for value in WHOLE:
        assert type(number("x", value)) is int
        assert type(whole_number("x", value)) is int
        assert whole_number("x", value) == number("x", value) == 3
    for value in BROKEN:
        assert type(number("x", value)) is float
        with pytest.raises(ValueError, match=r"^x is .*3.*, but must be a whole number$"):
            whole_number("x", value)
    for value in NOT_NUMBERS:
        with pytest.raises(ValueError, match=r"^x is .*, but must be a number$"):
            number("x", value)
        with pytest.raises(ValueError, match=r"^x is .*, but must be a whole number$"):
            whole_number("x", value)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "wanted"),
    [
        ({"least": 1, "most": 2}, [1, 1.5, 2], [0.99, 2.01], "a number from 1 to 2"),
        ({"least": 1}, [1, 1e9], [0.99, -1], "a number, 1 or more"),
        ({"least": 0, "below": 1}, [0, 0.99], [-0.01, 1], "a number at least 0 and below 1"),
        ({"above": 0, "most": 1}, [0.01, 1], [0, 1.01], "a number above 0 and at most 1"),
        ({"above": 0, "below": 1}, [0.01, 0.99], [0, 1], "a number above 0 and below 1"),
        ({"above": 0}, [0.01], [0, -1], "a number above 0"),
        ({"below": 1}, [0.99, -9], [1, 2], "a number below 1"),
        ({"most": 1}, [1, -9], [1.01], "a number at most 1"),
    ],
)
def test_bounds(bounds: dict[str, float], inside: list[float], outside: list[float], wanted: str) -> None:
    assert [number("x", value, **bounds) for value in inside] == inside
    for value in [*outside, math.nan, True]:
        with pytest.raises(ValueError) as refused:
            number("x", value, **bounds)
        assert str(refused.value) == f"x is {value!r}, but must be {wanted}"
    with pytest.raises(ValueError, match=r"^x is nan, but must be a share$"):
        number("x", math.nan, "a share", **bounds)


def test_bounds_of_whole_numbers() -> None:
    assert [whole_number("x", value, 2, 4) for value in (2, 3, 4)] == [2, 3, 4]
    for value in (1, 5, -3, True, 3.0):
        with pytest.raises(ValueError) as refused:
            whole_number("x", value, 2, 4)
        assert str(refused.value) == f"x is {value!r}, but must be a whole number from 2 to 4"
    assert whole_number("x", 2, least=2) == 2
    with pytest.raises(ValueError, match=r"^x is 1, but must be a whole number, 2 or more$"):
        whole_number("x", 1, least=2)
    with pytest.raises(ValueError, match=r"^x is 5, but must be a whole number at most 4$"):
        whole_number("x", 5, most=4)
    with pytest.raises(ValueError, match=r"^x is 1, but must be a pair$"):
        whole_number("x", 1, 2, wanted="a pair")


def test_flags_and_choices() -> None:
    assert flag("x", True) is True
    assert flag("x", False) is False
    for value in (1, 0, None, "True", np.True_):
        with pytest.raises(ValueError, match=r"^x is .*, but must be True or False$"):
            flag("x", value)
    one_of("x", "a", ("a", "b"))
    one_of("x", 3, (1, 3))
    for value in ("c", None, ["a"], 1):
        with pytest.raises(ValueError, match=r"^x is .*, but must be one of 'a', 'b'$"):
            one_of("x", value, ("a", "b"))
    with pytest.raises(ValueError, match=r"^x is True, but must be one of 1, 3$"):
        one_of("x", True, (1, 3))


def test_require() -> None:
    require(True, "x", 1, "2")
    with pytest.raises(ValueError, match=r"^x is 1, but must be 2$"):
        require(False, "x", 1, "2")


@dataclass(frozen=True)
class Described:
    q: Annotated[float, partial(number, above=0)] = 1
    count: Count | None = None
    kind: Literal["hard", "soft"] = "hard"
    free: object = None

    def __post_init__(self) -> None:
        check_fields(self)


def test_fields_are_checked_by_their_annotations() -> None:
    assert type(Described(np.float32(2)).q) is float
    assert type(Described(count=np.int64(2)).count) is int
    assert Described(free="anything").count is None
    for wrong, words in (
        ({"q": 0}, "q is 0, but must be a number above 0"),
        ({"q": None}, "q is None"),
        ({"count": 0}, "count is 0, but must be a whole number, 1 or more"),
        ({"kind": "firm"}, "kind is 'firm', but must be one of 'hard', 'soft'"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            Described(**wrong)
