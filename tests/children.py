"""Real processes for the tests, started quickly: forked from one that has imported torch and done nothing else.

So a run can be killed and resumed dozens of times in the time that it takes to import torch a few times.
"""

import ctypes
import multiprocessing
import os
import resource
import signal
import socket
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import tests

FORKS = multiprocessing.get_context("forkserver")
# torch._dynamo is what optimisers import when they make their first step.
PRELOADED = ["tests.children", "pyrite.cli.app", "pyrite.training", "sklearn.datasets", "torch._dynamo", "optuna"]
PRELOADED += ["pyrite.run_audits", "pyrite.comparing", "pyrite.report.audit_page", "matplotlib.pyplot"]
FORKS.set_forkserver_preload(PRELOADED)
RESULTS = ("history.jsonl", "samples.npz", "labels.npz", "recipe.toml", "model.safetensors")


def start(
    *words: str,
    log: Path,
    errors: Path | None = None,
    folder: Path | None = None,
    trouble: tuple[str, int | str] | None = None,
    flush: bool = True,
    **environment: str,
) -> BaseProcess:
    """``pyrite`` with these words, in ``folder``.

    Its output goes to ``log``, standard error to ``errors`` if that is given; for ``trouble`` see ``meet``. It waits
    for the disk, unless ``flush`` is False, so that a test can catch it in the middle of a training.
    """
    arguments = (words, log, errors, folder, trouble, flush, environment)
    process = FORKS.Process(target=_pyrite, args=arguments, daemon=True)
    process.start()
    return process


def run(*words: str, log: Path, **options: Any) -> tuple[int, str]:
    """Its exit code and its output; the options are those of ``start``."""
    process = start(*words, log=log, flush=False, **options)
    process.join(300)
    assert process.exitcode is not None, "it does not end"
    return process.exitcode, log.read_text()


def both(*words: str, log: Path, **options: Any) -> list[BaseProcess]:
    """Two processes that train together, as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [start(*words, log=log.with_suffix(f".{rank}"), **options, **place(rank, port)) for rank in range(2)]


def place(rank: int, port: int) -> dict[str, str]:
    """What torchrun tells each of two processes."""
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    return {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **own}


def differing(one: Path, other: Path) -> list[str]:
    """The results that are not the same, byte for byte."""
    some = [name for name in ("method.npz", "last.safetensors") if (one / name).exists() or (other / name).exists()]
    return [name for name in (*RESULTS, *some) if (one / name).read_bytes() != (other / name).read_bytes()]


def _pyrite(
    words: tuple[str, ...],
    log: Path,
    errors: Path | None,
    folder: Path | None,
    trouble: tuple[str, int | str] | None,
    flush: bool,
    environment: dict[str, str],
) -> None:
    import torch

    from pyrite.cli.app import main

    speak_to(log, errors)
    if folder is not None:
        os.chdir(folder)
    torch.set_num_threads(1)
    os.environ.update(environment)
    if flush:
        os.fsync = tests.flush
    if trouble is not None:
        meet(*trouble)
    sys.argv = ["pyrite", *words]
    main()
    sys.stdout.flush()


def speak_to(log: Path, errors: Path | None = None) -> None:
    """Let the output of this process go to ``log``, and standard error to ``errors`` if that is given."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output if errors is None else os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)


def meet(trouble: str, number: Any) -> None:
    """Bring this process into trouble.

    ``room``: its files may have no more than ``number`` bytes. ``humble``: a superuser may write anywhere, but not
    after this. ``lacks``: the module of this name is not installed. ``finds``: modules in the folder of this name are.
    All others say when it kills itself, in the middle of the file that it writes as number 1, 2, ...: see
    ``kill_while_writing``.
    """
    if trouble == "lacks":
        sys.modules[number] = None  # type: ignore[assignment]
    elif trouble == "finds":
        sys.path.insert(0, number)
    elif trouble == "room":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))
    elif trouble == "humble":
        version_3, own, none = 0x20080522, 0, [0] * 6
        done = ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(version_3, own), (ctypes.c_uint32 * 6)(*none))
        assert done == 0
    else:
        kill_while_writing(trouble, number)


def kill_while_writing(phase: str, number: int) -> None:
    """``half`` of a file is written, it is ``written`` but not flushed, ``flushed`` but not renamed, or ``renamed``."""
    import pyrite.files

    left = [number]

    def die(now: str) -> None:
        if now == phase and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_half(path: Path, mode: str) -> BinaryIO:
        left[0] -= 1
        file = open(path, mode)  # noqa: SIM115  # who asked for it closes it
        whole = file.write

        def write(content: bytes) -> int:
            whole(content[: len(content) // 2])
            file.flush()
            die("half")
            return whole(content[len(content) // 2 :])

        file.write = write  # type: ignore[method-assign]
        return file  # type: ignore[return-value]

    fsync, replace = os.fsync, os.replace

    def slow_fsync(handle: int) -> None:
        die("written")
        fsync(handle)
        die("flushed")

    def slow_replace(source: Path, target: Path) -> None:
        replace(source, target)
        die("renamed")

    patch = pytest.MonkeyPatch()
    patch.setattr(pyrite.files, "open", write_half, raising=False)
    patch.setattr(os, "fsync", slow_fsync)
    patch.setattr(os, "replace", slow_replace)
