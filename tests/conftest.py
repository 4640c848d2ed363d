"""Set for every test, and what is said at the end of them."""

import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch

# The tensors here are tiny; two threads would spend their time waiting for each other, and more so on a busy machine.
torch.set_num_threads(1)


def skipped_line(reasons: Iterable[str]) -> str:
    """One line about everything that was skipped, by its reason; nothing if nothing was."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    return "NOT TESTED HERE: " + "; ".join(f"{count} ({reason})" for reason, count in counts.items()) if counts else ""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what this machine lacks, so that nobody takes what was skipped for tested."""
    reports = terminalreporter.stats.get("skipped", [])
    line = skipped_line(report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple))
    if line:
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Embeddings of the tests do not go into the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYRITE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The compiled kernel: that of the installation, or one that is compiled for the tests."""
    from pyrite import kernel
    from pyrite.kernel.build import compile_kernel

    try:
        return kernel.library() or kernel.load(compile_kernel(tmp_path_factory.mktemp("kernel")))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no C compiler")


@pytest.fixture(params=["compiled", "torch"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The two ways rows are computed: by the compiled kernel, and by torch's operations in blocks, here small ones."""
    from pyrite import kernel, soft_margin

    found = request.getfixturevalue("library") if request.param == "compiled" else None
    monkeypatch.setattr(kernel, "library", lambda: found)
    monkeypatch.setattr(soft_margin, "CPU_BLOCK", 15)
    return str(request.param)


@pytest.fixture
def registries_as_before() -> Iterator[None]:
    """What a test registers is gone after it."""
    from pyrite.registration import REGISTRIES

    before = {kind: dict(registry) for kind, registry in REGISTRIES.items()}
    yield
    for kind, registry in REGISTRIES.items():
        registry.clear()
        registry.update(before[kind])
