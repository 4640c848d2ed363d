"""Deliberate faults, each put into a copy of the tree on its own: the tests must catch every one.

    python -m benchmarks.faults             tries what docs/results/faults.json does not hold yet
    python -m benchmarks.faults --again     tries all of them once more
    python -m benchmarks.faults --table     only writes the table of docs/testing.md anew

A fault is a file, a text that occurs in it exactly once, what stands there instead, and the tests that are run: those
of that part of the tree, so that a fault takes seconds. A fault is caught if a test fails.
"""

import argparse
import importlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "faults.json"
PAGE = ROOT / "docs" / "testing.md"
# What tests import and what takes long; nothing of the tree is among it.
PRELOADED = ("matplotlib.pyplot", "mpmath", "scipy.stats", "sklearn.datasets", "torch._dynamo")
BEGIN, END = "<!-- faults -->", "<!-- end of faults -->"


class Fault(NamedTuple):
    """``old`` in ``pyrite/file`` becomes ``new``; ``tests`` are files and folders in ``tests``, and options."""

    file: str
    old: str
    new: str
    tests: str


# The contract of losses without its two slowest tests.
QUICK = "contracts/test_losses.py -k 'not compiles and not second_order'"
METHODS = "contracts/test_methods.py"
STAGES = "methods/test_staged.py methods/test_joint.py"

