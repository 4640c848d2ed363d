"""A small language model whose target words are partly wrong: cross entropy beside robust losses.

    python -m benchmarks.language --out runs/language [--minutes 9]
    python -m benchmarks.language --out runs/language --table [--json docs/results/language.json]

The text is that of the docstrings in Python's standard library, in lower case, as words and punctuation; every fifth
file is for testing. The net (Bengio et al., 2003) predicts a word from the four before it: embeddings of 32 numbers, a
hidden layer of 128 units, and a projection on the 500 most frequent words; all others are one input, and no target. In
the training part a target is replaced, with the noise rate as probability, by a word drawn uniformly. Inputs and test
part stay as they are. Adam makes the factor of a loss irrelevant. All losses have the same settings, and nothing was
tuned.

What ``pyrite check`` predicts of each loss is computed before training and kept beside the result. Each cell (loss,
rate, seed) is one line of ``cells.jsonl``: what is there is not computed again.
"""

import argparse
import ast
import json
import platform
import re
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor, nn

import pyrite
from pyrite.losses import underfitting

Cell = dict[str, Any]

CLASSES, CONTEXT = 500, 4
TOKENS, TESTED = 40_000, 10_000
EPOCHS, BATCH, RATE = 8, 256, 2e-3
SEEDS, NOISES = range(3), (0.0, 0.4)
LOSSES = (
    "ce",
    "gce(q=0.3)",
    "gce(q=0.7)",
    f"scale(gce(q=0.7), tau=3.56, classes={CLASSES})",
    "mae",
    f"scale(mae, tau=2.63, classes={CLASSES})",
    "imae(T=8)",
)


def files() -> list[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    skipped = {"test", "tests", "idlelib", "lib2to3", "site-packages", "__pycache__"}
    return sorted(path for path in library.rglob("*.py") if not skipped & set(path.relative_to(library).parts))


def docstrings(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        tree = ast.parse(path.read_bytes())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield text


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[.,:;()]", text.lower())


@cache
def parts() -> tuple[list[list[str]], list[list[str]]]:
    """The docstrings of the training and of the testing files, as words."""
    found: tuple[list[list[str]], list[list[str]]] = ([], [])
    for number, path in enumerate(files()):
        found[number % 5 == 4].extend(map(words, docstrings(path)))
    return found


def samples(texts: list[list[str]], number: dict[str, int], most: int, generator: torch.Generator) -> list[Tensor]:
    """Contexts and targets. Words without a number of their own have the last as inputs, and are no targets."""
    rows = []
    for text in texts:
        codes = [CLASSES] * CONTEXT + [number.get(word, CLASSES) for word in text]
        rows += [codes[start : start + CONTEXT + 1] for start in range(len(text)) if codes[start + CONTEXT] < CLASSES]
    chosen = torch.tensor(rows)[torch.randperm(len(rows), generator=generator)[:most]]
    return [chosen[:, :CONTEXT], chosen[:, CONTEXT]]


class Net(nn.Module):
    def __init__(self, loss: pyrite.Loss) -> None:
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(CLASSES + 1, 32), nn.Linear(32 * CONTEXT, 128)
        self.head = pyrite.LinearLoss(loss, hidden=128, classes=CLASSES)

    def features(self, context: Tensor) -> Tensor:
        return torch.relu(self.hidden(self.embedding(context).flatten(1)))


@torch.inference_mode()
def measured(net: Net, context: Tensor, target: Tensor) -> dict[str, float]:
    """Of targets: how many are predicted, are among the first five, and their mean probability."""
    scores = torch.cat([net.head.linear(net.features(rows)) for rows in context.split(4096)])
    five = scores.topk(5).indices == target.unsqueeze(1)
    own = scores.softmax(1).gather(1, target.unsqueeze(1))
    numbers = {"accuracy": five[:, 0], "among_five": five.any(1), "probability": own}
    return {name: float(value.double().mean()) for name, value in numbers.items()}


def train(spec: str, rate: float, seed: int) -> Cell:
    """One cell: what ``pyrite check`` predicts, then the results of a training."""
    check = underfitting(spec, CLASSES)
    start, draw = time.process_time(), torch.Generator().manual_seed(seed)
    texts, held_out = parts()
    frequent = Counter(word for text in texts for word in text).most_common(CLASSES)
    number = {word: code for code, (word, _) in enumerate(frequent)}
    context, target = samples(texts, number, TOKENS, draw)
    tests = samples(held_out, number, TESTED, draw)
    wrong = torch.rand(len(target), generator=draw) < rate
    given = torch.where(wrong, torch.randint(CLASSES, target.shape, generator=draw), target)
    wrong = given != target
    torch.manual_seed(seed)
    net = Net(pyrite.loss(spec))
    optimiser = torch.optim.Adam(net.parameters(), RATE)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(given), generator=draw).split(BATCH):
            optimiser.zero_grad()
            net.head(net.features(context[rows]), given[rows]).backward()
            optimiser.step()
    result = {"loss": spec, "rate": rate, "seed": seed, **measured(net, *tests)}
    if rate:
        result["memorised"] = measured(net, context[wrong], given[wrong])["accuracy"]
    predicted = {"verdict": check.verdict, "initial_weight": check.initial, "hard_weight": check.hard}
    return result | predicted | {"seconds": time.process_time() - start, "python": platform.python_version()}


def table(cells: list[Cell]) -> str:
    lines = ["| loss | `pyrite check` | wrong targets | accuracy | among five | mean p | wrong ones memorised |"]
    lines.append("|---|---|---|---|---|---|---|")
    for rate in NOISES:
        for spec in LOSSES:
            found = [cell for cell in cells if cell["loss"] == spec and cell["rate"] == rate]
            if not found:
                continue
            names = ("accuracy", "among_five", "probability", "memorised")
            shown = [spread([cell[name] for cell in found if name in cell]) for name in names]
            check = f"{found[0]['verdict']}, starts with {100 * found[0]['initial_weight']:.3g} %"
            lines.append(f"| `{spec}` | {check} | {rate:.0%} | {' | '.join(shown)} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    if not values:
        return ""
    return f"{100 * mean(values):.1f}" + (f" ± {100 * stdev(values):.1f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60, help="no cell is begun after this time")
    parser.add_argument("--table", action="store_true", help="print the results, and train nothing")
    parser.add_argument("--json", type=Path, help="where to write the cells")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, end = arguments.out / "cells.jsonl", time.monotonic() + 60 * arguments.minutes
    cells = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    torch.set_num_threads(1)
    for seed in () if arguments.table else SEEDS:
        for rate in NOISES:
            for spec in LOSSES:
                done = any((cell["loss"], cell["rate"], cell["seed"]) == (spec, rate, seed) for cell in cells)
                if not done and time.monotonic() < end:
                    cells.append(train(spec, rate, seed))
                    with path.open("a") as file:
                        file.write(json.dumps(cells[-1]) + "\n")
                    print(cells[-1], flush=True)
    print(table(cells))
    if arguments.json:
        arguments.json.write_text(json.dumps(cells, indent=1) + "\n")


if __name__ == "__main__":
    main()
