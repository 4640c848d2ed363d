"""Forward + backward of losses, as a ratio to ``F.cross_entropy`` measured beside it, and the memory it takes.

    python -m benchmarks.losses [--rounds 15]              the goals, with what was reached; training too
    python -m benchmarks.losses --every [--only 1024x1000] [--losses ce nce] [--threads 1]

Runs are interleaved: each round runs every form once, and a form's figure is the median over rounds of its time over
that round's cross entropy. Memory is the peak of what torch allocates in a step, in units of the scores' size, by its
own profiler. Results belong in docs/performance.md, with the machine they were measured on.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import pyrite
from benchmarks import loop, scaling
from benchmarks.memory import peak_bytes
from pyrite import kernel

SHAPES = [
    (128, 10, torch.float32),
    (128, 100, torch.float32),
    (1024, 1000, torch.float32),
    (4096, 32768, torch.float32),
    (512, 128256, torch.float32),
    (512, 128256, torch.bfloat16),
]
LOSSES = "ce focal mae rce gce sce tce aul agce ael imae truncated_gce nce nce+mae smooth(ce)".split()  # noqa: SIM905
CROSS_ENTROPY = "F.cross_entropy"
Form = Callable[[Tensor, Tensor], Tensor]


class Goal(NamedTuple):
    rows: int
    classes: int
    threads: int
    time: float
    loss: str = "gce"
    than: str = CROSS_ENTROPY
    dtype: torch.dtype = torch.float32
    busy: bool = False
    memory: float | None = None


GOALS = [
    Goal(128, 10, 1, time=1.2),
    Goal(128, 100, 1, time=1.6),
    Goal(256, 1000, 1, time=1.2),
    Goal(1024, 1000, 1, time=0.7),
    Goal(512, 128256, 1, time=0.6),
    Goal(512, 128256, 2, time=1.2, busy=True),
    Goal(1024, 1000, 1, time=1.2, dtype=torch.bfloat16, memory=2),
    Goal(128, 10, 1, time=1.2, loss="nce + mae", than="nce"),
    Goal(128, 100, 1, time=1.2, loss="nce + mae", than="nce"),
    Goal(1024, 1000, 1, time=1.2, loss="nce + mae", than="nce"),
]


class Measured(NamedTuple):
    milliseconds: float
    ratios: dict[str, list[float]]
    memory: dict[str, float]

    def quartiles(self, name: str, than: str = CROSS_ENTROPY) -> list[float]:
        ratios = [a / b for a, b in zip(self.ratios[name], self.ratios[than], strict=True)]
        return statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios


def public_gce(scores: Tensor, labels: Tensor) -> Tensor:
    """Generalised cross entropy in the form most research code has: softmax, clamp, one_hot."""
    p = F.softmax(scores, dim=1).clamp(min=1e-7, max=1.0)
    hot = F.one_hot(labels, scores.shape[1]).to(scores.dtype)
    return ((1.0 - (hot * p).sum(1) ** 0.7) / 0.7).mean()


def public_nce(scores: Tensor, labels: Tensor) -> Tensor:
    log_p = F.log_softmax(scores, dim=1)
    hot = F.one_hot(labels, scores.shape[1]).to(scores.dtype)
    return ((hot * log_p).sum(1) / log_p.sum(1)).mean()


def step(form: Form, scores: Tensor, labels: Tensor) -> None:
    scores.grad = None
    form(scores, labels).backward()


def seconds(form: Form, scores: Tensor, labels: Tensor, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        step(form, scores, labels)
    return (time.perf_counter() - start) / times


def extra_memory(form: Form, scores: Tensor, labels: Tensor) -> float:
    """The peak of what torch allocates in a step, in units of the scores' size; the gradient is 1 of it."""
    scores.grad = None
    return peak_bytes(lambda: step(form, scores, labels)) / (scores.numel() * scores.element_size())


