"""Runs, audits and comparisons are printed as tables, and shown so in a notebook."""

from pathlib import Path

import numpy as np

import pyrite

TRUE = np.arange(600) % 3
SCORES = 6 * np.eye(3)[TRUE] + np.random.default_rng(0).normal(size=(600, 3))
LABELS = np.where(np.arange(600) < 60, (TRUE + 1) % 3, TRUE)


def test_audits() -> None:
    audit = pyrite.audit(LABELS, scores=SCORES, kind="logits", classes=["<cat>", "dog", "emu"])
    title, headings, *rows = str(audit).splitlines()
    assert title == audit.sentence
    assert headings.split() == ["sample", "given", "suggested", "probably", "wrong"]
    frame = audit.to_frame().head(10)
    assert [row.split()[:3] for row in rows] == frame[["index", "given", "suggested"]].astype(str).to_numpy().tolist()
    assert len(audit.table(3).rows) == 3
    shown = audit._repr_html_()
    assert shown.count("<tr>") == 11
    assert "<cat>" not in shown
    assert "&lt;cat&gt;" in shown
    unknown = pyrite.audit(TRUE[:60], scores=np.zeros((60, 3)), kind="logits")
    assert "unknown" in str(unknown)


def test_runs_and_comparisons(tmp_path: Path) -> None:
    settings = {"epochs": 1, "model": "mlp(hidden=[4])", "progress": False}
    compared = pyrite.compare("blobs(samples=60)", ["ce", "gce(q=0.5)"], out=tmp_path, **settings)
    headings, first, second = str(compared).splitlines()
    assert headings.startswith("loss        final")
    assert first.startswith("ce ")
    assert second.startswith("gce(q=0.5)  ")
    assert repr(compared) == f"<comparison {tmp_path}: ce, gce(q=0.5)>"
    assert compared._repr_html_().count("<td>") == 2 * len(compared.table().headings)
    run = compared.rows[0].runs[0]
    title, *lines = str(run).splitlines()
    assert title == f"run {run.path}: erm(ce) on blobs(samples=60), 1 epoch"
    assert lines[0].startswith("test accuracy of the saved model")
    assert lines[0].endswith(f"{100 * run.table['final_test_accuracy']:.2f} %")
    assert "<caption>run " in run._repr_html_()
