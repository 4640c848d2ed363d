"""Locks are of processes, and end with them."""

import os
import signal
from pathlib import Path

from pyrite.locks import acquire
from tests.children import FORKS


def hold(path: str, ready: str) -> None:
    assert acquire(Path(path)) is not None
    Path(ready).touch()
    signal.pause()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path, ready = tmp_path / "new" / "lock", tmp_path / "ready"
    process = FORKS.Process(target=hold, args=(str(path), str(ready)), daemon=True)
    process.start()
    while not ready.exists():
        assert process.is_alive()
    assert acquire(path) is None
    os.kill(process.pid or 0, signal.SIGKILL)
    release = acquire(path, wait=True)
    assert release is not None
    assert acquire(path) is None  # not twice, by the same process either
    release()
    again = acquire(path)
    assert again is not None
    again()
