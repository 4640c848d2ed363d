"""Several processes end where one does."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch.distributed import TCPStore

import pyrite
from tests.children import FORKS, RESULTS, both, differing, place, start
from tests.training import together

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
# The processes do not make the store by which they find each other.
AGENT = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
CASES = list(together.cases())
OPTIONS = ["digits", "--samples", "257", "--noise", "symmetric(0.4)", "--model", "mlp(hidden=[16])", "--epochs", "3"]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    together.train_all(folder)
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As torchrun starts them, but forked."""
    folder = tmp_path_factory.mktemp("two")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    places = [place(rank, store.port) | AGENT for rank in range(2)]
    processes = [FORKS.Process(target=together.train_and_fail_all, args=(folder, each)) for each in places]
    for process in processes:
        process.start()
    wait(processes, folder / "log")
    return folder


def wait(processes: list, log: Path) -> None:
    for rank, process in enumerate(processes):
        process.join(300)
        assert process.exitcode == 0, log.with_suffix(f".{rank}").read_text()


def test_torchrun_starts_them_so() -> None:
    words = [*TORCHRUN, "--no-python", "env"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    told = dict.fromkeys(done.stdout.splitlines())
    for rank in range(2):
        for name, value in (place(rank, 0) | AGENT).items():
            if name not in ("MASTER_ADDR", "MASTER_PORT"):  # of this machine
                assert f"{name}={value}" in told
            assert any(line.startswith(f"{name}=") for line in told)


def known(line: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in line.items() if value is not None}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(case: str, one: Path, two: Path) -> None:
    first, second = pyrite.Run.load(one / case), pyrite.Run.load(two / case)
    mine, theirs = (load_file(run.path / "model.safetensors") for run in (first, second))
    assert list(mine) == list(theirs)
    for name in mine:
        np.testing.assert_allclose(theirs[name], mine[name], rtol=1e-9, atol=1e-9, err_msg=name)
    for name, values in first.samples.items():
        np.testing.assert_allclose(second.samples[name], values, rtol=1e-9, atol=1e-9, err_msg=name)
    assert (second.samples["visits"][first.labels["part"] == 0] <= 2).all()
    for line, other in zip(first.history, second.history, strict=True):
        assert known(line) == pytest.approx(known(other), rel=1e-9, abs=1e-9)
    assert first.config == second.config
    assert (one / case / "labels.npz").read_bytes() == (two / case / "labels.npz").read_bytes()
    assert second.facts["processes"] == 2
    assert first.facts["final_model"] == second.facts["final_model"]
    assert first.facts["saved"] == second.facts["saved"]


def test_batch_norm_over_processes_has_the_derivatives_of_torch(two: Path) -> None:
    parts = [torch.load(two / f"norm-{number}.pt") for number in range(2)]
    for own, expected in zip(map(torch.cat, zip(*parts, strict=True)), together.derivatives(slice(None)), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-13)


def test_a_fused_head_over_processes_has_the_gradient_of_the_whole_batch(two: Path) -> None:
    for number in range(2):
        own = torch.load(two / f"head-{number}.pt")
        torch.testing.assert_close(own, together.projected(slice(None)), rtol=1e-12, atol=1e-13)


def test_the_trainings_are_not_trivial(one: Path) -> None:
    """Weights move by far more than the tolerance, and a class weight matters."""
    models = {case: load_file(one / case / "model.safetensors") for case in ("weighted", "ce", "adam")}
    moved = np.abs(models["weighted"]["head.weight"] - models["ce"]["head.weight"]).max()
    assert moved > 1e-3
    assert [line["validation_accuracy"] is not None for line in pyrite.Run.load(one / "adam").history] == [True, True]
    assert pyrite.Run.load(one / "adam").history[-1]["test_accuracy"] is not None
    # Two nets, and a stage before the last: the first of two epochs is saved.
    assert [pyrite.Run.load(one / f"method-{name}").epoch for name in ("cross_fit", "forward", "erm")] == [1, 1, 2]


def test_samples_of_a_lone_last_batch(one: Path) -> None:
    """Without a batch norm all 45 samples are seen twice; with one, a last batch of one sample is left out."""
    assert (pyrite.Run.load(one / "weighted").samples["visits"] == 2).all()
    assert pyrite.Run.load(one / "batch-norm").samples["visits"].sum() == 88


def test_processes_fail_together(two: Path) -> None:
    said = [json.loads((two / f"said-{rank}.json").read_text()) for rank in range(2)]
    assert said[0] == said[1]
    assert said[0]["occupied"] == f"PyriteError: {two} is not empty: choose another folder"
    assert said[0]["unwritable"].startswith("RunFailed: cannot write /proc/nowhere/run/recipe.toml: ")
    assert "not finite" in said[0]["nan"] or "the loss is" in said[0]["nan"]
    assert said[0]["comparison"] == (two / "comparison" / "table.md").read_text()


def test_two_processes_resume_to_the_same_bytes(tmp_path: Path) -> None:
    """257 samples and batches of 128: the last sample of an epoch is left out, since there are batch norms."""
    log = tmp_path / "log"
    options = ["train", *OPTIONS, "--checkpoint-every", "1", "--validation", "0.1"]
    wait(both(*options, "--out", str(tmp_path / "whole"), log=log), log)
    state, words = tmp_path / "killed" / "state" / "state.safetensors", [*options, "--out", str(tmp_path / "killed")]
    for delay in (0.0, 0.03):
        before = state.read_bytes() if state.exists() else None
        processes = both(*words, log=log)
        while all(p.is_alive() for p in processes) and (not state.exists() or state.read_bytes() == before):
            time.sleep(0.002)
        time.sleep(delay)
        # Both before either is waited for; then one alone, without which the other fails.
        killed = processes if not delay else processes[1:]
        for process in killed:
            process.kill()
        for process in processes:
            process.join()
        said = log.with_suffix(".0").read_text()
        assert [process.exitcode for process in killed] == [-signal.SIGKILL] * len(killed), said
        if delay:
            assert processes[0].exitcode == 1, said
            assert said.startswith("pyrite: another process of this training ended, and this one with it; ")
            assert said.index("\n") == len(said) - 1
        words = ["train", "--resume", str(tmp_path / "killed")]
    wait(both(*words, log=log), log)
    assert differing(tmp_path / "whole", tmp_path / "killed") == []
    assert log.with_suffix(".1").read_text() == ""  # the first alone speaks


def descendants(pid: int) -> list[int]:
    """torchrun's processes are in sessions of their own."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_torchrun_is_killed_or_stopped(number: signal.Signals, tmp_path: Path) -> None:
    options = ["train", *OPTIONS[:-1], "200", "--checkpoint-every", "5"]
    wait(both(*options, "--out", str(tmp_path / "whole"), log=tmp_path / "log"), tmp_path / "log")
    out = tmp_path / "stopped"
    words = [*TORCHRUN, "-m", "pyrite", *options, "--out", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    while process.poll() is None and not (out / "history.jsonl").exists():
        time.sleep(0.01)
    everyone = descendants(process.pid)
    assert len(everyone) >= 3
    # A terminal sends Ctrl-C to all; a cluster asks torchrun to stop.
    for pid in [process.pid] if number == signal.SIGTERM else everyone:
        os.kill(pid, number)
    said, _ = process.communicate(timeout=60)
    assert not (out / "model.safetensors").exists()
    if number != signal.SIGKILL:
        assert said.count(f"pyrite: stopped and saved; continue with: pyrite train --resume {out}") == 1
    done = subprocess.run(
        [*TORCHRUN, "-m", "pyrite", "train", "--resume", str(out)], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert differing(tmp_path / "whole", out) == []
    assert {path.name for path in out.iterdir()} - {"last.safetensors"} == {*RESULTS, "run.json", "state"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ip") is None or os.geteuid() != 0, reason="network namespaces need ip and root")
def test_two_network_namespaces_as_two_hosts(tmp_path: Path) -> None:
    """Two networks that a virtual cable connects, as two machines with a shared disk, and memory of their own."""
    hosts = [f"pyrite-{os.getpid()}-{number}" for number in range(2)]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    options = ["train", *OPTIONS, "--precision", "float64", "--out"]
    try:
        for host in hosts:
            ip("netns", "add", host)
        ip("link", "add", "cable", "netns", hosts[0], "type", "veth", "peer", "name", "cable", "netns", hosts[1])
        for number, host in enumerate(hosts):
            ip("-n", host, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", host, "link", "set", device, "up")
        nodes = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "10.77.0.1", "--master-port", "29511"]
        nodes += ["-m", "pyrite", *options, str(tmp_path / "two")]
        own_memory = ["sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
        started = [
            subprocess.Popen(
                ["ip", "netns", "exec", host, *own_memory, *TORCHRUN[:3], "--node-rank", str(number), *nodes],
                env=ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "cable"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            for number, host in enumerate(hosts)
        ]  # fmt: skip
        said = [process.communicate()[0].decode() for process in started]
        assert [process.returncode for process in started] == [0, 0], said
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], check=False, capture_output=True)
    wait([start(*options, str(tmp_path / "one"), log=tmp_path / "log.0")], tmp_path / "log")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, weights in one.items():
        np.testing.assert_allclose(two[name], weights, rtol=1e-9, atol=1e-12)
