"""An audit of data: one training run, and what it showed of every sample."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

import pyrite
from pyrite.auditing import Audit
from pyrite.data import load
from pyrite.report.audit_page import write_audit_page

QUICK: dict[str, Any] = {"model": "mlp(hidden=[64])", "epochs": 20}
TINY: dict[str, Any] = {"model": "mlp(hidden=[16])", "epochs": 4, "batch_size": 50}


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def same(one: Audit, other: Audit) -> None:
    """To the bit."""
    for name in ("labels", "index", "score", "choices", "likelihoods", "matrix", "matrix_error", "true"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert one.evidence.keys() == other.evidence.keys()
    assert all(np.array_equal(one.evidence[name], other.evidence[name], equal_nan=True) for name in one.evidence)
    for name in ("noise_rate", "noise_rate_error", "threshold", "classes", "paths", "warnings", "sentence"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.data_issues == other.data_issues


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    out = tmp_path_factory.mktemp("digits") / "run"
    return pyrite.audit("digits", noise="symmetric(0.4)", out=str(out), **QUICK)


def test_digits_with_wrong_labels(digits: Audit) -> None:
    """Every label is judged by a net that did not learn it."""
    assert digits.true is not None
    wrong = digits.labels != digits.true
    assert digits.can_tell
    assert 0 < digits.noise_rate_error < 0.05
    assert abs(digits.noise_rate - wrong.mean()) < 3 * digits.noise_rate_error + 0.05
    assert roc_auc_score(wrong, digits.score) > 0.95
    assert digits.noise_interval[0] <= wrong.mean() <= digits.noise_interval[1]
    sure = digits.wrong_probability >= 0.9
    assert wrong[sure].mean() > 0.85
    hits = (wrong & digits.is_suspect).sum()
    assert hits / digits.is_suspect.sum() > 0.8
    assert hits / wrong.sum() > 0.8
    assert (digits.suggested == digits.true)[digits.is_suspect].mean() > 0.8
    own = digits.posterior[np.arange(len(digits)), digits.labels]
    np.testing.assert_allclose(own, 1 - digits.wrong_probability, atol=1e-6)
    assert (digits.posterior.argmax(1) == digits.true).mean() > 0.9


def test_what_it_was_trained_with(digits: Audit) -> None:
    assert digits.run is not None
    assert digits.run.config.validation == 0
    assert str(digits.run.config.method) == "cross_fit(erm(unit(scale(mae, tau=1, classes=10))), folds=4)"
    assert (digits.run.samples["unseen"] == 1).all()
    assert digits.run.config.seed == 0
    assert digits.run.finished


def test_samples_are_the_data_sets(digits: Audit) -> None:
    data = load("digits")
    noisy = pyrite.corrupt(data.labels, "symmetric(0.4)", classes=10, seed=0)
    assert (digits.index == np.arange(len(data))).all()
    assert (digits.labels == noisy.given).all()
    assert digits.true is not None
    assert (digits.true == data.labels).all()
    assert digits.classes == data.classes
    assert digits.paths == ()
    assert digits.warnings == ()


def test_evidence_is_what_training_showed(digits: Audit) -> None:
    assert digits.run is not None
    held, part = digits.run.samples, digits.run.labels["part"]
    assert list(digits.evidence) == ["no_class", "margin", "last_margin", "agreement"]
    margin = held["class_margins"][np.arange(len(digits)), digits.labels]
    assert digits.evidence["margin"] == pytest.approx(margin, abs=1e-6)
    assert np.array_equal(digits.evidence["last_margin"], held["last_margin"], equal_nan=True)
    trained = digits.evidence["agreement"][part == 0]
    assert ((trained >= 0) & (trained <= 1)).all()
    assert trained == pytest.approx(held["agreements"][part == 0] / 20)


def test_margins_of_held_out_samples_are_the_nets(tmp_path: Path) -> None:
    """After one epoch those kept are those of the net as it is then."""
    run = pyrite.train("digits", noise="symmetric(0.4)", validation=0.2, out=tmp_path, **QUICK | {"epochs": 1})
    out = run.labels["part"] == 1
    scores = run.scores(load("digits").inputs[out]).astype(np.float64)
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    assert run.samples["class_margins"][out] == pytest.approx(np.log(chances) - np.log1p(-chances), abs=1e-4)
    assert run.history[0]["validation_accuracy"] == (scores.argmax(1) == run.labels["given"][out]).mean()


def test_a_run_and_its_folder_say_the_same(digits: Audit) -> None:
    assert digits.run is not None
    same(pyrite.audit(digits.run), digits)
    same(pyrite.audit(digits.run.path), digits)
    same(pyrite.audit(str(digits.run.path)), digits)
    again = pyrite.audit("digits", noise="symmetric(0.4)", out=digits.run.path, **QUICK)  # nothing is trained again
    same(again, digits)
    with pytest.raises(ValueError, match=r"run contains a run with other epochs, schedule: choose another folder"):
        pyrite.audit("digits", noise="symmetric(0.4)", out=digits.run.path, **QUICK | {"epochs": 3})
    with pytest.raises(ValueError, match=r"epochs is a training setting, but .*run is trained already"):
        pyrite.audit(digits.run, epochs=3)


def test_a_data_set_that_is_given(digits: Audit, tmp_path: Path) -> None:
    found = pyrite.audit(load("digits"), noise="symmetric(0.4)", out=tmp_path / "run", **QUICK)
    same(found, digits)
    assert found.run is not None
    later = pyrite.audit(found.run.path)  # whose data nobody has now
    assert later.data_issues is None
    assert np.array_equal(later.score, found.score)


def test_a_config_is_heard(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        'data = "digits"\nmodel = "mlp(hidden=[8])"\nepochs = 1\nseed = 5\nvalidation = 0.3\nmethod = "erm(ce)"\n'
    )
    found = pyrite.audit("digits", config=tmp_path / "run.toml", out=tmp_path / "a")
    assert found.run is not None
    recipe = found.run.config
    assert (recipe.seed, recipe.validation, str(recipe.method)) == (5, 0.3, "erm(ce)")
    found = pyrite.audit("digits", config=tmp_path / "run.toml", seed=6, loss="mae", out=tmp_path / "b")
    assert found.run is not None
    recipe = found.run.config
    assert (recipe.seed, recipe.validation, str(recipe.method)) == (6, 0.3, "cross_fit(erm(mae), folds=4)")


def test_nothing_held_out_is_a_ranking(tmp_path: Path) -> None:
    options = QUICK | {"method": "erm(gce(q=0.7))", "validation": 0.0}
    found = pyrite.audit("digits", noise="symmetric(0.4)", out=tmp_path / "run", **options)
    assert not found.can_tell
    assert found.warnings == (
        "0 samples were held out, fewer than 50, so there is only a ranking: hold out more (validation=0.2)",
    )
    assert found.true is not None
    assert roc_auc_score(found.labels != found.true, found.score) > 0.9
    assert not found.is_suspect.any()
    assert np.isnan(found.wrong_probability).all()


def test_samples_that_were_not_used_are_left_out(tmp_path: Path) -> None:
    found = pyrite.audit("digits", noise="symmetric(0.4)", samples=400, out=tmp_path / "run", **TINY)
    assert len(found) == 400
    assert found.run is not None
    part = found.run.labels["part"]
    assert found.index.tolist() == np.flatnonzero(part < 2).tolist()
    assert (found.labels == found.run.labels["given"][found.index]).all()
    assert found.true is not None
    assert (found.true == load("digits").labels[found.index]).all()


def test_a_method_that_weighs_samples(tmp_path: Path) -> None:
    found = pyrite.audit("digits", noise="symmetric(0.4)", method="meta_weight", out=tmp_path / "run", **TINY)
    assert list(found.evidence) == ["no_class", "margin", "last_margin", "agreement", "trust"]
    assert found.run is not None
    trust = found.evidence["trust"]
    assert np.isnan(trust[found.run.labels["part"][found.index] == 1]).all()
    assert np.isfinite(trust[found.run.labels["part"][found.index] == 0]).all()
    assert 3 not in found.run.labels["part"][found.index]


def test_a_run_without_margins(tmp_path: Path) -> None:
    run = pyrite.train("digits", samples=200, out=tmp_path / "run", **TINY)
    held = {name: values for name, values in run.samples.items() if name != "class_margins"}
    np.savez(tmp_path / "run" / "samples.npz", **held)
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    del facts["files"]  # the checksums of what was written
    (tmp_path / "run" / "run.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match=r"run keeps no margins of classes: samples times classes are too many"):
        pyrite.audit(tmp_path / "run")


# --- files of one's own ---------------------------------------------------------------------------------------------


def blobs(count: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Three clouds of points, a fifth of the labels wrong."""
    random = np.random.default_rng(seed)
    true = np.arange(count) % 3
    points = random.normal(size=(count, 4)) + 4 * np.eye(3, 4)[true]
    wrong = random.random(count) < 0.2
    return points.astype(np.float32), np.where(wrong, (true + 1) % 3, true), wrong