def measure(rows: int, classes: int, dtype: torch.dtype, rounds: int, forms: dict[str, Form]) -> Measured:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(rows, classes, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(classes, (rows,), generator=generator)
    forms = {CROSS_ENTROPY: F.cross_entropy} | forms
    times = max(1, min(20, 500_000 // (rows * classes)))  # short runs, of which few are interrupted by other processes
    rounds *= 10 if rows * classes <= 1 << 21 else 1
    for form in forms.values():
        step(form, scores, labels)
    taken: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(rounds):
        for name, form in forms.items():
            taken[name].append(seconds(form, scores, labels, times))
    base = taken[CROSS_ENTROPY]
    ratios = {name: [a / b for a, b in zip(each, base, strict=True)] for name, each in taken.items()}
    memory = {name: extra_memory(form, scores, labels) for name, form in forms.items()}
    return Measured(1e3 * statistics.median(base), ratios, memory)


@contextmanager
def busy_cores() -> Iterator[None]:
    """As many other processes as there are cores, each of which takes all it can get of one."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def goals(rounds: int) -> None:
    """Each goal beside what was reached, as a table for docs/performance.md."""
    print("| scores | loss | ÷ | time (half of the rounds) | goal | memory | goal |")
    print("|---|---|---|---|---|---|---|")
    for goal in GOALS:
        torch.set_num_threads(goal.threads)
        forms: dict[str, Form] = {name: pyrite.loss(name) for name in {goal.loss, goal.than} - {CROSS_ENTROPY}}
        with ExitStack() as stack:
            if goal.busy:
                stack.enter_context(busy_cores())
            found = measure(goal.rows, goal.classes, goal.dtype, rounds, forms)
        low, middle, high = found.quartiles(goal.loss, goal.than)
        where = f"{goal.rows} x {goal.classes}" + (" bfloat16" if goal.dtype != torch.float32 else "")
        where += f", {goal.threads} thread{'s' * (goal.threads > 1)}" + (", busy cores" if goal.busy else "")
        memory = f"{found.memory[goal.loss]:.2f} | " + ("" if goal.memory is None else f"≤ {goal.memory:g}")
        times = f"{middle:.2f} ({low:.2f} to {high:.2f}) | ≤ {goal.time:g}"
        print(f"| {where} | `{goal.loss}` | `{goal.than}` | {times} | {memory} |", flush=True)


def projected(rows: int, hidden: int, classes: int, rounds: int) -> None:
    """``loss.linear`` against a projection and cross entropy of all scores: a row of the table of goals."""
    generator = torch.Generator().manual_seed(0)
    input = torch.randn(rows, hidden, generator=generator, requires_grad=True)
    weight = (torch.randn(classes, hidden, generator=generator) / hidden**0.5).requires_grad_()
    labels = torch.randint(classes, (rows,), generator=generator)
    loss = pyrite.loss("gce")

    def run(value: Callable[[], Tensor]) -> float:
        input.grad = weight.grad = None
        start = time.perf_counter()
        value().backward()
        return time.perf_counter() - start

    whole = partial(run, lambda: F.cross_entropy(F.linear(input, weight), labels))
    ours = partial(run, lambda: loss.linear(input, weight, labels))
    ratios = [1 / (whole() / ours()) for _ in range(rounds)]
    memory = peak_bytes(ours) / peak_bytes(whole)
    where = f"{rows} x {hidden} to {classes}, {torch.get_num_threads()} thread"
    times = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | ≤ 1.05"
    print(f"| {where} | `gce.linear` | `F.linear`, `F.cross_entropy` | {times} | {memory:.2f} of theirs | ≤ 0.2 |")


def every(shapes: list[tuple[int, int, torch.dtype]], rounds: int, names: list[str]) -> None:
    """All losses at all shapes."""
    forms: dict[str, Form] = {"public gce": public_gce, "public nce": public_nce}
    forms |= {name: pyrite.loss(name) for name in names}
    for rows, classes, dtype in shapes:
        found = measure(rows, classes, dtype, rounds, forms)
        title = f"({rows}, {classes}) {str(dtype).removeprefix('torch.')}"
        print(f"\n{title}: cross entropy {found.milliseconds:.2f} ms")
        print(f"{'':18} {'time':>6} {'(half)':>13} {'memory':>7}")
        for name, memory in found.memory.items():
            low, middle, high = found.quartiles(name)
            print(f"{name:18} {middle:6.2f} {f'{low:.2f}-{high:.2f}':>13} {memory:7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--every", action="store_true", help="every loss at every shape, in place of the goals")
    parser.add_argument("--only", nargs="*", help="shapes such as 1024x1000")
    parser.add_argument("--losses", nargs="*", default=LOSSES)
    parser.add_argument("--threads", type=int, help="threads torch may use; one is steadier on a busy machine")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    compiled = "with" if kernel.library() else "without"
    versions = f"pyrite {pyrite.__version__} {compiled} the compiled kernel, torch {torch.__version__}"
    print(f"{versions}; {os.cpu_count()} cores, load {loop.load_average()} before\n")
    if arguments.every:
        chosen = [shape for shape in SHAPES if not arguments.only or f"{shape[0]}x{shape[1]}" in arguments.only]
        every(chosen, arguments.rounds, arguments.losses)
    else:
        goals(arguments.rounds)
        torch.set_num_threads(1)
        projected(2048, 512, 65536, max(3, arguments.rounds // 4))
        print(loop.row(arguments.rounds), flush=True)
        print(scaling.row())
    print(f"\nload {loop.load_average()} after")


if __name__ == "__main__":
    main()
