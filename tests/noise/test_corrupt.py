"""corrupt(): what it takes, what it refuses, and the value it returns."""

import hashlib
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite import NoisyLabels, corrupt
from tests.noise.examples import labels


@pytest.mark.parametrize(
    "given",
    [
        [0, 1, 2, 1] * 25,
        np.array([0, 1, 2, 1] * 25, dtype=np.uint8),
        np.array([0, 1, 2, 1] * 25, dtype=np.int32),
        torch.tensor([0, 1, 2, 1] * 25),
        torch.tensor([0, 1, 2, 1] * 25, dtype=torch.uint8),
        tuple([0, 1, 2, 1] * 25),
    ],
    ids=lambda value: type(value).__name__,
)
def test_labels_of_every_kind(given: Any) -> None:
    noisy = corrupt(given, "symmetric(0.5)", classes=3, seed=1)
    assert noisy == corrupt(np.array([0, 1, 2, 1] * 25), "symmetric(0.5)", classes=3, seed=1)
    assert noisy.given.dtype == noisy.true.dtype == np.int64


def test_what_was_given_is_not_changed() -> None:
    true = labels(10, 1000)
    before = true.copy()
    noisy = corrupt(true, "symmetric(0.4)")
    assert np.array_equal(true, before)
    assert true.flags.writeable
    assert np.array_equal(noisy.true, before)


def test_the_value() -> None:
    noisy = corrupt([0, 0, 1, 1, 2, 2], "symmetric(0.5)", classes=4, seed=12)
    assert np.array_equal(noisy.is_wrong, noisy.given != noisy.true)
    assert noisy.rate == noisy.is_wrong.sum() / 6
    assert (noisy.noise, noisy.seed, noisy.classes, len(noisy)) == ("symmetric(rate=0.5)", 12, 4, 6)
    by_hand = np.zeros((4, 4), dtype=int)
    for own, given in zip(noisy.true, noisy.given, strict=True):
        by_hand[own, given] += 1
    assert np.array_equal(noisy.counts, by_hand)
    np.testing.assert_allclose(noisy.realised[:3], by_hand[:3] / 2)
    assert noisy.realised[3].tolist() == [0, 0, 0, 1]  # a class without samples
    assert math.isnan(noisy.class_rates[3])
    assert noisy.class_rates[:3].tolist() == [1 - by_hand[own, own] / 2 for own in range(3)]
    for array in (noisy.given, noisy.true, noisy.matrix):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        noisy.seed = 3  # type: ignore[misc]
    assert f"{noisy.is_wrong.sum()} of 6 labels in 4 classes are wrong" in repr(noisy)
    assert noisy != corrupt([0, 0, 1, 1, 2, 2], "symmetric(0.5)", classes=4, seed=13)
    assert noisy != "text"


