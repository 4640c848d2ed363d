"""The documentation site has every page and every public name. ``make docs`` builds it and checks its links."""

import re
import runpy
from pathlib import Path

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
