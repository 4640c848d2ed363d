"""The page of an audit in a real browser: Debian's chromium and chromium-driver."""

import csv
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.auditing import Audit
from pyrite.data import Column, Dataset, Records, texts
from pyrite.report.audit_page import write_audit_page
from pyrite.training import Run
from tests.report.audits import HOSTILE, NAMES, cannot_tell, make_audit, make_images

KEYS = {"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Enter": "\ue007", "Escape": "\ue00c"}


class Browser:
    """A page in Chromium, asked and told what a person would."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def open(self, audit: Audit, **more: Any) -> "Browser":
        self.visit(write_audit_page(audit, self.folder / "page.html", **more).as_uri())
        self.js("localStorage.clear()")
        return self.reload()

    def visit(self, address: str) -> "Browser":
        # The driver can return while the old page is still there.
        self.js("window.old = true")
        self.driver.get(address)
        self.wait(lambda: self.js("return !window.old && document.readyState === 'complete'"))
        return self

    def reload(self) -> "Browser":
        # Every process of Chromium has a copy of what is saved, which can be old when another one shows the page again.
        saved = self.saved

        def shown() -> bool:
            self.visit(self.driver.current_url)
            if self.saved == saved:
                return True
            self.js("localStorage.clear(); Object.assign(localStorage, arguments[0])", saved)
            return False

        self.wait(shown)
        self.js("document.getElementById('card').scrollIntoView({block: 'center'})")
        return self

    @property
    def saved(self) -> dict[str, str]:
        return dict(self.js("return {...localStorage}"))

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.05)

    def js(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def text(self, name: str) -> str:
        return str(self.js("return document.getElementById(arguments[0]).textContent", name))

    def shows(self, name: str) -> bool:
        return bool(self.js("return document.getElementById(arguments[0]).getClientRects().length > 0", name))

    def press(self, *keys: str) -> "Browser":
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(KEYS.get(key, key)).perform()
        return self

    def click(self, selector: str) -> "Browser":
        from selenium.webdriver.common.by import By

        found = self.driver.find_element(By.CSS_SELECTOR, selector)
        self.js("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()
        return self

    @property
    def sample(self) -> int:
        return int(self.text("place").split("sample ")[1])

    @property
    def left(self) -> int:
        return int(self.text("place").split(" of ")[1].split(" ")[0].replace(",", ""))

    def export(self) -> list[dict[str, str]]:
        path = self.folder / "corrections.csv"
        path.unlink(missing_ok=True)
        self.click("#export")
        self.wait(lambda: path.exists() and path.stat().st_size > 0)  # the name is reserved by an empty file
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, strict=True))

    def complaints(self) -> list[str]:
        return [line["message"] for line in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no chromium or no chromedriver here (Debian: apt install chromium chromium-driver)")
    folder = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield Browser(started, folder)
    finally:
        started.quit()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    yield chromium
    assert chromium.complaints() == []  # whatever a test did, the console stayed empty


def test_opens_with_the_first_suspect(browser: Browser) -> None:
    browser.open(make_audit(), data=make_images())
    assert browser.sample == 100
    assert (browser.text("given"), browser.text("suggested")) == ("cat", "dog")
    assert browser.left == 20
    choices = browser.js("return [...document.querySelectorAll('#choices .name')].map((e) => e.textContent)")
    assert choices == ["dog", 'a "quoted", name', "two\nlines", "cat"]
    shares = browser.js("return [...document.querySelectorAll('#choices .share')].map((e) => e.textContent)")
    assert shares == ["60 %", "20 %", "10 %", "6.0 %"]
    assert "mean of training-3" in browser.text("evidence")
    assert not browser.shows("storage")


def test_the_picture_is_that_of_the_sample(browser: Browser) -> None:
    browser.open(make_audit(), data=make_images()).press("ArrowRight")
    pixel = """
      const done = arguments[0], canvas = document.getElementById("picture");
      const look = () => canvas.width === 8 ? done([...canvas.getContext("2d").getImageData(4, 4, 1, 1).data])
        : setTimeout(look, 20);
      setTimeout(look, 100);
    """
    assert browser.driver.execute_async_script(pixel) == [101, 101, 101, 255]
    assert browser.js("return document.getElementById('picture').clientWidth") >= 300


def test_one_key_decides_and_goes_on(browser: Browser) -> None:
    browser.open(make_audit())
    for key, after in (("k", 101), ("r", 102), ("d", 103), ("u", 104), ("2", 105), ("4", 106)):
        browser.press(key)
        assert browser.sample == after
    # Given 0: keep; given 1: relabel to 2; given 3, not decided; then the second and the fourth choice, which is given.
    rows = browser.export()
    assert [row["decision"] for row in rows] == ["keep", "relabel", "drop", "unsure", "relabel", "keep"]
    assert [row["new"] for row in rows] == ["cat", NAMES[2], "", "", NAMES[2], "dog"]


def test_number_keys_of_digits_are_the_classes(browser: Browser) -> None:
    """A key is what the list shows beside a class; a digit that is not in the list is a class all the same."""
    browser.open(make_audit(tuple("0123456789")))
    keys = "return [...document.querySelectorAll('#choices kbd')].map((e) => e.textContent)"
    assert browser.js(keys) == ["1", "2", "3", "4", "5"]  # given 0
    browser.press("3")
    assert browser.js(keys) == ["2", "3", "4", "5", "6"]  # given 1
    browser.press("4", "0", "3")
    assert [row["new"] for row in browser.export()] == ["3", "4", "0", "3"]  # the last one is kept


def test_buttons_do_what_keys_do(browser: Browser) -> None:
    browser.open(make_audit())
    for selector in ("[data-do=keep]", "[data-do=relabel]", "[data-do=drop]", "[data-do=unsure]", "[data-choice='1']"):
        browser.click(selector)
    assert browser.sample == 105
    assert [row["decision"] for row in browser.export()] == ["keep", "relabel", "drop", "unsure", "relabel"]
    browser.click("#undo")
    assert browser.sample == 104
    browser.click("[data-do=next]")
    assert browser.sample == 105
    browser.click("[data-do=back]")
    assert browser.sample == 104


def test_any_class_can_be_chosen(browser: Browser) -> None:
    names = tuple(f"class {number}" for number in range(30))
    browser.open(make_audit(names))
    browser.js(
        "const menu = document.getElementById('other'); menu.value = 17; menu.dispatchEvent(new Event('change'))"
    )
    assert browser.sample == 101
    assert browser.export()[0]["new"] == "class 17"


def test_arrows_only_navigate(browser: Browser) -> None:
    browser.open(make_audit()).press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert browser.sample == 101
    assert browser.text("precision") == "20 to review"
    browser.press("ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert browser.sample == 100
    assert browser.js("return document.getElementById('export').disabled") is True


def test_keys_with_a_modifier_are_the_browsers(browser: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    browser.open(make_audit())
    ActionChains(browser.driver).key_down("\ue00a").send_keys("d").key_up("\ue00a").perform()  # Alt
    assert browser.sample == 100


def test_nothing_out_of_sight_is_decided(browser: Browser) -> None:
    browser.open(make_audit())
    browser.js("scrollTo(0, 0)")
    browser.press("d")
    assert browser.sample == 100
    browser.press("d")  # the first brought it into sight
    assert browser.sample == 101


def test_reviewed_ones_are_hidden_until_asked_for(browser: Browser) -> None:
    browser.open(make_audit()).press("k", "d")
    assert browser.left == 18
    browser.press("ArrowLeft")
    assert browser.sample == 102
    browser.click("#reviewed")
    assert browser.left == 20
    browser.press("ArrowLeft")
    assert browser.sample == 101
    assert browser.text("decided") == "dropped"
    browser.press("k")  # another decision takes the place of the first
    assert [row["decision"] for row in browser.export()] == ["keep", "keep"]


def test_measured_precision(browser: Browser) -> None:
    audit = make_audit()
    browser.open(audit).press("r", "r", "d", "k", "u")
    expected = round(float((1 / (1 + np.exp(-audit.score[:4]))).sum()))
    assert browser.text("precision") == f"3 of 4 reviewed labels were wrong (75 %); {expected} were expected; 1 unsure"


def test_a_cell_filters_the_queue(browser: Browser) -> None:
    browser.open(make_audit())
    browser.click("#matrix [data-pair='2,1']")  # looks like 2, given 1
    assert browser.left == 5
    assert (browser.sample, browser.text("given")) == (101, "dog")
    browser.press("ArrowRight")
    assert browser.sample == 105
    assert browser.js("return document.querySelector(\"#matrix [data-pair='2,1']\").ariaPressed") == "true"
    browser.click("#matrix [data-pair='2,1']")
    assert browser.left == 20
    browser.click(".pairs [data-pair='1,0']")
    assert (browser.left, browser.sample) == (5, 100)
    assert browser.text("filter") == "dog labelled as cat ✕"
    browser.press("Escape")
    assert (browser.left, browser.sample) == (20, 100)
    browser.click(".pairs [data-pair='1,0']").click("#filter")
    assert browser.left == 20
    assert not browser.shows("filter")


def test_the_matrix_by_keyboard(browser: Browser) -> None:
    browser.open(make_audit())
    browser.js("document.querySelector('#matrix button').focus()")
    assert browser.js("return document.querySelectorAll('#matrix [tabindex=\"0\"]').length") == 1
    # The only other cells that can be pressed are not in the same row or column.
    browser.press("ArrowRight", "ArrowDown")
    assert browser.js("return document.activeElement.dataset.pair") == "0,3"
    assert browser.sample == 100  # arrows in the matrix leave the queue alone
    browser.press("Enter")
    assert browser.left == 5


def test_undo_one_by_one(browser: Browser) -> None:
    browser.open(make_audit()).press("k", "r", "d")
    browser.press("z")
    assert browser.sample == 102
    browser.press("z", "z")
    assert (browser.sample, browser.left) == (100, 20)
    browser.press("z")
    assert browser.sample == 100


def test_undo_a_bulk_action(browser: Browser) -> None:
    browser.open(make_audit()).press("k")
    browser.click("#matrix [data-pair='2,1']")
    browser.click(".bulk summary").click("[data-do='relabel-all']")
    assert browser.shows("done")
    rows = browser.export()
    assert [(row["index"], row["decision"]) for row in rows] == [("100", "keep")] + [
        (str(number), "relabel") for number in (101, 105, 109, 113, 117)
    ]
    assert {row["new"] for row in rows[1:]} == {NAMES[2]}
    browser.click("#undo")
    assert (browser.left, browser.sample) == (5, 101)
    assert [row["decision"] for row in browser.export()] == ["keep"]
    browser.click("#undo")
    assert browser.sample == 100  # which is not part of the filter, so that is gone
    assert browser.left == 20


def test_reload_keeps_everything(browser: Browser) -> None:
    browser.open(make_audit()).press("r", "d", "ArrowRight").reload()
    assert (browser.left, browser.sample) == (18, 103)
    assert browser.text("precision").startswith("2 of 2 reviewed labels were wrong")
    browser.press("z")  # steps are kept too
    assert browser.sample == 101
    assert len(browser.export()) == 1


def test_two_tabs_do_not_write_over_each_other(browser: Browser) -> None:
    browser.open(make_audit()).press("r")
    first = browser.driver.current_window_handle
    browser.js("window.open(location.href)")  # in the same process, which has the same copy of what is saved
    browser.driver.switch_to.window(browser.driver.window_handles[-1])
    browser.wait(lambda: browser.js("return typeof review === 'object' && document.readyState === 'complete'"))
    browser.js("document.getElementById('card').scrollIntoView({block: 'center'})")
    browser.wait(lambda: browser.js("return document.hasFocus()"))  # before that, keys are lost
    browser.wait(lambda: browser.left == 19)  # what the first tab saved
    browser.press("d")
    browser.wait(lambda: browser.left == 18)
    browser.driver.close()
    browser.driver.switch_to.window(first)
    browser.wait(lambda: browser.left == 18)  # the event that something was saved arrives some time later
    browser.press("k")
    assert [row["decision"] for row in browser.export()] == ["relabel", "drop", "keep"]


def test_decisions_belong_to_their_audit(browser: Browser) -> None:
    browser.open(make_audit()).press("r", "d")
    other = make_audit(noise_rate=0.3, score=make_audit().score + 0.25)
    browser.visit(write_audit_page(other, browser.folder / "other.html").as_uri())
    assert browser.text("precision") == "20 to review"


def test_what_was_saved_may_be_damaged(browser: Browser) -> None:
    browser.open(make_audit()).press("r")
    name = browser.js("return Object.keys(localStorage)[0]")
    for held in (
        "{",
        "null",
        "7",
        '{"codes": {}, "steps": {}}',
        '{"codes": [900, 1, 2, 99999, 3, 1], "steps": [{}], "current": 7000}',
    ):
        browser.js("localStorage.setItem(arguments[0], arguments[1])", name, held)
        browser.reload()
        assert browser.shows("card")
    assert browser.left == 19  # the one decision that makes sense


def test_says_so_where_nothing_can_be_saved(browser: Browser) -> None:
    broken = "Storage.prototype.setItem = () => { throw new Error('no') }"
    made = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": broken})
    try:
        browser.open(make_audit())
        assert browser.shows("storage")
        browser.press("k")
        assert browser.sample == 101
        browser.press("z")
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def test_export_round_trip(browser: Browser) -> None:
    audit = make_audit(paths=tuple(f'a, "b"\n{number}é.png' for number in range(60)))
    browser.open(audit).press("r", "r", "r", "r", "k", "d", "u")
    raw_rows = browser.export()
    header = (browser.folder / "corrections.csv").read_bytes().split(b"\r\n")[0]
    assert header == b"index,path,old,new,score,decision"
    decisions = ["relabel"] * 4 + ["keep", "drop", "unsure"]
    for place, (row, decision) in enumerate(zip(raw_rows, decisions, strict=True)):
        old = NAMES[place % 4]
        fresh = {"relabel": NAMES[(place + 1) % 4], "keep": old}.get(decision, "")
        score = float(row.pop("score"))
        assert score == pytest.approx(audit.wrong_probability[place], rel=2e-6)
        path = audit.paths[place]
        assert row == {"index": str(100 + place), "path": path, "old": old, "new": fresh, "decision": decision}


def test_ranking_only_exports_the_score(browser: Browser) -> None:
    audit = cannot_tell()
    browser.open(audit).press("r", "k")
    assert browser.text("precision") == "1 of 2 reviewed labels were wrong (50 %)"
    assert [float(row["score"]) for row in browser.export()] == pytest.approx(audit.score[:2], rel=2e-6)
    assert browser.shows("probability")
    assert "NaN" not in browser.text("review")
    assert not browser.shows("estimate")
    browser.click("[data-list=random]")
    browser.js("document.getElementById('card').scrollIntoView({block: 'center'})")
    browser.press("d", "k", "k")
    assert browser.text("check").startswith("Random check: 1 of 3 labels is wrong, 33.3 % (0.8 to 90.6 %) of all")
    assert not browser.shows("by-decisions")


def test_hostile_names_in_a_browser(browser: Browser) -> None:
    classes = (HOSTILE, "<b>bold</b>", "&amp;", "\u202eright to left")
    paths = tuple(HOSTILE for _ in range(60))
    browser.open(make_audit(classes, paths=paths))
    title = browser.driver.title
    browser.click(".pairs [data-pair='1,0']")
    assert browser.driver.title == title != "taken"
    assert browser.text("given") == HOSTILE
    assert browser.text("suggested") == "<b>bold</b>"
    assert browser.text("path") == HOSTILE
    browser.press("r")
    row = browser.export()[0]
    assert (row["old"], row["new"], row["path"]) == (HOSTILE, "<b>bold</b>", HOSTILE)
    assert browser.js("return document.querySelectorAll('img, #review b b, script:not([type])').length") == 1
    assert browser.driver.title == title != "taken"


def test_rows_of_a_table_in_a_browser(browser: Browser) -> None:
    features = np.arange(200 * 20, dtype=np.float32).reshape(200, 20)
    data = Dataset("table", features, np.arange(200) % 4, NAMES)
    browser.open(make_audit(), data=data)
    rows = "return [...document.querySelectorAll('#features tbody tr')].map((row) => row.cells[1].textContent)"
    assert browser.js(rows) == [str(2000 + number) for number in range(12)]
    browser.click("#features summary")
    time.sleep(0.1)
    assert browser.js(rows) == [str(2000 + number) for number in range(20)]
    assert not browser.shows("picture")


def test_the_users_own_row_in_a_browser(browser: Browser) -> None:
    cities = np.array([HOSTILE if row == 100 else ("Oslo", "Rome")[row % 2] for row in range(200)], object)
    records = Records(
        [
            Column("size of it", "number", np.where(np.arange(200) == 100, np.nan, np.arange(200) / 8)),
            Column("city", "category", cities),
            Column("when", "date", np.datetime64("2020-01-31", "us") + np.arange(200).astype("m8[D]")),
        ]
    )
    browser.open(make_audit(), data=Dataset("people", records, np.arange(200) % 4, NAMES))
    rows = "return [...document.querySelectorAll('#features tbody tr')].map((row) => row.innerText.trim())"
    cells = "return [...document.querySelectorAll('#features tbody tr')].map((row) => row.cells[1].textContent)"
    assert browser.js(cells) == ["", HOSTILE, "2020-05-10"]
    browser.press("ArrowRight")
    # Sample 101 is given as dog; the other labels of dog that are no suspects are 121, 125, ..., 157.
    assert browser.js(cells) == ["12.625", "Rome", "2020-05-11"]
    assert browser.js(rows)[0].split("\t")[0] == "size of it"
    typical = "return [...document.querySelectorAll('#features tbody tr')].map((row) => row.cells[2].textContent)"
    assert browser.js(typical) == [f"{np.mean(np.arange(121, 160, 4) / 8):.4g}", "Rome", "2020-06-20"]


def test_texts_have_their_words_marked_in_a_browser(browser: Browser) -> None:
    words = ["purrs", "barks", "quotes", "ends"]
    listed = [f"It {words[row % 4]} & <b>sleeps</b>." for row in range(200)]
    listed[100] = f"It barks, it purrs {HOSTILE} \U0001f431 Barks!"
    browser.open(make_audit(), data=Dataset("mail", texts(listed), np.arange(200) % 4, NAMES))
    marks = (
        "return [...document.querySelectorAll('#words .text mark')].map((mark) => [mark.textContent, mark.className])"
    )
    assert browser.text("words").startswith(listed[100])
    assert browser.js(marks) == [["barks", "for-other"], ["purrs", "for-given"], ["Barks", "for-other"]]
    assert (
        browser.js("return document.querySelector('#words .key').textContent")
        == "more frequent in dogmore frequent in cat"
    )
    browser.press("ArrowRight")
    assert browser.js(marks) == [["barks", "for-given"]]
    assert not browser.shows("features")
    assert not browser.shows("blank")


def test_only_a_window_is_in_the_page(browser: Browser) -> None:
    browser.open(make_audit(samples=50_000, suspects=20_000))
    assert browser.left == 20_000
    assert browser.js("return document.querySelectorAll('*').length") < 500
    browser.press("k", "ArrowRight")
    assert browser.js("return document.querySelectorAll('#strip li').length") < 40


def noisy_audit(samples: int = 400) -> tuple[Audit, np.ndarray]:
    """An audit whose scores are far from what is true, and which labels are wrong."""
    random = np.random.default_rng(0)
    score = np.where(random.random(samples) < 0.3, random.normal(3, 2, samples), random.normal(-5, 2, samples))
    wrong = random.random(samples) < 1 / (1 + np.exp(-0.5 * score - 1))
    strange = random.random(samples)
    limits = (0.2, 0.9)
    audit = make_audit(
        samples=samples, suspects=0, score=score, evidence={"no_class": strange}, noise_interval=limits, advice="Look!"
    )
    return audit, wrong


def decide_in(browser: Browser, wrong: np.ndarray, count: int) -> None:
    for _ in range(count):
        browser.press("r" if wrong[browser.sample - 100] else "k")


def agrees(browser: Browser, audit: Audit, after: Audit | None = None) -> None:
    """The numbers of the script are those of the library, from the decisions that the page exports.

    ``after`` is the audit of the page, if that was made after a review.
    """
    review = audit.reviewed({int(row["index"]): row["decision"] for row in browser.export()}).review
    assert review is not None
    found = browser.js("return [review.estimates(), review.randomCheck()]")
    suspects = np.flatnonzero((audit if after is None else after).is_suspect)
    assert found[0]["rate"] == pytest.approx(review.rate._asdict(), rel=1e-6)
    assert found[0]["precision"] == pytest.approx(review.estimate(suspects)._asdict(), rel=1e-6)
    assert (found[1]["counted"], found[1]["wrong"]) == review.checked
    if review.check is not None:
        exact = browser.js("return exactEstimate(arguments[0], arguments[1])", review.checked[1], review.checked[0])
        assert exact == pytest.approx(review.check._asdict(), abs=1e-9)
    # As a script rounds: the larger of two numbers that are equally near, where Python takes the even one.
    value, low, high = (Decimal(100 * end).quantize(Decimal("0.1"), ROUND_HALF_UP) for end in review.rate)
    words = f"{value} % ({low} to {high} %) of all labels are wrong"
    assert words in browser.text("by-decisions")
    assert browser.text("rate-value") == f"{value} %"
    assert browser.text("headline").startswith(words.replace("all", "the"))


def test_decisions_sharpen_the_estimate(browser: Browser) -> None:
    audit, wrong = noisy_audit()
    browser.open(audit)
    assert not browser.shows("estimate")
    assert browser.text("rate-value") == "25.0 %"
    assert browser.text("rate-ends") == "20.0 to 90.0 %"
    decide_in(browser, wrong, 12)
    agrees(browser, audit)
    review = audit.reviewed({100 + int(row): "relabel" if wrong[row] else "keep" for row in audit.ranking[:12]}).review
    assert review is not None
    next_ones = review.estimate(audit.ranking[12:62])
    counts = [round(50 * end) for end in (next_ones.value, next_ones.low, next_ones.high)]
    said = f"Of the next 50 suspects, about {counts[0]} ({counts[1]} to {counts[2]}) are expected to be wrong."
    assert browser.text("ahead").startswith(said)
    for _ in range(12):
        browser.press("z")
    assert not browser.shows("estimate")
    assert browser.text("rate-value") == "25.0 %"
    assert browser.text("headline").startswith("About 25.0 %")


def test_random_labels_are_checked(browser: Browser) -> None:
    from pyrite.auditing.review import random_check

    audit, wrong = noisy_audit()
    browser.open(audit).press("k")
    browser.click("[data-list=random]")
    browser.js("document.getElementById('card').scrollIntoView({block: 'center'})")
    order = random_check(400)
    assert browser.sample == 100 + order[0]
    assert browser.left == 100 - int(audit.ranking[0] in order)
    decide_in(browser, wrong, 20)
    assert browser.text("check").startswith("Random check: ")
    agrees(browser, audit)
    browser.reload()  # which goes on where it was
    assert browser.js("return review.list") == "random"
    browser.click("[data-list=suspects]")
    assert browser.sample == 100 + next(row for row in audit.ranking[1:] if row not in order[:20])


def test_samples_of_no_class_have_a_list(browser: Browser) -> None:
    audit, _ = noisy_audit()
    assert audit.no_class is not None
    browser.open(audit).click("[data-list=no_class]")
    assert browser.sample == 100 + int(np.argmax(audit.no_class))
    assert browser.left == 20  # a twentieth
    browser.js("document.getElementById('card').scrollIntoView({block: 'center'})")
    browser.press("d", "k", "d")
    agrees(browser, audit)
    browser.click("#matrix [data-pair]")  # a filter is one of suspects
    assert browser.js("return review.list") == "suspects"


def test_good_labels_are_a_reason_to_stop(browser: Browser) -> None:
    audit, wrong = noisy_audit()
    browser.open(audit)
    decide_in(browser, np.zeros_like(wrong), 25)
    assert browser.text("ahead").endswith(
        "Fewer than one in ten of the next suspects is expected to be wrong: a good point to stop."
    )
    browser.click(".bulk summary").click("[data-do='keep-all']")
    assert browser.text("ahead").startswith("All suspects are reviewed. About ")


def test_a_review_goes_on_in_the_next_page(browser: Browser) -> None:
    audit, wrong = noisy_audit()
    rows = audit.ranking[:30]
    after = audit.reviewed({100 + int(row): "drop" if wrong[row] else "keep" for row in rows})
    browser.open(after)
    expected = round(float(audit.wrong_probability[rows].sum()))
    said = browser.text("precision")
    assert said.startswith(f"{wrong[rows].sum()} of 30 reviewed labels were wrong")
    assert said.endswith(f"; {expected} were expected")
    agrees(browser, audit, after)
    assert len(browser.export()) == 30
    decide_in(browser, wrong, 3)
    agrees(browser, audit, after)
    browser.click("#reviewed")
    kept = int(rows[~wrong[rows]][0])
    assert kept + 100 in browser.js("return review.shown.map((item) => queue.index[item])")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone(browser: Browser, scheme: str, make_run: Callable[..., Run]) -> None:
    command = browser.driver.execute_cdp_cmd
    command("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True})
    command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    try:
        names = tuple(f"a class with quite a long name {number}" for number in range(30))
        browser.open(replace(make_audit(names), run=make_run([0.5, 0.6], [0.1, 0.2])), data=make_images())
        browser.js("document.querySelectorAll('details').forEach((more) => { more.open = true })")
        assert browser.js("return document.documentElement.scrollWidth") <= 390
        paper = browser.js("return getComputedStyle(document.body).backgroundColor")
        assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}[scheme]
        browser.click("[data-do=keep]")
        assert browser.sample == 101
    finally:
        command("Emulation.clearDeviceMetricsOverride", {})
        command("Emulation.setEmulatedMedia", {"features": []})


def test_names_of_columns_are_not_broken_on_a_phone(browser: Browser) -> None:
    command = browser.driver.execute_cdp_cmd
    command("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True})
    try:
        names = tuple(f"Pygoscelis {kind} (a penguin)" for kind in ("adeliae", "antarctica", "papua", "other"))
        stages = np.array(["Adult, one egg of two, observed in the first week"] * 200, object)
        records = Records([Column("studyName", "number", np.arange(200.0)), Column("Stage", "category", stages)])
        browser.open(make_audit(names), data=Dataset("birds", records, np.arange(200) % 4, names))
        assert browser.js("return document.documentElement.scrollWidth") <= 390
        lines = "const box = document.createRange(); box.selectNodeContents(document.querySelector(arguments[0]));"
        for word in ("#features tbody th", ".pair .count"):
            assert browser.js(f"{lines} return box.getClientRects().length", word) == 1
    finally:
        command("Emulation.clearDeviceMetricsOverride", {})


def test_notebooks_show_the_page_in_a_frame(browser: Browser) -> None:
    cell = browser.folder / "cell.html"
    cell.write_text(f"<!doctype html><p>cell</p>{make_audit().show()._repr_html_()}", encoding="utf-8")
    browser.visit(cell.as_uri())
    browser.driver.switch_to.frame(0)
    try:
        browser.js("localStorage.clear()")
        assert browser.sample == 100
        browser.click("[data-do=relabel]").press("k")
        assert browser.sample == 102
        assert [row["decision"] for row in browser.export()] == ["relabel", "keep"]
    finally:
        browser.driver.switch_to.default_content()


def test_a_label_that_fits_has_no_arrow(browser: Browser) -> None:
    labels = np.arange(400) % 2
    audit = pyrite.audit(labels, scores=12 * np.eye(2)[labels], kind="logits", classes=["no", "yes"])
    assert not audit.is_suspect.any()
    browser.open(audit)
    assert set(browser.js("return [...document.querySelectorAll('#strip button')].map((e) => e.textContent)")) <= {
        "no",
        "yes",
    }
