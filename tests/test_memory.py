"""Freed memory is reused: counted in page faults of a process of its own."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from pyrite.processes import reuse_memory
if sys.argv[1] == "reuse":
    reuse_memory()
def some():
    for _ in range(20):
        torch.ones(8 * 2**20)  # 32 MiB, of which glibc maps each anew
some()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
some()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str, **environment: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_tensors_take_the_memory_of_freed_ones() -> None:
    plain = faults("plain")
    assert plain > 1000
    assert faults("reuse") < plain / 20
    assert faults("reuse", MALLOC_TRIM_THRESHOLD_="131072") > plain / 20  # whoever sets it decides
