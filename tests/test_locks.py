"""Locks are of processes, and end with them."""

import os
import signal
from pathlib import Path

from pyrite.files import acquire
from tests.children import FORKS


def hold(path: str, ready: str) -> None:
    release = acquire(Path(path))
    assert release is not None
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
    assert not path.exists()
    again = acquire(path)
    assert again is not None
    again()


def count(path: str, counter: str, times: int) -> None:
    for _ in range(times):
        release = acquire(Path(path), wait=True)
        assert release is not None
        number = int(Path(counter).read_text())
        Path(counter).write_text(str(number + 1))
        release()


def test_one_at_a_time_though_the_file_is_removed_each_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    words = (str(tmp_path / "lock"), str(counter), 50)
    processes = [FORKS.Process(target=count, args=words, daemon=True) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert counter.read_text() == "200"
