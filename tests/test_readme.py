"""What the README shows is what happens."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_python_runs() -> None:
    names: dict[str, object] = {}
    found = blocks("python")
    assert len(found) >= 3
    for block in found:
        exec(compile(block, str(README), "exec"), names)


def test_the_commands_print_what_is_shown(tmp_path: Path) -> None:
    """Each command is run; the lines shown after it, up to dots, are its first lines."""
    commands = [part.splitlines() for block in blocks("console") for part in block.split("$ ") if part]
    assert len(commands) >= 3
    for command, *shown in commands:
        program, *words = shlex.split(command)
        assert program == "pyrite"
        done = subprocess.run(
            [sys.executable, "-m", "pyrite", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        expected = shown[: shown.index("...")] if "..." in shown else shown
        assert done.stdout.splitlines()[: len(expected)] == expected
