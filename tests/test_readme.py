"""What the README and the page on training show is what happens."""

import re
import shlex
from pathlib import Path

import pytest

from tests.children import run

ROOT = Path(__file__).parents[1]


def blocks(kind: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("training", "methods", "auditing", "integrations", "tuning", "sklearn")),
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("registries_as_before")
def test_the_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks("python", page)
    assert len(found) >= 2
    for block in found:
        exec(compile(block, page, "exec"), names)


def test_the_commands_print_what_is_shown(tmp_path: Path) -> None:
    """Each command is run; the lines shown after it, up to dots, are its first lines."""
    commands = [part.splitlines() for block in blocks("console") for part in block.split("$ ") if part]
    assert len(commands) >= 3
    for command, *shown in commands:
        program, *words = shlex.split(command)
        assert program == "pyrite"
        errors = tmp_path / "errors"
        code, output = run(*words, log=tmp_path / "log", errors=errors, folder=tmp_path)
        assert code == 0, errors.read_text()
        expected = shown[: shown.index("...")] if "..." in shown else shown
        assert output.splitlines()[: len(expected)] == expected