FAULTS = [
    # The margin, and what a loss is
    Fault("soft_margin.py", "runner = _finite(others", "runner = _finite(x", "test_soft_margin.py"),
    Fault("soft_margin.py", "low >= 0 and high < classes", "low >= 0 and high <= classes", QUICK),
    Fault("soft_margin.py", "buffer.exp_().mul_(spread[here])", "buffer.exp_().mul_(spread)", QUICK),
    Fault("soft_margin.py", "if buffer.dtype != grad.dtype:", "if buffer.dtype == grad.dtype:", QUICK),
    Fault("soft_margin.py", "distance + (rows.shape[1] - 1) * delta", "distance + rows.shape[1] * delta", QUICK),
    Fault("criterion.py", "values = torch.where(batch.valid, values, 0.0)", "pass", QUICK),
    Fault("criterion.py", "and not batch.soft:\n        parts", "and batch.soft:\n        parts", QUICK),
    Fault("criterion.py", "(factor if own == 1 else factor * own, loss)", "(factor, loss)", "curves losses"),
    Fault("criterion.py", "<= 1e-9 * total.abs().max()", "<= 1e-1 * total.abs().max()", "curves/test_family.py"),
    Fault(
        "checks.py",
        "(most is None or value <= most)\n        and",
        "(most is None or value < most)\n        and",
        "test_checks.py",
    ),
    Fault("spec.py", "return -value", "return value", "test_spec.py"),
    Fault("draws.py", "bits >> np.uint64(11)) * 2.0**-53", "bits >> np.uint64(12)) * 2.0**-52", "test_draws.py"),
    Fault("draws.py", "CROP = (3,)", "CROP = (4,)", "test_draws.py"),
    Fault("files.py", "            os.fsync(file.fileno())\n", "", "test_files.py"),
    Fault(
        "files.py",
        "        with suppress(OSError):\n            part.unlink()\n        raise",
        "        raise",
        "test_files.py",
    ),
    Fault("pickles.py", "if not isinstance(key, str | bytes | int):", "if False:", "test_pickles.py"),
    # Curves and losses
    Fault(
        "curves/family.py",
        "above=0, most=1)\n        self.k",
        "above=0, most=2)\n        self.k",
        "curves/test_family.py",
    ),
    Fault(
        "curves/transforms.py",
        "return self._depth - self.tau",
        "return self._depth + self.tau",
        "curves/test_family.py",
    ),
    Fault(
        "curves/transforms.py",
        "self.curve.phi(self._by * margin) / self._by",
        "self.curve.phi(self._by * margin)",
        "contracts/test_losses.py -k 'weight'",
    ),
    Fault(
        "curves/curve.py",
        "weight >= float(weights[best]) * (1 - 1e-12)",
        "weight > 2 * float(weights[best])",
        "curves/test_family.py",
    ),
    Fault(
        "curves/curve.py",
        "torch.where(ends.isnan(), far, ends)",
        "torch.where(ends.isnan(), 0.0, ends)",
        "curves losses/test_ends.py",
    ),
    Fault(
        "losses/normalised.py",
        "gamma * (weight + epsilon * (1 - 1 / classes))",
        "gamma * (weight + epsilon / classes)",
        "losses/test_losses.py",
    ),
    Fault(
        "losses/regularised.py",
        "(rank + steps) % batch.valid.sum()",
        "(rank + 1) % batch.valid.sum()",
        "contracts/test_losses.py -k ignored",
    ),
    Fault(
        "losses/regularised.py",
        "own - self.beta / scores.shape[1] * total",
        "own - self.beta * total",
        "losses/test_losses.py",
    ),
    Fault("losses/ends.py", "return right > 0 or left < 0", "return right > 0", "losses/test_ends.py"),
    Fault(
        "losses/underfitting.py",
        "FAILS, SLOW, CURED = 0.05",
        "FAILS, SLOW, CURED = 0.01",
        "losses/test_underfitting.py",
    ),
    # Noise and data
    Fault("noise/class_noise.py", "self.rate / (classes - 1)", "self.rate / classes", "noise/test_models.py"),
    Fault("noise/model.py", 'side="right")])', 'side="left")])', "noise/test_models.py noise/test_corrupt.py"),
    Fault(
        "noise/model.py",
        "np.floor(np.round(wanted.sum(), 9) + 0.5)",
        "np.floor(np.round(wanted.sum(), 9))",
        "noise/test_models.py noise/test_corrupt.py",
    ),
    Fault("noise/instance.py", "chance[part[wrong]] / rate[wrong]", "chance[part[wrong]]", "noise/test_instance.py"),
    Fault("data/splits.py", "part_of == number", "part_of <= number", "data/test_splits.py"),
    Fault("data/batches.py", "min(self.rank, rest)", "0", "data/test_batches.py"),
    Fault("data/batches.py", "1 / (std * 255), -mean / std", "1 / (std * 255), -mean", "data/test_batches.py"),
    Fault("data/augment.py", "- cut + 1 for side", "- cut for side", "data/test_batches.py"),
    Fault("data/augment.py", "% 2 == epoch % 2", "% 2 == 0", "data/test_batches.py"),
    Fault("data/idx.py", "head[2] != UINT8 or", "", "data/test_idx.py"),
    # Nets
    Fault("models/residual.py", "2 if group else 1", "1 if group else 2", "models/test_counts.py models/test_nets.py"),
    Fault("models/bins.py", "(high - low).clamp(min=1e-6)", "(high - low)", "models/test_bins.py"),
    Fault(
        "models/whitening.py",
        "torch.cat([filters, -filters])",
        "torch.cat([filters, filters])",
        "models/test_whitening.py",
    ),
    # Diagnostics and audits
    Fault("diagnostics/calibration.py", 'predicted, side="left")', 'predicted, side="right")', "diagnostics"),
    Fault("diagnostics/accuracy.py", "value > self.best_on_test:", "value >= self.best_on_test:", "diagnostics"),
    Fault("diagnostics/detection.py", "(2 * below + np.diff(true, prepend=0))", "(2 * below)", "diagnostics"),
    Fault("diagnostics/retrieval.py", "same & ~no_match & usable", "same & usable", "diagnostics"),
    Fault("diagnostics/weighting.py", "_ratio(2 * self._sums", "_ratio(self._sums", "diagnostics"),
    Fault("diagnostics/class_margins.py", "held_out**2 * left", "held_out * left", "diagnostics"),
    Fault(
        "auditing/noise_model.py",
        "np.log(self.matrix).T[labels]",
        "np.log(self.matrix)[labels]",
        "auditing/test_noise_fit.py auditing/test_audit.py",
    ),
    Fault(
        "auditing/noise_fit.py",
        "(USUAL_SHARPNESS - sharpness) / USUAL_SHARPNESS**2",
        "(USUAL_SHARPNESS - sharpness)",
        "auditing/test_noise_fit.py",
    ),
    Fault(
        "auditing/noise_fit.py",
        "(folds != fold, folds == fold)",
        "(folds >= 0, folds == fold)",
        "auditing/test_noise_fit.py",
    ),
    Fault("auditing/gaps.py", "typical_gap(margins) / 4", "typical_gap(margins) / 2", "auditing/test_noise_rate.py"),
    Fault(
        "auditing/noise_fit.py",
        "sums.bias_slope + centre - bias",
        "sums.bias_slope - bias",
        "auditing/test_noise_fit.py",
    ),
    Fault(
        "auditing/noise_rate.py",
        "max(1 - remains / _REMAINS, 0.0)",
        "max(1 - remains, 0.0)",
        "auditing/test_noise_rate.py",
    ),
    Fault(
        "auditing/noise_model.py",
        "logs -= logsumexp(logs, axis=2, keepdims=True)",
        "logs -= logsumexp(logs)",
        "auditing/test_noise_fit.py",
    ),
    Fault(
        "auditing/noise_rate.py",
        "min(2 * _not_remaining(fit), 1.0)",
        "min(_not_remaining(fit), 1.0)",
        "auditing/test_noise_rate.py",
    ),
    Fault(
        "auditing/noise_rate.py",
        "if ties >= OVERLAP else np.inf",
        "if ties < OVERLAP else np.inf",
        "auditing/test_noise_rate.py",
    ),
    Fault(
        "auditing/troubles.py",
        "repeated += len(group) - kinds",
        "repeated += len(group) - 1",
        "auditing/test_troubles.py",
    ),
    # Methods
    Fault("methods/context.py", "torch.full_like(self.batches.labels, -1)", "self.batches.labels.clone()", METHODS),
    Fault(
        "methods/context.py",
        "number, self._made = self._made, self._made + 1",
        "number, self._made = self._made, self._made",
        "methods/test_co_teaching.py methods/test_staged.py",
    ),
    Fault(
        "methods/descent.py",
        "scores.amax(1).isfinite() & label.isfinite()",
        "scores.amax(1).isfinite() | label.isfinite()",
        "methods/test_erm.py",
    ),
    Fault("methods/descent.py", "value += summed.detach()", "value = summed.detach().double()", "methods/test_erm.py"),
    Fault("methods/learner.py", "if not norm.isfinite():", "if norm.isnan():", "methods/test_erm.py"),
    Fault("methods/memory.py", "rows.detach().clone()", "rows.detach()", "methods/test_joint.py methods/test_elr.py"),
    Fault("methods/staged.py", "epoch > self.ends[self.number]", "epoch >= self.ends[self.number]", STAGES),
    Fault("methods/staged.py", "(self.ends[self.number - 1] if self.number else 0)", "0", STAGES),
    Fault("methods/co_teaching.py", "reversed(chosen)", "chosen", "methods/test_co_teaching.py"),
    Fault("methods/co_teaching.py", "len(values) + 1e-9)", "len(values))", "methods/test_co_teaching.py"),
    Fault(
        "methods/elr.py", "+ self.coefficient * elr_penalty", "- self.coefficient * elr_penalty", "methods/test_elr.py"
    ),
    Fault("methods/elr.py", "(1 - self.momentum) * rest", "self.momentum * rest", "methods/test_elr.py"),
    Fault("methods/corrected.py", "predict), self.percentile)", "predict))", "methods/test_corrected.py"),
    Fault("methods/corrected.py", "if len(matrix) != context.classes:", "if False:", "methods/test_corrected.py"),
    Fault("methods/transition.py", "& (labels >= 0)", "& (labels > 0)", "methods/test_transition.py"),
    Fault("methods/noise_rate.py", "if means[0] < 0 else 0.0", "if True else 0.0", "methods/test_noise_rate.py"),
    Fault("methods/scheduled.py", "float(done > -1e-9)", "float(done > 0)", "methods/test_scheduled.py"),
    Fault(
        "methods/scheduled.py",
        'return {f"loss_{self.coefficient}": self.value}',
        "return {self.coefficient: self.value}",
        f"{METHODS} -k facts",
    ),
    # Training
    Fault("training/loop.py", "if not batches.position:", "if True:", f"{METHODS} -k resumed"),
    Fault("training/loop.py", "+ batches.position - 1", "", "training/test_loop.py"),
    Fault("training/folder.py", "return self.seconds + time", "return time", "training/test_resume.py -k 'not killed'"),
    Fault(
        "training/folder.py", "recorder.steps % every == 0", "recorder.steps % every == 1", "training/test_resume.py"
    ),
    Fault(
        "training/recorder.py",
        "step.loss * step.denominator",
        "step.loss",
        "training/test_train.py training/test_loop.py",
    ),
    Fault("training/recorder.py", "costs = 2 * torch", "costs = torch", "training/test_train.py training/test_loop.py"),
    Fault("training/assembly.py", "return 2 * accumulate if", "return 2 if", "training/test_train.py -k lone"),
    Fault("training/assembly.py", "drop_last=len(index) >= size", "drop_last=True", "methods/test_meta_weight.py"),
    Fault(
        "training/launch.py",
        "if began.get(name) != now.get(name):",
        "if False:",
        "cli/test_folders.py",
    ),
    Fault("training/launch.py", "if trained != plan.recipe:", "if False:", "comparing/test_comparison.py"),
    Fault("training/divergence.py", 'last["margin_size"] > FAR', "False", "training/test_divergence.py"),
    Fault("training/state.py", "_checksum(tree, tensors) != checksum", "False", "training/test_state.py"),
    # Training, estimator, comparison, search, command line
    Fault(
        "training/schedules.py", "min(1.0, (step + 1) / rise)", "min(1.0, step / rise)", "training/test_schedules.py"
    ),
    Fault("training/schedules.py", "now >= place", "now > place", "training/test_schedules.py"),
    Fault(
        "estimator/rows.py",
        "np.bincount(cell)[cell] >= _COMMON",
        "np.bincount(cell)[cell] > 0",
        "estimator/test_together.py",
    ),
    Fault(
        "tuning/space.py",
        'max(float(f"{value:.3g}"), float(self.low))',
        'float(f"{value:.3g}")',
        "tuning/test_space.py",
    ),
    Fault("processes.py", "variance.detach() * size / (size - 1)", "variance.detach()", "training/test_processes.py"),
]


