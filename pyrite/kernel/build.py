"""Compiles ``kernel.c``. The build of the package runs this file alone: neither torch nor pyrite is installed there."""

import os
import shlex
import subprocess
import zlib
from pathlib import Path

SOURCE = Path(__file__).with_name("kernel.c")
OPTIONS = ["-O3", "-shared", "-fPIC", "-pthread", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"]


def library_name() -> str:
    """The file that is compiled from the source: one of another source, with other calls, has another name."""
    return f"kernel-{zlib.crc32(SOURCE.read_bytes()):08x}.so"


def compile_kernel(folder: Path = SOURCE.parent) -> Path:
    """The library. OSError and CalledProcessError: there is no compiler, or it does not compile this."""
    target = folder / library_name()
    unfinished = target.with_suffix(f".{os.getpid()}")
    command = [*shlex.split(os.environ.get("CC") or "cc"), *OPTIONS, str(SOURCE), "-o", str(unfinished), "-lm"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # nosec B603
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target
