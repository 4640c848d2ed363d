"""``pyrite corrupt`` and ``pyrite list noises``."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pyrite
from pyrite.cli.app import main
from pyrite.noise import NOISES
from tests.noise.examples import labels

NAMES = ("zero", "one", "two", "three", "four")


class Source:
    """A data set whose inputs must not be touched without need."""

    name, classes, labels, notes = "toy", (*NAMES, "nothing"), labels(5, 2000), ()

    def __init__(self) -> None:
        self.touched = False

    @property
    def inputs(self) -> np.ndarray:
        self.touched = True
        return np.arange(6000.0).reshape(2000, 3) % 17


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Source:
    source = Source()

    def load(name: str) -> Source:
        if name != "toy":
            raise pyrite.PyriteError(f"there is no data called {name!r}")
        return source

    monkeypatch.setattr(pyrite.data, "load", load)
    monkeypatch.chdir(tmp_path)
    return source


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> SimpleNamespace:
    monkeypatch.setattr(sys, "argv", ["pyrite", *words])
    with pytest.raises(SystemExit) as done:
        main()
    said = capsys.readouterr()
    return SimpleNamespace(code=done.value.code or 0, out=said.out, err=said.err)


def test_writes_the_labels(source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(monkeypatch, capsys, "corrupt", "toy", "--noise", "flip2(0.4)", "--seed", "3", "--out", "n.npz")
    expected = pyrite.corrupt(source.labels, "flip2(0.4)", 6, seed=3)
    assert pyrite.NoisyLabels.load("n.npz") == expected
    wrong = int(expected.is_wrong.sum())
    assert said.out == (
        f"flip2(rate=0.4), seed 3: {wrong} of 2000 labels are wrong ({wrong / 20:.2f} %)\nwrote n.npz\n"
    )
    assert said.code == 0
    assert not source.touched
    assert [path.name for path in Path().iterdir()] == ["n.npz"]


def test_per_class(source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(monkeypatch, capsys, "corrupt", "toy", "--noise", "asymmetric(1, map=[[1, 2]])", "--per-class")
    lines = said.out.splitlines()[1:-1]
    assert [line.split() for line in lines] == [
        ["0.00", "%", "zero"],
        ["100.00", "%", "one"],
        ["0.00", "%", "two"],
        ["0.00", "%", "three"],
        ["0.00", "%", "four"],
        ["none", "nothing"],
    ]


def test_json_and_picture(source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["corrupt", "toy", "--noise", "symmetric(0.4, exact=True)", "--picture", "m.png", "--json"]
    found = json.loads(run(monkeypatch, capsys, *words).out)
    noisy = pyrite.NoisyLabels.load("noisy.npz")
    assert found["rate"] == noisy.rate
    assert found["wrong"] == noisy.is_wrong.sum()
    assert found["noise"] == "symmetric(rate=0.4, exact=True)"
    assert found["class_rates"]["nothing"] is None
    assert found["class_rates"]["one"] == pytest.approx(0.4, abs=1e-2)
    assert found["written"] == ["noisy.npz", "m.png"]
    assert Path("m.png").read_bytes().startswith(b"\x89PNG")


def test_instance_noise_gets_the_inputs(
    source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, capsys, "corrupt", "toy", "--noise", "instance(0.4)")
    assert source.touched
    expected = pyrite.corrupt(source.labels, "instance(0.4)", 6, inputs=source.inputs)
    assert pyrite.NoisyLabels.load("noisy.npz") == expected


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["toy", "--noise", "flip(2)"], "rate is 2"),
        (["toy", "--noise", "flap(0.2)"], "did you mean 'flip'"),
        (["toy", "--noise", "asymmetric(0.2)"], "classes is 6, but the map 'cifar10' is for 10"),
        (["toy", "--noise", "flip(0.2)", "--seed", "-1"], "seed is -1"),
        (["toy", "--noise", "flip(0.2)", "--out", "n.csv"], "saved as .npz"),
        (["toy", "--noise", "flip(0.2)", "--picture", "m.xyz"], "a picture's name ends in"),
        (["sea", "--noise", "flip(0.2)"], "there is no data called 'sea'"),
        (["toy", "--noise", "human('no.pt', 'worse_label')"], "no.pt: no such file"),
        (["toy"], "--noise"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    source: Source,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    complaint: str,
) -> None:
    said = run(monkeypatch, capsys, "corrupt", *words)
    assert said.code == 2
    assert complaint in said.err
    assert list(Path().iterdir()) == []
    assert "Traceback" not in said.err


def test_list_noises(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(monkeypatch, capsys, "list", "noises", "--json").out)
    assert [row["name"] for row in rows] == list(NOISES)
    assert {row["call"] for row in rows} >= {"symmetric(rate, *, exact=False)", "human(file, column, clean=None)"}
    assert "flip2(rate" in run(monkeypatch, capsys, "list", "noises").out


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from pyrite.cli.app import app; import typer.testing as t; "
        "said = t.CliRunner().invoke(app, ['corrupt', '--help']); "
        "assert said.exit_code == 0 and 'noise' in said.output; "
        "print([m for m in ('torch', 'numpy', 'matplotlib', 'pyrite.noise') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
