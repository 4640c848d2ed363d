"""What every registered encoder promises."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.data import Dataset, kind_of
from pyrite.features import FEATURES, Encoder, State, encoder, read_state, state_bytes
from tests.features.examples import samples

# Encoders that need an argument, such as the name of a net, have tests of their own.
PLAIN = [
    name
    for name, made in FEATURES.items()
    if all(argument.default is not argument.empty for argument in inspect.signature(made).parameters.values())
]


def fitted(name: str):
    described = encoder(name)
    assert described is not None
    inputs = samples(sorted(described.takes)[0])
    try:
        return described, inputs, described.fit(inputs, np.arange(0, len(inputs), 2))
    except ValueError as error:
        pytest.skip(f"{name}: {error}")


@pytest.mark.parametrize("name", PLAIN)
def test_spelling(name: str) -> None:
    described = encoder(name)
    assert isinstance(described, Encoder)
    assert encoder(str(described)) == described
    assert str(encoder(str(described))) == str(described)


@pytest.mark.parametrize("name", PLAIN)
def test_a_saved_state_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    described, inputs, features = fitted(name)
    content = state_bytes(features.state())
    (tmp_path / "features.npz").write_bytes(content)
    again = described.restore(read_state(tmp_path / "features.npz"))
    numbers = features.transform(inputs)
    assert numbers.dtype in (np.float32, np.float64)
    assert numbers.shape[0] == len(inputs)
    assert len(features.names) in (0, numbers.shape[1])
    assert again.names == features.names
    np.testing.assert_array_equal(again.transform(inputs), numbers)
    assert state_bytes(again.state()) == content
    assert np.isfinite(numbers).all()
    rows = np.arange(5)
    np.testing.assert_allclose(features.transform(inputs[rows]), numbers[rows], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PLAIN)
def test_only_the_given_rows_are_fitted(name: str) -> None:
    described, inputs, features = fitted(name)
    same = described.fit(inputs[np.arange(0, len(inputs), 2)], np.arange((len(inputs) + 1) // 2))
    assert state_bytes(same.state()) == state_bytes(features.state())


@pytest.mark.parametrize("name", PLAIN)
def test_other_samples_are_refused(name: str) -> None:
    described = encoder(name)
    assert described is not None
    for kind in ("images", "numbers", "table", "text"):
        inputs = samples(kind)  # type: ignore[arg-type]
        assert kind_of(inputs) == kind
        data = Dataset("mine", inputs, np.arange(len(inputs)) % 2, ("a", "b"))
        if kind in described.takes:
            described.check(data)
        else:
            with pytest.raises(ValueError, match=r"^features is .*, which requires .*, but mine has"):
                described.check(data)


@pytest.mark.parametrize("name", ["table", "tfidf"])
def test_a_damaged_state_is_refused(name: str, tmp_path: Path) -> None:
    described, _, features = fitted(name)
    whole = features.state()
    broken = [State({}, {})]
    broken += [State({**whole.arrays, name: values[..., :-1]}, whole.facts) for name, values in whole.arrays.items()]
    if name == "table":
        first, *others = whole.facts["columns"]
        for change in ({"kind": "colour"}, {"fill": "much"}, {"parts": ["century"]}, {"categories": 3}):
            broken.append(State(whole.arrays, {"columns": [{**first, **change}, *others]}))
    for state in broken:
        with pytest.raises(ValueError, match="damaged"):
            described.restore(state)
    path = tmp_path / "features.npz"
    content = state_bytes(whole)
    for damaged in (b"", content[: len(content) // 2], state_bytes(State({}, {})).replace(b"{}", b"{]")):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"features\.npz"):
            read_state(path)


def test_unknown_names_and_objects() -> None:
    with pytest.raises(ValueError, match=r"unknown features 'tfid': did you mean 'tfidf'"):
        encoder("tfid")
    with pytest.raises(ValueError, match="must be a text"):
        encoder(3)  # type: ignore[arg-type]
    assert encoder("none") is None
    assert pyrite.FEATURES is FEATURES
