"""Forward + backward of every loss, as a ratio to ``F.cross_entropy`` measured beside it, and the memory it takes.

    python -m benchmarks.losses [--rounds 7] [--only 1024x1000] [--losses ce nce] [--threads 1]

Runs are interleaved: each round runs every form once, and a form's figure is the median over rounds of its time over
that round's cross entropy. Memory is the peak of what torch allocates in a step, in units of the scores' size, by its
own profiler. Results belong in docs/performance.md, with the machine they were measured on.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

import pyrite
from benchmarks.memory import peak_bytes

SHAPES = [
    (128, 10, torch.float32),
    (128, 100, torch.float32),
    (1024, 1000, torch.float32),
    (4096, 32768, torch.float32),
    (512, 128256, torch.float32),
    (512, 128256, torch.bfloat16),
]
LOSSES = [
    "ce",
    "focal",
    "mae",
    "rce",
    "gce",
    "sce",
    "tce",
    "aul",
    "agce",
    "ael",
    "imae",
    "truncated_gce",
    "nce",
    "smooth(ce)",
]
Form = Callable[[Tensor, Tensor], Tensor]


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


def measure(rows: int, classes: int, dtype: torch.dtype, rounds: int, names: list[str]) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(rows, classes, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(classes, (rows,), generator=generator)
    forms: dict[str, Form] = {"F.cross_entropy": F.cross_entropy, "public gce": public_gce, "public nce": public_nce}
    forms |= {name: pyrite.loss(name) for name in names}
    times = max(1, min(200, 3_000_000 // (rows * classes)))
    for form in forms.values():
        step(form, scores, labels)
    ratios: dict[str, list[float]] = {name: [] for name in forms}
    base = []
    for _ in range(rounds):
        taken = {name: seconds(form, scores, labels, times) for name, form in forms.items()}
        base.append(taken["F.cross_entropy"])
        for name in forms:
            ratios[name].append(taken[name] / taken["F.cross_entropy"])
    milliseconds = 1e3 * statistics.median(base)
    print(f"\n({rows}, {classes}) {str(dtype).removeprefix('torch.')}: cross entropy {milliseconds:.2f} ms")
    print(f"{'':18} {'time':>6} {'(range)':>13} {'memory':>7}")
    for name, form in forms.items():
        low, middle, high = min(ratios[name]), statistics.median(ratios[name]), max(ratios[name])
        memory = extra_memory(form, scores, labels)
        print(f"{name:18} {middle:6.2f} {f'{low:.2f}-{high:.2f}':>13} {memory:7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", help="shapes such as 1024x1000")
    parser.add_argument("--losses", nargs="*", default=LOSSES)
    parser.add_argument("--threads", type=int, help="threads torch may use; one is steadier on a busy machine")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    print(f"pyrite {pyrite.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for rows, classes, dtype in SHAPES:
        if not arguments.only or f"{rows}x{classes}" in arguments.only:
            measure(rows, classes, dtype, arguments.rounds, arguments.losses)


if __name__ == "__main__":
    main()
