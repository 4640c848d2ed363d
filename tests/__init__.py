"""Every test, and every process that a test forks, imports this first."""

import os

flush = os.fsync


def _no_flush(handle: int) -> None:
    """In place of ``os.fsync``, which is for a power cut: a test cannot make one, and would wait for the disk.

    That files are flushed, and when, is tested in test_files.py.
    """


os.fsync = _no_flush
