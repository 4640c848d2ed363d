"""Four questions that the papers leave open, on 5,000 small images: docs/open-questions.md has the answers.

    python -m benchmarks.open_questions [contrast outsiders mixup filter] [--seeds 3]    # needs the data (PYRITE_DATA)

``contrast``: the exponential of IMAE for other losses. ``outsiders``: images of four further classes, with random
labels. ``mixup``: losses on mixtures of two samples. ``filter``: training on the samples that the weights of RMNW-Net
keep. Finished runs are kept in docs/results/open_questions.json and not made again; the figures, and the tables of the
page, are written anew.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from matplotlib.figure import Figure

import pyrite
from pyrite.comparing import mean_and_deviation
from pyrite.data import Batch, Dataset, load
from pyrite.draws import Stream, uniforms
from pyrite.files import write
from pyrite.methods import ERM
from pyrite.methods.mixed_pair import larger_part
from pyrite.report.style import COLOURS, save
from pyrite.text_tables import Table

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = DOCS / "results" / "open_questions.json"
SETS = {"MNIST": "reduced(mnist, size=14, test=2000)", "Fashion-MNIST": "reduced(fashion_mnist, size=14, test=2000)"}
LOSSES = {"CE": "ce", "GCE": "gce(q=0.7)", "MAE": "mae", "IMAE": "imae(T=8)"}
SAMPLES, INSIDE, RIGHT = 5000, 6, 3000  # INSIDE classes and RIGHT labels in the question of outsiders
Numbers = dict[str, float]


class Exponential(pyrite.Curve):
    """The weight exp(T u / 4) / 2 of a curve with the weight u at unit maximum: of the absolute error it is IMAE."""

    def __init__(self, loss: str, T: float = 8) -> None:  # noqa: N803
        super().__init__()
        self.unit, self.T = cast(pyrite.Curve, pyrite.loss(f"unit({loss})")), T
        self.at = torch.linspace(-60, 60, 24_001, dtype=torch.float64)
        self.value = -torch.cat([torch.zeros(1), torch.cumulative_trapezoid(self.w(self.at), self.at)])

    def phi(self, margin: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.interp(margin.detach(), self.at, self.value)).to(margin)

    def w(self, margin: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.T / 4 * self.unit.weight_at(margin)) / 2


class Mixup(pyrite.Method):
    """A loss on mixtures of two samples: the losses under both labels, weighted by the fractions of the samples."""

    def __init__(self, loss: Any = "ce", alpha: float = 1.0) -> None:
        self.loss, self.alpha = pyrite.loss(loss), alpha
        plain = ERM(self.loss)  # whose learning rate and clipping it has
        self.largest_weight, self.needs_clipping = plain.largest_weight, plain.needs_clipping

    def start(self, context: Any) -> pyrite.Trainer:
        return MixupTrainer(self, context)


class MixupTrainer(pyrite.Trainer):
    """Draws one fraction from Beta(alpha, alpha) and one order of the partners per batch."""

    def __init__(self, method: Mixup, context: Any) -> None:
        super().__init__(context, method.loss)
        self.alpha = method.alpha

    def passes(self, net: Any, batch: Batch, scorer: Any = None) -> Iterator[Any]:
        drawn = uniforms(self.context.seed, Stream.MIXUP, 1 + len(batch.labels), net.steps)
        self.fraction, partner = larger_part(drawn[0], self.alpha), torch.from_numpy(drawn[1:].argsort(kind="stable"))
        self.partners = batch.labels[partner]
        inputs = torch.lerp(batch.inputs[partner], batch.inputs, self.fraction)
        yield from super().passes(net, batch._replace(inputs=inputs), scorer)

    def losses(self, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        return torch.lerp(self.loss(scores, self.partners), self.loss(scores, batch.labels), self.fraction)


@cache
def source(name: str) -> Dataset:
    return load(SETS[name])


def some(data: Dataset, rows: Any, given: Any) -> Dataset:
    """Some of the samples, with other labels; their own ones are the true ones."""
    return replace(data, inputs=data.numeric[rows], labels=given, true=data.labels[rows])


def trained(data: Dataset, spec: Any, seed: int) -> tuple[Numbers, pyrite.Run]:
    """The last model of a perceptron after 40 epochs with the library's settings for the method."""
    with TemporaryDirectory() as folder:
        kind = "loss" if isinstance(spec, pyrite.Curve) else "method"
        options: Any = {kind: spec, "model": "mlp", "epochs": 40, "seed": seed, "keep": "last"}
        run = pyrite.train(data, out=folder, progress=False, **options)
        run.samples, run.model  # noqa: B018  (read before the folder is gone)
        known = {"accuracy": "final_test_accuracy", "wrong": "final_memorised", "right": "final_clean_accuracy"}
        return {name: run.table[key] for name, key in known.items() if run.table.get(key) is not None}, run