def copy_tree(target: Path) -> None:
    for name in ("pyrite", "tests", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, target)


def try_fault(fault: Fault, tree: Path) -> dict[str, Any]:
    """Put the fault in, run its tests until one fails, and take it out again: then that one must pass."""
    path = tree / "pyrite" / fault.file
    whole = path.read_text(encoding="utf-8")
    if whole.count(fault.old) != 1:
        raise SystemExit(f"pyrite/{fault.file} does not hold {fault.old!r} exactly once: write the fault anew")
    start = time.perf_counter()
    path.write_text(whole.replace(fault.old, fault.new), encoding="utf-8")
    try:
        failed = first_failure(shlex.split(fault.tests), tree)
    finally:
        path.write_text(whole, encoding="utf-8")
    if failed and first_failure([failed], tree):
        raise SystemExit(f"{failed} fails without a fault too")
    caught = failed.partition("[")[0] if failed else None
    return {**fault._asdict(), "caught_by": caught, "seconds": round(time.perf_counter() - start, 1)}


def first_failure(words: list[str], tree: Path) -> str | None:
    """The first test that fails, of files, folders and tests in ``tests``; None if all pass.

    They run in a process forked from this one, which has imported what takes long but nothing of the tree.
    """
    tests = [f"tests/{word}" if (tree / "tests" / word.partition("::")[0]).exists() else word for word in words]
    output = tree / "output"
    child = os.fork()
    if not child:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[:] = [str(tree), *(path for path in sys.path if path and Path(path) != ROOT)]
        code = 3
        try:
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", output.read_text(), re.MULTILINE)
    if failed is None:
        raise SystemExit(output.read_text())
    return failed[1]


