"""The page of a comparison."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pyrite.comparing import Comparison, Row
from pyrite.report.page import write_page
from pyrite.training import Run
from pyrite.training.config import Missing

Make = Callable[..., Run]
HOSTILE = "<script>alert(1)</script>\"' onload='x"


class Reader(HTMLParser):
    """Every tag, every attribute and the words of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.words = ""
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def read(path: Path) -> Reader:
    found = Reader(path.read_text())
    assert found.open == []  # every tag is closed, in order
    return found


def test_numbers_findings_and_counts(make_run: Make, tmp_path: Path) -> None:
    rows = (
        Row("mae", (make_run([0.5, 0.875], [0.1, 0.0625]),)),
        Row("ce", (make_run([0.75, 0.625], [0.1, 0.9375]),)),
        Row("sce", (make_run([0.75, 0.7], [0.1, 0.3]),)),
    )
    found = read(write_page(Comparison(tmp_path, rows), tmp_path / "page.html", "A title & more"))
    words = re.sub(r"\s+", " ", found.words)
    assert "A title & more" in words
    assert "1 of 3 training labels (33.3 %) are wrong" in words  # the fourth is held out
    findings = [
        f"With {name} the model memorised {wrong} % of the wrong labels. Its accuracy on test data, whose labels are "
        f"right, was {last} % at the end and {best} % at its best, after epoch {epoch}."
        for name, wrong, last, best, epoch in (("ce", 93.8, 62.5, "75.0", 1), ("mae", 6.2, 87.5, 87.5, 2))
    ]
    assert words.index(findings[0]) < words.index(findings[1])
    assert "mae 87.50 87.50 90.00 6.25 5.00" in words
    assert found.tags.count("img") == 2
    assert "typical size of a margin" not in words


def test_hostile_names_are_only_words(make_run: Make, tmp_path: Path) -> None:
    run = make_run([0.5, 0.6], [0.1, 0.2], warnings=[f"it said {HOSTILE}"], size=500.0)
    run.config = run.config.replace(data=HOSTILE, noise=Missing(HOSTILE))
    found = read(write_page(Comparison(tmp_path / HOSTILE, (Row(HOSTILE, (run,)),)), tmp_path / "page.html", HOSTILE))
    assert "script" not in found.tags
    assert "onload" not in found.names
    assert found.words.count(HOSTILE) >= 8
    assert f"it said {HOSTILE}" in re.sub(r"\s+", " ", found.words)


def test_nothing_comes_from_elsewhere(make_run: Make, tmp_path: Path) -> None:
    path = write_page(Comparison(tmp_path, (Row("ce", (make_run([0.5, 0.6], [0.1, 0.2]),)),)), tmp_path / "page.html")
    page = path.read_text()
    for held in re.findall(r'(?:src|srcset|href)="([^"]*)"', page):
        assert held.startswith("data:image/png;base64,")
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert "url(" not in page


def test_without_truth_nothing_is_claimed_about_wrong_labels(make_run: Make, tmp_path: Path) -> None:
    run = make_run([0.5, 0.6], [None, None], truth=False)
    run.history[-1] |= {"clean_accuracy": None, "recovered": None}
    found = read(write_page(Comparison(tmp_path, (Row("ce", (run,)),)), tmp_path / "page.html"))
    words = re.sub(r"\s+", " ", found.words)
    assert "it is unknown which of them are wrong" in words
    assert "wrong labels memorised" not in words
    assert "the model memorised" not in words


def test_neither_truth_nor_test(make_run: Make, tmp_path: Path) -> None:
    run = make_run([None, None], [None, None], truth=False)
    found = read(write_page(Comparison(tmp_path, (Row("ce", (run,)),)), tmp_path / "page.html"))
    assert found.tags.count("img") == 1


def test_bad_input(make_run: Make, tmp_path: Path) -> None:
    good = Comparison(tmp_path, (Row("ce", (make_run([0.5], [0.1]),)),))
    with pytest.raises(ValueError, match="cannot write"):
        write_page(good, Path("/proc/nowhere/page.html"))
    with pytest.raises(ValueError, match="without a finished epoch"):
        write_page(Comparison(tmp_path, (Row("ce", (make_run([], []),)),)), tmp_path / "page.html")
