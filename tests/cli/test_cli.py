"""The command line as a user types it, in a real process where that matters."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from tests import children


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Done]:
    def finish(*words: str) -> Done:
        code, output = children.run(*words, log=tmp_path / "log", errors=tmp_path / "errors")
        return Done(code, output, (tmp_path / "errors").read_text())

    return finish


def test_help_and_import_do_not_load_torch() -> None:
    for command in (
        "import pyrite",
        "import sys; sys.argv = ['pyrite', '--help']; from pyrite.cli.app import main; main()",
    ):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", command], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0
        loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
        assert "pyrite" in loaded
        assert not {"torch", "numpy", "matplotlib", "pydantic"} & loaded


def test_every_public_name_is_there() -> None:
    assert all(getattr(pyrite, name) is not None for name in dir(pyrite))
    assert {"margin", "IMAE", "loss", "LOSSES", "expected_margin", "scale"} <= set(dir(pyrite))
    with pytest.raises(AttributeError, match="attribute nothing"):
        pyrite.nothing  # noqa: B018


def test_doctor_prints_one_screen(run: Callable[..., Done]) -> None:
    said = run("doctor")
    assert said.returncode == 0, said.stderr
    assert len(said.stdout.splitlines()) <= 24
    found = json.loads(run("doctor", "--json").stdout)
    assert found["pyrite"] == pyrite.__version__
    assert "torch" in found["packages"]
    assert found["devices"].startswith("cpu")
    assert found["loss kernel"].partition(":")[0] in ("compiled", "not compiled")


def test_doctor_lists_data_sets_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cifar10", "mnist"):
        (tmp_path / name).mkdir()
    (tmp_path / "mnist" / "labels.gz").touch()
    monkeypatch.setenv("PYRITE_DATA", str(tmp_path))
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    assert found["data sets"] == f"mnist in {tmp_path}"


def test_check_in_words_and_as_json(run: Callable[..., Done]) -> None:
    said = run("check", "mae", "--classes", "100")
    assert said.returncode == 0
    assert "It will underfit" in said.stdout
    assert "scale(mae, tau=2.63, classes=100)" in said.stdout
    numbers = json.loads(run("check", "mae", "--classes", "100", "--json").stdout)
    assert numbers["verdict"] == "underfits"
    assert numbers["initial"] == pytest.approx(0.0244, abs=1e-4)


def test_check_takes_the_column_of_the_labels(run: Callable[..., Done], tmp_path: Path) -> None:
    """The last column has two values, the named one three."""
    rows = [f"{number}.5,{'xyz'[number % 3]},{number % 2}" for number in range(12)]
    (tmp_path / "rows.csv").write_text("\n".join(["size,kind,label", *rows]))
    said = run("check", "mae", str(tmp_path / "rows.csv"), "--label", "kind")
    assert "mae with 3 classes" in said.stdout
    said = run("check", "mae", str(tmp_path / "rows.csv"), "--label", "king")
    assert said.returncode == 2
    assert "no column is called 'king'" in said.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("check", "maee", "--classes", "10"), "unknown loss 'maee': did you mean 'mae'?"),
        (("check", "mae", "--classes", "1"), "classes is 1"),
        (("check", "gce(q=2)", "--classes", "10"), "q is 2"),
        (("curves", "nce"), "'nce' has no weighting curve"),
        (("curves", "ce", "--out", "picture.xyz"), "a picture's name ends in one of"),
        (("curves", "ce", "--out", "/proc/nowhere/curves.png"), "cannot write"),
        (("check", "0*ce", "--classes", "10"), "positive weight"),
        (("curves", "ce", "--classes", "1"), "classes is 1"),
        (("check", "mae"), "--classes"),
        (("check", "mae", "digits", "--classes", "10"), "--classes 10 is given, but digits has its own classes"),
        (("check", "mae", "--classes", "10", "--model", "resnet2"), "unknown model 'resnet2'"),
        (("check", "scale(mae, tau=1, margin='measured')", "--classes", "10"), "has no margin yet"),
        (("chek", "mae"), "check"),
        (("list", "lossses"), "losses"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: tuple[str, ...], said: str, run: Callable[..., Done]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_curves_draws_a_picture(tmp_path: Path, run: Callable[..., Done]) -> None:
    from PIL import Image

    out = tmp_path / "new" / "curves.png"
    done = run("curves", "ce", "mae", "gce(q=0.7)", "imae(T=8)", "--classes", "100", "--out", str(out))
    assert done.returncode == 0
    assert done.stdout == f"wrote {out}\n"
    with Image.open(out) as picture:
        assert picture.width > 1000
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
    for curve in ("#0072B2", "#D55E00", "#009E73", "#CC79A7"):
        assert tuple(int(curve[i : i + 2], 16) for i in (1, 3, 5)) in colours
    assert [path.name for path in out.parent.iterdir()] == ["curves.png"]


def test_list_names_every_loss(run: Callable[..., Done]) -> None:
    rows = json.loads(run("list", "losses", "--json").stdout)
    assert [row["name"] for row in rows] == list(pyrite.LOSSES)
    text = run("list", "losses").stdout
    assert "scale(curve, tau, classes=None, margin=None)" in text
    assert "T[i, y]" in text


def test_version_from_a_process_of_its_own() -> None:
    """As a user starts it; everywhere else here it is forked, which is quicker."""
    done = subprocess.run([sys.executable, "-m", "pyrite", "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"pyrite {pyrite.__version__}\n", "")


def test_every_command_is_on_the_first_page_of_the_site() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "start.md").read_text()
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert [name for name in names if f"pyrite {name}" not in page] == []
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