def table(results: list[dict[str, Any]]) -> str:
    """The faults and what caught them, as Markdown."""

    def code(text: str) -> str:
        shown = " ".join(text.split()).replace("|", "\\|")
        return f"`{shown}`" if shown else "(nothing)"

    caught = sum(result["caught_by"] is not None for result in results)
    head = f"{caught} of {len(results)} faults are caught.\n\n| file | instead of | stands | caught by |\n"
    rows = (
        f"| {result['file']} | {code(result['old'])} | {code(result['new'])} "
        f"| {code(result['caught_by']) if result['caught_by'] else '**nothing**'} |\n"
        for result in results
    )
    return head + "|---|---|---|---|\n" + "".join(rows)


def write_table(results: list[dict[str, Any]]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(f"{page[:start]}\n\n{table(results)}\n{page[end:]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="try every fault, whatever the results hold")
    parser.add_argument("--table", action="store_true", help="only write the table of docs/testing.md anew")
    options = parser.parse_args()
    for name in PRELOADED:
        importlib.import_module(name)
    sys.dont_write_bytecode = True
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() and not options.again else []
    results = {(result["file"], result["old"], result["new"]): result for result in known}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        if not options.table:
            copy_tree(tree)
        for fault in FAULTS:
            if (fault[:3] in results and results[fault[:3]]["caught_by"]) or options.table:
                continue
            result = results[fault[:3]] = try_fault(fault, tree)
            print(f"{result['caught_by'] or 'SURVIVED':60} {fault.file}: {fault.old!r} -> {fault.new!r}", flush=True)
            RESULTS.write_text(json.dumps([results[one[:3]] for one in FAULTS if one[:3] in results], indent=1) + "\n")
    write_table([results[fault[:3]] for fault in FAULTS if fault[:3] in results])


if __name__ == "__main__":
    main()
