"""What is written for TensorBoard, read back with its own reader."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from tests import children

SETTINGS: dict[str, Any] = {
    "loss": "ce", "noise": "symmetric(0.3)", "model": "mlp(hidden=[8])", "epochs": 3, "batch_size": 64,
}  # fmt: skip


def read(path: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(path), size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    return found


def steps_and_values(found: Any, tag: str) -> tuple[list[int], list[float]]:
    events = found.Scalars(tag)
    return [event.step for event in events], [event.value for event in events]


def check(found: Any, run: pyrite.Run) -> None:
    """Everything the run knows of itself is there, once."""
    batches = -(-1000 // 64)
    ends = [batches * epoch for epoch in (1, 2, 3)]
    for name in run.history[0]:
        values = [line[name] for line in run.history]
        if None in values:
            assert f"epoch/{name}" not in found.Tags()["scalars"]
            continue
        steps, written = steps_and_values(found, f"epoch/{name}")
        assert steps == ends
        assert written == pytest.approx(values, rel=1e-6)
    steps, losses = steps_and_values(found, "step/loss")
    assert steps == list(range(1, ends[-1] + 1))
    sizes = np.array([64] * (batches - 1) + [1000 - 64 * (batches - 1)])
    for line, one in zip(run.history, np.split(np.array(losses), 3), strict=True):
        assert (one * sizes).sum() / 1000 == pytest.approx(line["loss"], rel=1e-5)
    wrong = run.samples["noisy_margins"]
    for kind, counts in {"all": run.samples["margins"], "wrong": wrong}.items():
        events = found.Histograms(f"margins/{kind}")
        assert [event.step for event in events] == ends
        for event, row in zip(events, counts, strict=True):
            shown = event.histogram_value
            assert shown.num == row.sum()
            inside = dict(zip(shown.bucket_limit, shown.bucket, strict=True))
            edges = run.samples["margin_edges"]
            # The bin that ends at an edge holds what lies between the edge before and this one.
            for place, edge in enumerate(edges):
                assert inside.get(edge, 0) == row[place]
    right = found.Histograms("margins/right")[-1].histogram_value
    assert right.num == run.samples["margins"][-1].sum() - wrong[-1].sum()


def test_a_run_is_written_whole(tmp_path: Path) -> None:
    run = pyrite.train("blobs", out=tmp_path / "run", observers=[pyrite.TensorBoard()], **SETTINGS)
    check(read(tmp_path / "run" / "tensorboard"), run)


def test_a_resumed_run_is_written_once(tmp_path: Path) -> None:
    """It is stopped in the second epoch and goes on from the end of the first, as after a kill."""
    out, board = tmp_path / "run", tmp_path / "elsewhere"
    left = [25]

    def stop() -> bool:
        left[0] -= 1
        return left[0] == 0

    pyrite.train("blobs", out=out, **SETTINGS | {"seed": 1})
    whole = (out / "history.jsonl").read_bytes()
    again = tmp_path / "again"
    state = again / "state" / "state.safetensors"
    kept: list[bytes] = []

    class Keeper:
        def after_step(self, step: object) -> None: ...

        def after_epoch(self, epoch: int) -> None:
            kept.append(state.read_bytes())

    pyrite.train(
        "blobs", out=again, stop=stop, observers=[Keeper(), pyrite.TensorBoard(board)], **SETTINGS | {"seed": 1}
    )
    state.write_bytes(kept[0])  # what a kill before the stop would have left
    run = pyrite.train(resume=again, observers=[pyrite.TensorBoard(board)])
    assert (again / "history.jsonl").read_bytes() == whole
    check(read(board), run)


def test_without_truth_all_margins_are_there(tmp_path: Path) -> None:
    values = {name: value for name, value in SETTINGS.items() if name != "noise"}
    pyrite.train("blobs", out=tmp_path / "run", observers=[pyrite.TensorBoard()], **values)
    assert read(tmp_path / "run" / "tensorboard").Tags()["histograms"] == ["margins/all"]


def test_the_writer_is_closed_if_a_run_fails(tmp_path: Path) -> None:
    class Failing:
        def after_step(self, step: object) -> None:
            raise RuntimeError("no")

        def after_epoch(self, epoch: int) -> None: ...

    board = pyrite.TensorBoard()
    with pytest.raises(RuntimeError, match="no"):
        pyrite.train("blobs", out=tmp_path / "run", observers=[board, Failing()], **SETTINGS)
    assert board._writer is None
    assert steps_and_values(read(tmp_path / "run" / "tensorboard"), "step/loss")[0] == [1]


def test_from_the_command_line(tmp_path: Path) -> None:
    words = ["train", "blobs", "--epochs", "1", "--tensorboard", "--json", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    final = json.loads(done.stdout)["final_test_accuracy"]
    assert steps_and_values(read(tmp_path / "run" / "tensorboard"), "epoch/test_accuracy")[1] == pytest.approx([final])


def test_not_installed_is_one_sentence(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    words = ["train", "blobs", "--epochs", "1", "--tensorboard", "--out", str(tmp_path / "run")]
    code, said = children.run(*words, log=tmp_path / "log", errors=errors, trouble=("lacks", "tensorboard"))
    assert (code, said) == (2, "")
    assert 'pip install "pyrite-labels[tensorboard]"' in errors.read_text()
    assert "Traceback" not in errors.read_text()
    assert not (tmp_path / "run").exists()