def test_classes_when_not_said() -> None:
    assert corrupt([0, 1, 4], "symmetric(0.5)").classes == 5
    assert corrupt([0, 0], "symmetric(0.5)").classes == 2
    assert corrupt([0, 1, 4], "asymmetric(0.5)").classes == 10
    assert corrupt([0, 1, 4], "pairs(0.5)").classes == 100
    assert corrupt([0, 1], "matrix([[1, 0, 0], [0, 1, 0], [0, 0, 1]])").classes == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (([0, 1, 5, 9], "symmetric(0.4)", 5), r"labels: label 5 at index 2, but there are 5 classes, 0 to 4"),
        (([0, 1, -1], "symmetric(0.4)", 5), r"labels is -1 at index 2"),
        (([0.0, 1.0], "symmetric(0.4)", 5), r"dtype float64.* whole number"),
        (([0, 1.5], "symmetric(0.4)", 5), r"dtype float64"),
        ((torch.tensor([0.0, 1.0]), "symmetric(0.4)", 5), r"dtype float32"),
        (([True, False], "symmetric(0.4)", 5), r"dtype bool"),
        ((["cat", "dog"], "symmetric(0.4)", 5), r"dtype <U3"),
        (([[0, 1], [1, 0]], "symmetric(0.4)", 5), r"shape \(2, 2\)"),
        (([[0, 1], [1]], "symmetric(0.4)", 5), r"labels cannot be read as an array"),
        (([], "symmetric(0.4)", 5), r"shape \(0,\)"),
        ((3, "symmetric(0.4)", 5), r"shape \(\)"),
        ((None, "symmetric(0.4)", 5), r"labels has the shape"),
        (([2**70, 1], "symmetric(0.4)", 5), r"dtype object"),
        (([0, 1], "symmetric(0.4)", 1), r"classes is 1, but must be a whole number, 2 or more"),
        (([0, 1], "symmetric(0.4)", 2.0), r"classes is 2\.0"),
        (([0, 1], "symmetric(0.4)", True), r"classes is True"),
        (([0, 1], "symmetric(0.4)", 2, -1), r"seed is -1"),
        (([0, 1], "symmetric(0.4)", 2, 0.5), r"seed is 0\.5"),
        (([0, 1], "symmetric(1.4)"), r"rate is 1\.4, but must be a number from 0 to 1"),
        (([0, 1], "symmetric(-0.1)"), r"rate is -0\.1"),
        (([0, 1], "uniform('0.4')"), r"rate is '0\.4'"),
        (([0, 1], "flip(True)"), r"rate is True"),
        (([0, 1], "flip2(1e999)"), r"rate is inf"),
        (([0, 1], "instance(2)"), r"rate is 2"),
        (([0, 1], "instance(0.2, spread=-1)"), r"spread is -1"),
        (([0, 1], "pairs(7)"), r"rate is 7"),
        (([0, 1], "asymmetric(7)"), r"rate is 7"),
        (([0, 1], "symmetric()"), r"symmetric: missing a required argument: 'rate'"),
        (([0, 1], "symmetric(0.4, exact=1)"), r"exact is 1, but must be True or False"),
        (([0, 1], "symetric(0.4)"), r"unknown noise 'symetric': did you mean 'symmetric'\?"),
        (([0, 1], "0.4"), r"plain value"),
        (([0, 1], 0.4), r"noise is 0\.4"),
        (([0, 1], "asymmetric(0.4, map='cifar-10')"), r"unknown map 'cifar-10': did you mean 'cifar10'\?"),
        (([0, 1], "asymmetric(0.4)", 7), r"classes is 7, but the map 'cifar10' is for 10 classes"),
        (([0, 1], "asymmetric(0.4, map='cifar100')", 10), r"for 100 classes"),
        (([0, 1], "asymmetric(0.4, map=[[0, 0]])"), r"map is .*one other class"),
        (([0, 1], "asymmetric(0.4, map=[[0, 1], [0, 2]])"), r"map is .*one other class"),
        (([0, 1], "asymmetric(0.4, map=[[0, 1, 2]])"), r"map is .*one other class"),
        (([0, 1], "asymmetric(0.4, map=[])"), r"map is \[\], but must be a name, or lists"),
        (([0, 1], "asymmetric(0.4, map=[0, 1])"), r"map is \[0, 1\], but must be a name, or lists"),
        (([0, 1], "asymmetric(0.4, map=[[0, -1]])"), r"but must be a name, or lists"),
        (([0, 1], "asymmetric(0.4, map=[[0, 5]])", 3), r"map names class 5, but there are 3 classes"),
        (([0, 1], "asymmetric(0.4, map=3)"), r"map is 3"),
        (([0, 1], "pairs(0.4)", 10), r"classes is 10, but the groups 'cifar100' is for 100 classes"),
        (([0, 1], "pairs(0.4, groups='cifar10')"), r"unknown groups 'cifar10': did you mean 'cifar100'\?"),
        (([0, 1], "pairs(0.4, groups=[[0]])"), r"each group must have two or more classes"),
        (([0, 1], "pairs(0.4, groups=[[0, 1], [1, 2]])"), r"a class may be in one group only"),
        (([0, 1], "pairs(0.4, groups=[[0, 9]])", 4), r"groups names class 9"),
        (([0, 1], "instance(0.2)"), r"pass inputs"),
    ],
)
def test_bad_input(arguments: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        corrupt(*arguments)


@pytest.mark.parametrize("rate", [math.nan, np.float64("nan"), -1e-9, 1 + 1e-9, None, 1j, [0.1]])
@pytest.mark.parametrize("name", ["Symmetric", "Uniform", "Flip", "Flip2", "Asymmetric", "Pairs", "Instance"])
def test_rates_that_are_none(name: str, rate: Any) -> None:
    with pytest.raises(ValueError, match="rate is"):
        getattr(pyrite.noise, name)(rate)


def test_numpys_numbers_are_rates() -> None:
    assert str(pyrite.noise.Symmetric(np.float64(0.4))) == "symmetric(rate=0.4)"
    assert str(pyrite.noise.Symmetric(np.float32(0.5))) == "symmetric(rate=0.5)"
    assert str(pyrite.noise.Symmetric(1)) == "symmetric(rate=1)"


# --- the file -------------------------------------------------------------------------------------------------------


def test_saved_and_loaded(tmp_path: Path) -> None:
    noisy = corrupt(labels(10, 1000), "flip2(0.4)", classes=12, seed=2**80)
    path = noisy.save(tmp_path / "deep" / "noisy.npz")
    assert NoisyLabels.load(path) == noisy
    assert NoisyLabels.load(str(path)).seed == 2**80
    assert [found.name for found in path.parent.iterdir()] == ["noisy.npz"]
    noisy.save(path)  # writes over it


def test_what_is_in_the_file(tmp_path: Path) -> None:
    noisy = corrupt(labels(10, 1000), "flip2(0.4)", seed=3)
    with np.load(noisy.save(tmp_path / "noisy.npz"), allow_pickle=False) as held:
        assert sorted(held) == ["given", "manifest", "matrix", "true"]
        manifest = json.loads(str(held["manifest"]))
    assert manifest == {
        "format": 1,
        "pyrite": pyrite.__version__,
        "noise": "flip2(rate=0.4)",
        "seed": 3,
        "classes": 10,
        "samples": 1000,
        "rate": noisy.rate,
        "true_sha256": hashlib.sha256(labels(10, 1000).astype("<i8").tobytes()).hexdigest(),
    }
    assert corrupt(noisy.true, manifest["noise"], manifest["classes"], manifest["seed"]) == noisy


def test_a_saved_file_is_a_matrix_too(tmp_path: Path) -> None:
    noisy = corrupt(labels(10, 1000), "flip2(0.4)", seed=3)
    path = noisy.save(tmp_path / "noisy.npz")
    assert np.array_equal(pyrite.noise.Matrix(path).matrix(10), noisy.matrix)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    noisy = corrupt([0, 1], "clean")
    with pytest.raises(ValueError, match=r"noisy labels are saved as \.npz"):
        noisy.save(tmp_path / "noisy.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write"):
        noisy.save(tmp_path / "file" / "noisy.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match="cannot write"):
        noisy.save(tmp_path / "folder.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.npz"]


def test_files_that_contradict_themselves(tmp_path: Path) -> None:
    noisy = corrupt(labels(10, 100), "flip2(0.4)")
    whole = {"given": noisy.given, "true": noisy.true, "matrix": noisy.matrix}
    manifest = noisy.manifest()
    path = tmp_path / "noisy.npz"
    swapped = noisy.true.copy()
    swapped[[0, 1]] = (swapped[0] + 1) % 10, swapped[1]
    for change, complaint in [
        ({"true": swapped}, "not those its manifest was written for"),
        ({"given": noisy.given[1:]}, "do not fit"),
        ({"given": noisy.given + 5}, "do not fit"),
        ({"given": noisy.given * 1.0}, "given has the dtype float64"),
        ({"matrix": noisy.matrix[:5]}, r"matrix has the shape \(5, 10\)"),
        ({"matrix": noisy.matrix * 2}, "not distributions"),
        ({"matrix": noisy.matrix * np.nan}, "not distributions"),
        ({"manifest": manifest | {"format": 2}}, "its format is 2"),
        ({"manifest": manifest | {"seed": "x"}}, "seed is 'x'"),
        ({"manifest": {}}, "something else"),
        ({"manifest": []}, "something else"),
    ]:
        parts: dict[str, Any] = {**whole, "manifest": manifest, **change}
        np.savez(path, **{**parts, "manifest": np.array(json.dumps(parts["manifest"]))})
        with pytest.raises(ValueError, match=complaint):
            NoisyLabels.load(path)
    np.savez(path, **whole)
    with pytest.raises(ValueError, match="something else"):
        NoisyLabels.load(path)


def test_files_that_are_hostile_or_broken(tmp_path: Path) -> None:
    path = corrupt(labels(10, 100), "flip2(0.4)").save(tmp_path / "noisy.npz")
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"not a complete \.npz file"):
            NoisyLabels.load(path)
    with pytest.raises(ValueError, match="no such file"):
        NoisyLabels.load(tmp_path / "nowhere.npz")
    np.save(tmp_path / "array.npy", np.arange(3))
    with pytest.raises(ValueError, match=r"not a complete \.npz file"):
        NoisyLabels.load(tmp_path / "array.npy")
    objects = np.array([{}], dtype=object)
    np.savez(path, given=objects, true=objects, matrix=objects, manifest=objects)
    with pytest.raises(ValueError, match="holds Python objects"):
        NoisyLabels.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("given.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}")
    with pytest.raises(ValueError, match="given: not an array"):
        NoisyLabels.load(path)