def outsiders(name: str, kind: str, seed: int) -> dict[str, Numbers]:
    """Beside images of six classes with right labels, images of the four others, or of the six with wrong labels."""
    data, draw = source(name), np.random.default_rng(seed)
    own, other = (draw.permutation(np.flatnonzero(rows)) for rows in (data.labels < INSIDE, data.labels >= INSIDE))
    added = {"none": own[:0], "outsiders": other, "wrong labels": own[RIGHT:]}[kind][: SAMPLES - RIGHT]
    wrong = (data.labels[added] + draw.integers(1, INSIDE, len(added))) % INSIDE
    given = draw.integers(INSIDE, size=len(added)) if kind == "outsiders" else wrong
    rows = np.concatenate([own[:RIGHT], added])
    mixed = replace(
        data, inputs=data.numeric[rows], labels=np.concatenate([data.labels[rows[:RIGHT]], given]),
        classes=data.classes[:INSIDE], test=load(SETS[name].replace("test=", f"classes={INSIDE}, test=")).test,
    )  # fmt: skip
    found = {}
    for method, loss in LOSSES.items():
        numbers, run = trained(mixed, f"erm({loss})", seed)
        follows = run.scores(mixed.inputs).argmax(1) == mixed.labels
        numbers |= {"right": float(follows[:RIGHT].mean())}
        found[method] = numbers | ({"wrong": float(follows[RIGHT:].mean())} if len(added) else {})
    return found


def noisy(name: str, noise: str, seed: int) -> Dataset:
    data = source(name)
    rows = np.random.default_rng(seed).permutation(len(data))[:SAMPLES]
    return some(data, rows, pyrite.corrupt(data.labels[rows], noise, len(data.classes), seed).given)


def losses(name: str, noise: str, seed: int) -> dict[str, Numbers]:
    """Losses on samples, on mixtures of them, and their exponentials."""
    data = noisy(name, noise, seed)
    methods: dict[str, Any] = {loss: f"erm({spec})" for loss, spec in LOSSES.items()}
    methods |= {f"{loss} + mixup": Mixup(spec) for loss, spec in LOSSES.items()}
    methods |= {f"exp {loss}": Exponential(LOSSES[loss]) for loss in ("CE", "GCE")}
    return {method: trained(data, spec, seed)[0] for method, spec in methods.items()}


def filtered(name: str, noise: str, seed: int) -> dict[str, Numbers]:
    """Training again on the samples that the weights of RMNW-Net, or an audit, keep."""
    data = noisy(name, noise, seed)
    found = {"CE": trained(data, "erm(ce)", seed)[0]}
    found["RMNW-Net"], run = trained(data, "meta_weight(mae, size=200, lr=1.0)", seed)
    weights = run.samples["last_trust"]  # nan for the meta samples, which are left out
    kept = {
        "CE, kept by RMNW-Net": weights > threshold(weights[~np.isnan(weights)]),
        "CE, right labels only": data.labels == data.true,
    }
    with TemporaryDirectory() as folder:
        suspects = pyrite.audit(pyrite.train(data, model="mlp", epochs=40, seed=seed, out=folder, progress=False))
    kept["CE, kept by an audit"] = ~suspects.is_suspect
    for method, chosen in kept.items():
        rows = np.flatnonzero(chosen)
        again = replace(data, inputs=data.numeric[rows], labels=data.labels[rows], true=data.true[rows])
        found[method] = trained(again, "erm(ce)", seed)[0] | {"kept": float(chosen.mean())}
        found[method]["left"] = float((again.labels != again.true).mean())
    return found


def threshold(values: Any) -> float:
    """Where the variance between the values below and those above is largest (Otsu, 1979).

    >>> threshold(np.array([0.1, 0.8, 0.2, 0.9]))
    0.5
    """
    ordered = np.sort(values)
    count, total = np.arange(1, len(ordered)), ordered.cumsum()
    below, above = total[:-1] / count, (total[-1] - total[:-1]) / (len(ordered) - count)
    place = int((count * (len(ordered) - count) * (above - below) ** 2).argmax())
    return float(ordered[place : place + 2].mean())


class Question(NamedTuple):
    """What answers a question, under which conditions, of which methods, and which numbers the table shows."""

    measure: Callable[[str, str, int], dict[str, Numbers]]
    conditions: tuple[str, ...]
    methods: tuple[str, ...]
    shown: Mapping[str, str]


