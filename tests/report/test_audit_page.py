"""The page of an audit: what it says, and that nothing in it can do harm."""

import base64
import html
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pyrite.auditing.issues import Copies, DataIssues
from pyrite.data import Dataset
from pyrite.data.images import LazyImages
from pyrite.errors import PyriteError
from pyrite.report.audit_page import write_audit_page
from pyrite.training import Run
from tests.report.audits import HOSTILE, NAMES, cannot_tell, make_audit, make_images

KINDS = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "f4": np.float32, "f8": np.float64}


def numbers(held: Any) -> np.ndarray:
    return np.frombuffer(base64.b64decode(held["data"]), KINDS[held["kind"]])


class Reader(HTMLParser):
    """The words outside of scripts, the tags, and what the scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: dict[str | None, str] = {}
        self.said: list[str] = []
        self.open: list[str] = []
        self.held: str | None = None
        self.feed(page)
        self.words = re.sub(r"\s+", " ", "".join(self.said))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img", "source", "input"):
            self.open.append(tag)
        if tag == "script":
            self.held = dict(attrs).get("id")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[self.held] = data
        elif self.open and self.open[-1] != "style":
            self.said.append(data)

    @property
    def data(self) -> Any:
        return json.loads(self.scripts["data"])

    def column(self, name: str) -> np.ndarray:
        """Of the suspects, which come first."""
        return numbers(self.data[name])[: len(numbers(self.data["lists"]["suspects"]))]


def read(path: Path) -> Reader:
    found = Reader(path.read_text())
    assert found.open == []  # every tag is closed, in order
    return found


def test_summary_and_what_the_threshold_means(tmp_path: Path) -> None:
    warnings, advice = ("two classes are nearly empty",), "a review would narrow the interval"
    audit = make_audit(warnings=warnings, noise_interval=(0.2, 0.31), advice=advice)
    found = read(write_audit_page(audit, tmp_path / "page.html"))
    assert "Which labels look wrong" in found.words
    assert "About 25.0 % (20 to 31 %) of 60 labels look wrong; most often " in found.words
    assert "25.0 %20.0 to 31.0 %of the labels are wrong" in found.words
    assert "A review would narrow the interval." in found.words
    assert "wrong with a probability of 50 % or more" in found.words
    assert "20suspects among 60 labels in 4 classes" in found.words
    mean = float((1 / (1 + np.exp(-audit.score[:20]))).mean())
    assert f"{100 * mean:.0f} %of the suspects are expected to be wrong" in found.words
    assert "two classes are nearly empty" in found.words
    assert "Checked against the truth" not in found.words
    assert "Histograms of the margins" not in found.words


@pytest.mark.parametrize(("count", "folded"), [(1, ""), (2, "1 more note"), (4, "3 more notes")])
def test_all_notes_but_the_first_are_folded(count: int, folded: str, tmp_path: Path) -> None:
    """The review would be below the first screen otherwise."""
    audit = make_audit(warnings=tuple(f"problem {number}" for number in range(count)))
    page = write_audit_page(audit, tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("problem ") == count
    assert ('<details class="note">' in page) == bool(folded)
    assert not folded or f"<summary>{folded}</summary>" in page
    assert page.index("problem 0") < page.index('<section id="review">')


def test_truth_is_measured_and_named(tmp_path: Path) -> None:
    audit = make_audit()
    true = audit.labels.copy()
    # 15 of the 20 suspects are wrong. They have the highest scores: every wrong label is above every right one.
    true[:15] = (true[:15] + 1) % 4
    found = read(write_audit_page(replace(audit, true=true), tmp_path / "page.html"))
    said = found.words[found.words.index("Checked against the truth") :]
    assert re.search(r"labels that are wrong ?25\.0 %", said)
    assert re.search(r"precision\) ?75\.0 %", said)
    assert re.search(r"recall\) ?100\.0 %", said)
    assert re.search(r"AUROC of the ranking ?1\.000", said)
    assert re.search(r"average precision of the ranking ?1\.000", said)


def test_a_ranking_only_where_nothing_can_be_told(tmp_path: Path) -> None:
    found = read(write_audit_page(cannot_tell(), tmp_path / "page.html"))
    assert "Wrong labels cannot be identified among 60 labels" in found.words
    assert "This is a ranking only." in found.words
    assert "The first 60 labels of the ranking" in found.words
    assert "nan" not in found.words.lower()
    assert "table" not in found.tags  # no matrix
    assert len(found.column("index")) == 60


def test_queue_is_the_suspects_in_order(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(60)
    audit = make_audit(samples=60)
    mixed = replace(audit, score=audit.score[order], labels=audit.labels[order], choices=audit.choices[order])
    found = read(write_audit_page(mixed, tmp_path / "page.html"))
    expected = [100 + int(np.flatnonzero(order == rank)[0]) for rank in range(20)]
    assert found.column("index").tolist() == expected
    assert found.column("given").tolist() == [rank % 4 for rank in range(20)]
    np.testing.assert_allclose(found.column("score"), audit.score[:20], rtol=1e-6)


def test_without_suspects_the_head_of_the_ranking(tmp_path: Path) -> None:
    found = read(write_audit_page(make_audit(samples=300, suspects=0), tmp_path / "page.html"))
    assert len(found.column("index")) == 200
    assert "There are no suspects." in found.words


def test_matrix_is_a_table_with_buttons(tmp_path: Path) -> None:
    path = write_audit_page(make_audit(("a", "b", "c", "d")), tmp_path / "page.html")
    cells = re.findall(
        r'<button type="button" data-pair="(\d),(\d)"[^>]*aria-label="([^"]*)"[^>]*>(\d+)<', path.read_text()
    )
    # Given 0 looks like 1, and so on round: 5 of the 20 suspects each.
    assert {(true, given) for true, given, *_ in cells} == {("1", "0"), ("2", "1"), ("3", "2"), ("0", "3")}
    assert ("1", "0", "b labelled as a: 25.0 % ± 1.0, 5 to review", "25") in cells


def test_many_classes_have_a_list_first(tmp_path: Path) -> None:
    names = tuple(f"class {number}" for number in range(120))
    page = write_audit_page(make_audit(names, samples=600, suspects=300), tmp_path / "page.html").read_text()
    assert page.index('class="pair"') < page.index('<details class="map">') < page.index('id="matrix"')
    assert "The matrix of 100 of 120 classes" in page
    assert "and 96 more pairs" in page


def test_hostile_names_are_only_words(tmp_path: Path) -> None:
    classes = (HOSTILE, "&lt;b&gt;", "\u2028line", "-->")
    audit = make_audit(
        classes,
        paths=tuple(f"{HOSTILE}{number}\udcff.png" for number in range(60)),
        warnings=(HOSTILE,),
    )
    path = write_audit_page(audit, tmp_path / "page.html")
    found = read(path)
    assert found.tags.count("script") == 2  # the data and ours
    assert "onerror" not in {name for name, _ in found.attributes}
    assert found.data["classes"] == list(classes)
    assert found.data["paths"][3] == f"{HOSTILE}3\udcff.png"
    held = found.scripts["data"]
    assert held.isascii()
    assert not set("<>&") & set(held)


def test_nothing_comes_from_elsewhere(tmp_path: Path, make_run: Callable[..., Run]) -> None:
    run = make_run([0.5, 0.6], [0.1, 0.2])
    page = write_audit_page(replace(make_audit(), run=run), tmp_path / "page.html", data=make_images()).read_text()
    for held in re.findall(r'(?:src|srcset|href)="([^"]*)"', page):
        assert held.startswith(("data:image/png;base64,", "#"))
    assert "default-src 'none'" in page
    assert "unsafe-inline'; script-src 'sha256-" in page
    assert "http:" not in page
    assert "https:" not in page
    assert "innerHTML" not in page
    assert "url(" not in page


def test_pictures_of_a_run(tmp_path: Path, make_run: Callable[..., Run]) -> None:
    audit = replace(make_audit(), run=make_run([0.5, 0.6], [0.1, 0.2]))
    found = read(write_audit_page(audit, tmp_path / "page.html", data=make_images()))
    assert found.tags.count("img") == 2
    assert "Learned weights" not in found.words
    run = make_run([0.5, 0.6], [0.1, 0.2])
    np.savez(run.path / "method.npz", weight_net=np.array([[1.0, 0.0, -2.0, 3.0]]))
    found = read(write_audit_page(replace(make_audit(), run=run), tmp_path / "page.html", data=make_images()))
    assert found.tags.count("img") == 3
    assert "Learned weights" in found.words


def sheets(found: Reader) -> list[np.ndarray]:
    count = sum(name is not None and name.startswith("sheet-") for name in found.scripts)
    images = [found.scripts[f"sheet-{number}"] for number in range(count)]
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))) for text in images]


def test_pictures_are_those_of_the_samples(tmp_path: Path) -> None:
    found = read(write_audit_page(make_audit(), tmp_path / "page.html", data=make_images()))
    held = found.data["images"]
    (sheet,) = sheets(found)
    assert (held["width"], held["height"], held["pitch"]) == (8, 8, [16, 16])
    for item, place in enumerate((numbers(held["place"]) - 1).tolist()[:20]):  # the queue is samples 100, 101, ...
        x, y = place % held["columns"] * 16, place // held["columns"] * 16
        assert (sheet[y : y + 8, x : x + 8] == 100 + item).all()


def test_files_are_read_larger_and_missing_ones_left_out(tmp_path: Path) -> None:
    for number in range(160):
        if number != 103:
            Image.new("RGB", (300, 200), (number, 0, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "104.png").write_bytes(b"not an image")
    files = LazyImages(tmp_path, [f"{number}.png" for number in range(160)], 32)
    data = Dataset("files", files, np.arange(160) % 4, NAMES)
    found = read(write_audit_page(make_audit(), tmp_path / "page.html", data=data))
    held = found.data["images"]
    assert held["width"] == held["height"] == 320
    place = np.frombuffer(base64.b64decode(held["place"]["data"]), np.uint32)
    assert np.flatnonzero(place == 0).tolist() == [3, 4]
    assert "18 of 20 are shown with a picture; 2 are not" in found.words
    first = int(place[0]) - 1
    assert held["perSheet"] == 1
    assert int(sheets(found)[first][5, 5, 0]) == 100


def test_rows_of_a_table(tmp_path: Path) -> None:
    features = np.arange(200 * 3, dtype=np.float64).reshape(200, 3) * [1, 1, 1e300] + [1.7e9, 0, 0]  # beyond float32
    features[5, 1] = np.nan
    data = Dataset("table", features, np.arange(200) % 4, NAMES)
    audit, named = make_audit(), replace(data, columns=("one", "two", "<b>three"))
    found = read(write_audit_page(audit, tmp_path / "page.html", data=named))
    table = found.data["table"]
    values = np.frombuffer(base64.b64decode(table["values"]["data"])).reshape(-1, 3)[numbers(table["place"])[:20] - 1]
    np.testing.assert_array_equal(values, features[100:120])
    typical = np.frombuffer(base64.b64decode(table["typical"]["data"])).reshape(4, 3)
    np.testing.assert_allclose(typical[1], features[121:160:4].mean(0))  # given 1, and no suspect
    assert table["names"] == ["one", "two", "<b>three"]
    found = read(write_audit_page(audit, tmp_path / "page.html", data=data))
    assert found.data["table"]["names"] == ["feature 0", "feature 1", "feature 2"]


def test_many_samples_stay_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # Noise is the worst there is to compress: the budget has to hold.
    inputs = rng.integers(0, 256, (50_000, 3, 32, 32), np.uint8)
    data = Dataset("noise", inputs, np.arange(50_000) % 4, NAMES)
    paths = tuple(f"some/folder/of/images/picture-{number:08d}.png" for number in range(50_000))
    audit = make_audit(samples=50_000, suspects=20_000, index=np.arange(50_000), paths=paths)
    path = write_audit_page(audit, tmp_path / "page.html", data=data)
    assert path.stat().st_size < 20_000_000
    found = read(path)
    assert len(found.column("index")) == 20_000
    assert re.search(r"[\d,]+ of 20,000 are shown with a picture", found.words)


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"index is 100 at index 0, but greys has 100 samples"):
        write_audit_page(make_audit(), tmp_path / "page.html", data=make_images(100))
    with pytest.raises(ValueError, match="cannot write"):
        write_audit_page(make_audit(), Path("/proc/nowhere/page.html"))


def test_the_review_comes_first_and_ends_with_the_next_command(tmp_path: Path, make_run: Callable[..., Run]) -> None:
    run = make_run([0.5, 0.6], [0.1, 0.2])
    audit = replace(make_audit(), run=run)
    text = write_audit_page(audit, tmp_path / "page.html", data=make_images()).read_text()
    assert text.index('<section id="review">') < text.index('<section id="confusions">')
    assert '<details id="why">' in text  # folded
    assert f"pyrite train {run.config.data} " in text
    assert "--corrections corrections.csv</code>" in text


def test_notebooks_show_the_page_itself(tmp_path: Path) -> None:
    audit = make_audit()
    shown = audit.show(height=500)
    frame = shown._repr_html_()
    assert 'style="width: 100%; height: 500px; border: 0"' in frame
    document = html.unescape(frame.partition('srcdoc="')[2].partition('"')[0])
    assert document == write_audit_page(audit, tmp_path / "page.html").read_text()
    assert len(repr(shown)) < 80
    with pytest.raises(PyriteError, match="height is 0, but must be a number of pixels"):
        audit.show(height=0)


def test_copies_with_different_labels_are_listed(tmp_path: Path) -> None:
    issues = DataIssues((Copies((100, 103), ("cat", "<dog>")),), (Copies((101, 999), ("dog", "cat")),))
    paths = tuple(f"{number}.png" for number in range(60))
    page = write_audit_page(make_audit(data_issues=issues, paths=paths), tmp_path / "page.html").read_text()
    listed = page[page.index('id="copies"') :]
    assert '<th scope="row">0.png, 3.png</th><td>cat, &lt;dog&gt;</td>' in listed
    assert '<th scope="row">1.png, 999</th><td>dog, cat</td>' in listed  # a sample that was not audited has its number
    assert 'id="copies"' not in write_audit_page(make_audit(), tmp_path / "page.html").read_text()