def test_a_csv_with_a_column_of_labels(tmp_path: Path) -> None:
    points, labels, wrong = blobs(900)
    names = ["cat", "dog", "emu"]
    with (tmp_path / "animals.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["a", "b", "c", "d", "label"])
        table.writerows([*map(float, row), names[label]] for row, label in zip(points, labels, strict=True))
    found = pyrite.audit(tmp_path / "animals.csv", out=tmp_path / "run", epochs=8)
    assert found.classes == ("cat", "dog", "emu")
    assert (found.labels == labels).all()
    assert found.true is None
    assert roc_auc_score(wrong, found.score) > 0.95
    assert abs(found.noise_rate - wrong.mean()) < 3 * found.noise_rate_error + 0.05
    assert {(c.true, c.given) for c in found.confusions[:3]} == {("cat", "dog"), ("dog", "emu"), ("emu", "cat")}
    assert found.run is not None
    page = write_audit_page(found, tmp_path / "report.html")
    assert page.stat().st_size < 2_000_000
    for row in read(found.to_csv(tmp_path / "suspects.csv"))[:5]:  # with the user's own row
        np.testing.assert_allclose([float(row[name]) for name in "abcd"], points[int(row["index"])], rtol=1e-6)


def test_texts_with_a_column_of_labels(tmp_path: Path) -> None:
    """From a file of a spreadsheet to the circle that closes, with names of samples and words of another language."""
    words = {"gut": ["schön", "prima", "=fein", "gern"], "schlecht": ["übel", "mies", "öde", "nie"]}
    random = np.random.default_rng(0)
    true = np.arange(400) % 2
    wrong = random.random(400) < 0.2
    names = np.array(["gut", "schlecht"])
    with (tmp_path / "mail.csv").open("w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow(["nr", "text", "given", "urteil"])
        for row in range(400):
            text = " ".join(random.choice(words[names[true[row]]], 4))
            table.writerow([f"m{row}", text, row % 7, names[true[row] ^ wrong[row]]])
    found = pyrite.audit(tmp_path / "mail.csv", label="urteil", text="text", name="nr", out=tmp_path / "run")
    assert roc_auc_score(wrong, found.score) > 0.95
    assert abs(found.noise_rate - wrong.mean()) < 3 * found.noise_rate_error + 0.05
    assert found.paths[7] == "m7"
    rows = read(found.to_csv(tmp_path / "suspects.csv"))
    assert rows[0]["path"] == f"m{rows[0]['index']}"
    assert set(rows[0]["text"].removeprefix("'").split()) <= {*words["gut"], *words["schlecht"]}
    again = pyrite.train(
        tmp_path / "mail.csv", label="urteil", text="text", name="nr", corrections=tmp_path / "suspects.csv",
        drop_suspects=0.9, out=tmp_path / "b", epochs=2, progress=False,
    )  # fmt: skip
    assert again.facts["dropped"] == int((found.wrong_probability >= 0.9).sum()) > 20


def test_an_npz_with_x_and_y(tmp_path: Path) -> None:
    points, labels, wrong = blobs(900, seed=1)
    np.savez(tmp_path / "points.npz", x=points, y=labels)
    found = pyrite.audit(str(tmp_path / "points.npz"), out=tmp_path / "run", epochs=8)
    assert roc_auc_score(wrong, found.score) > 0.95
    assert abs(found.noise_rate - wrong.mean()) < 3 * found.noise_rate_error + 0.05
    rows = read(found.to_csv(tmp_path / "suspects.csv"))
    assert {int(row["index"]) for row in rows[:100]} <= set(np.flatnonzero(found.wrong_probability > 0.4).tolist())
    # The circle closes: what was found is dropped.
    again = pyrite.train(
        tmp_path / "points.npz", corrections=tmp_path / "suspects.csv", drop_suspects=0.9, out=tmp_path / "b", **TINY
    )
    assert again.facts["dropped"] == int((found.wrong_probability >= 0.9).sum()) > 100


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shades, every eighth in the wrong folder, and one in both; one file is no picture."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for label, shade in (("dark", 60), ("light", 180)):
        (folder / label).mkdir()
        for number in range(150):
            really = shade if number % 8 else 240 - shade
            pixels = np.clip(random.normal(really, 20, (8, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number:03}.png")
    (folder / "dark" / "003.png").write_bytes((folder / "light" / "007.png").read_bytes())
    (folder / "light" / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    return folder


@pytest.mark.parametrize("lazy", [False, True])
def test_a_folder_of_images(lazy: bool, photos: Path, tmp_path: Path) -> None:
    data = f'folder("{photos}", lazy={lazy})'
    found = pyrite.audit(data, out=tmp_path / "run", **TINY | {"epochs": 15})
    assert found.classes == ("dark", "light")
    assert len(found) == 300
    for row in (0, 3, 200):
        assert found.paths[row].startswith(found.classes[found.labels[row]])
    files = {str(path.relative_to(photos)) for path in photos.rglob("*.png")} - {"light/torn.png"}
    assert set(found.paths) == files
    assert found.run is not None
    assert found.paths == tuple(found.run.labels["path"][found.index].tolist())
    odd, twin = found.paths.index("dark/003.png"), found.paths.index("light/007.png")
    assert found.suggested[odd] == 1
    assert found.is_suspect[odd]
    assert not found.is_suspect[twin]
    wrong = np.array([int(name[-7:-4]) % 8 == 0 or name == "dark/003.png" for name in found.paths])
    assert roc_auc_score(wrong, found.score) > 0.95
    assert found.data_issues is not None
    (copies,) = found.data_issues.contradictions
    assert sorted(copies.samples) == sorted(int(found.index[row]) for row in (odd, twin))
    assert set(copies.labels) == {"dark", "light"}
    ((path, _),) = found.data_issues.unreadable
    assert path.endswith("torn.png")
    said = " / ".join(found.warnings)
    assert "1 input occurs more than once with different labels, in 2 samples" in said
    assert "1 file could not be read, such as " in said
    told = found.summary()
    assert told["data_issues"]["contradictions"][0]["samples"] == list(copies.samples)
    assert told["data_issues"]["unreadable"][0]["path"] == path
    assert len(told["warnings"]) == 2
    rows = read(found.to_csv(tmp_path / "suspects.csv"))
    (row,) = (row for row in rows if row["path"] == "dark/003.png")
    assert (row["given"], row["suggested"], row["suspect"]) == ("dark", "light", "1")


def test_too_few(tmp_path: Path) -> None:
    points, labels, _ = blobs(40)
    np.savez(tmp_path / "few.npz", x=points, y=labels)
    with pytest.raises(ValueError, match="there are 40 samples: at least 50 are needed to estimate label noise"):
        pyrite.audit(tmp_path / "few.npz", out=tmp_path / "run", **TINY)


def test_rare_wrong_labels_are_found(tmp_path: Path) -> None:
    """One in a hundred: of those few are held out, and yet those that were trained on are found."""
    found = pyrite.audit("digits", noise="symmetric(0.01)", epochs=10, model="mlp", out=tmp_path / "run")
    assert found.true is not None
    wrong = found.labels != found.true
    assert 5 < wrong.sum() < 30
    assert roc_auc_score(wrong, found.score) > 0.99
    assert found.is_suspect[wrong].mean() > 0.6
    assert wrong[found.is_suspect].mean() > 0.5
    assert abs(found.noise_rate - wrong.mean()) < 0.02


def test_true_labels_have_no_suspects(tmp_path: Path) -> None:
    found = pyrite.audit("digits", epochs=10, model="mlp", out=tmp_path / "run")
    assert found.noise_rate < 0.02
    assert found.is_suspect.mean() < 0.01
    assert found.threshold >= 0.1


def test_a_folder_that_changed_shows_no_wrong_pictures(tmp_path: Path) -> None:
    from PIL import Image

    random = np.random.default_rng(0)
    for name, shade in (("dark", 60), ("light", 180)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(60):
            pixels = (shade + random.integers(-40, 40, (16, 16, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number:02}.png")
    found = pyrite.audit(tmp_path / "photos", epochs=2, out=tmp_path / "run")
    assert not any("held out" in warning for warning in found.warnings)  # of 120 samples enough are held out
    assert found.run is not None
    data = found.run.dataset()
    assert len(data) == 120
    (tmp_path / "photos" / "dark" / "00.png").rename(tmp_path / "photos" / "light" / "99.png")
    with pytest.raises(ValueError, match="has changed since"):
        pyrite.Run.load(found.run.path).dataset()
    with pytest.raises(ValueError, match="other inputs and labels"):
        pyrite.audit(tmp_path / "run")
    assert 'id="sheet-0"' in write_audit_page(found, tmp_path / "page.html", data=data).read_text()
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    again = pyrite.audit(tmp_path / "run")
    assert again.data_issues is None
    assert (again.score == found.score).all()
    assert 'id="sheet-0"' not in write_audit_page(again, tmp_path / "page.html").read_text()


def test_an_unfinished_run(tmp_path: Path) -> None:
    run = pyrite.train("digits", epochs=1, model="mlp", samples=200, out=tmp_path / "run")
    (run.path / "samples.npz").unlink()
    with pytest.raises(ValueError, match="has not finished an epoch: pyrite train --resume"):
        pyrite.audit(run.path)