WRONG = {"accuracy": "test", "wrong": "wrong labels fitted"}
QUESTIONS = {
    "contrast": Question(losses, ("clean", "symmetric(0.4)"), ("MAE", "IMAE", "CE", "exp CE", "GCE", "exp GCE"), WRONG),
    "outsiders": Question(outsiders, ("none", "outsiders", "wrong labels"), tuple(LOSSES), WRONG),
    "mixup": Question(
        losses, ("clean", "symmetric(0.4)"), tuple(f"{a}{b}" for a in LOSSES for b in ("", " + mixup")), WRONG
    ),
    "filter": Question(
        filtered, ("uniform(0.4)", "flip2(0.4)"),
        ("CE", "RMNW-Net", "CE, kept by RMNW-Net", "CE, kept by an audit", "CE, right labels only"),
        {"accuracy": "test", "kept": "kept", "left": "wrong labels left"},
    ),
}  # fmt: skip


Found = Mapping[tuple[str, str], Mapping[str, list[Numbers]]]


def collected(question: Question, results: Mapping[str, Any], seeds: int) -> Found:
    """The numbers of every method, one per seed, by set and condition."""
    return {
        (name, condition): {
            method: [results[key(question, name, condition, seed)][method] for seed in range(seeds)]
            for method in question.methods
        }
        for name, condition in product(SETS, question.conditions)
    }


def key(question: Question, name: str, condition: str, seed: int) -> str:
    return f"{question.measure.__name__}, {name}, {condition}, seed {seed}"


def tabulated(question: Question, found: Found) -> Table:
    """A row per set and method; the columns are the numbers under each condition, mean ± deviation in per cent."""
    headings = [f"{condition}: {words}" for condition in question.conditions for words in question.shown.values()]
    rows = []
    for name, method in product(SETS, question.methods):
        cells = [name, method]
        for condition, column in product(question.conditions, question.shown):
            values = [numbers[column] for numbers in found[name, condition][method] if column in numbers]
            cells.append(mean_and_deviation(values, lambda value: f"{100 * value:.1f}") if values else "")
        rows.append(tuple(cells))
    used = [place for place in range(len(headings) + 2) if any(row[place] for row in rows)]
    return Table(
        tuple(["set", "method", *headings][place] for place in used),
        tuple(tuple(row[place] for place in used) for row in rows),
    )


def drawn(question: Question, found: Found) -> Figure:
    """Test accuracy: a panel per set, a group of bars per condition; the thin line is the standard deviation."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    methods = question.methods
    plain = [method.partition(" + ")[0].removeprefix("exp ") for method in methods]  # whose colour it has, paler
    places = {name: place for place, name in enumerate(dict.fromkeys(plain))}
    for panel, name in zip(figure.subplots(1, len(SETS), sharey=True), SETS, strict=True):
        for number, method in enumerate(methods):
            values = [
                [100 * one["accuracy"] for one in found[name, condition][method]] for condition in question.conditions
            ]
            where = np.arange(len(values)) + (number - (len(methods) - 1) / 2) * 0.84 / len(methods)
            panel.bar(
                where, [np.mean(one) for one in values], 0.8 / len(methods), color=COLOURS[places[plain[number]]],
                alpha=1.0 if method == plain[number] else 0.5,
                yerr=[np.std(one, ddof=1) if len(one) > 1 else 0 for one in values], label=method,
            )  # fmt: skip
        panel.set_xticks(range(len(question.conditions)), question.conditions)
        panel.set(title=name, ylim=(0, 100))
    figure.axes[0].set_ylabel("test accuracy, %")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def main() -> None:
    """Measure what is missing, and write tables and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", help=f"of {', '.join(QUESTIONS)}; all by default")
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    if unknown := set(chosen.questions) - set(QUESTIONS):
        parser.error(f"there is no question {', '.join(unknown)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in chosen.questions or QUESTIONS:
        question = QUESTIONS[name]
        for data, condition, seed in product(SETS, question.conditions, range(chosen.seeds)):
            this = key(question, data, condition, seed)
            if this not in results:
                results[this] = question.measure(data, condition, seed)
                write(RESULTS, (json.dumps(results, indent=1) + "\n").encode())
                print(this, flush=True)
        found = collected(question, results, chosen.seeds)
        save(drawn(question, found), DOCS / "results" / "figures" / f"open_{name}.png")
        page, begin, end = DOCS / "open-questions.md", f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        if begin in (text := page.read_text()):
            before, after = text.split(begin)[0], text.split(end)[1]
            page.write_text(f"{before}{begin}\n{tabulated(question, found).to_markdown()}\n{end}{after}")


if __name__ == "__main__":
    main()
