"""The documentation site has every page and every public name, with its parameters, its result and an example.

``make docs`` builds it and checks its links.
"""

import doctest
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import pyrite

ROOT = Path(__file__).parents[1]


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = set(re.findall(r"[\w/-]+\.(?:md|py)\b", navigation))
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in [*docs.rglob("*.md"), *docs.glob("notebooks/*.py")]}
    assert named == pages


def test_every_public_name_is_in_the_reference() -> None:
    pytest.importorskip("mkdocs")
    reference = runpy.run_path(str(ROOT / "docs" / "build" / "reference.py"))
    text = "".join(reference["pages"]().values())
    modules = {"data", "diagnostics", "models", "noise"}
    for name in set(pyrite.__all__) - modules:
        assert f"pyrite.{name}\n" in text or f"`pyrite.{name}`" in text


def callables() -> dict[str, Any]:
    named = {name: getattr(pyrite, name) for name in pyrite.__all__}
    return {name: value for name, value in named.items() if inspect.isclass(value) or inspect.isfunction(value)}


@pytest.mark.parametrize("name", callables())
def test_the_docstring_of_a_public_name_is_complete(name: str) -> None:
    """Examples are run as doctests."""
    value = callables()[name]
    text = inspect.getdoc(value) or ""
    assert ">>> " in text
    if isinstance(value, type) and issubclass(value, Exception):
        return
    if inspect.isfunction(value):
        assert "\nReturns:\n" in text or name == "register"
    listed = text.partition("\nArgs:\n")[2] + text.partition("\nAttributes:\n")[2]
    documented = set(re.findall(r"^    ([\w, ]+):", listed, flags=re.MULTILINE))
    names = {part for parts in documented for part in parts.split(", ")}
    options = {"options"} if {"reduction", "weight"} <= names else set()
    assert set(inspect.signature(value).parameters) - {"self"} <= names | options


def test_the_example_of_the_error_runs() -> None:
    """Its module is pyrite, in which pytest looks for no examples."""
    finder = doctest.DocTestFinder()
    (example,) = finder.find(pyrite.PyriteError, globs={"PyriteError": pyrite.PyriteError}, module=False)
    assert doctest.DocTestRunner().run(example).failed == 0
