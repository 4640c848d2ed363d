"""The tables and pictures of ``benchmarks.audit``."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

__all__ = ["draw", "goals", "show"]

Line = dict[str, Any]


def show(lines: list[Line]) -> None:
    print("\n".join([*table(lines), "", *goals(lines)]))


def table(lines: list[Line]) -> Iterator[str]:
    """One row per set, size and model: means over the seeds; rates in per cent."""
    ours = "right | wrong | found | interval | AUROC | AP | F1 | best F1 | 90 % said"
    yield f"| set | size | model | {ours} | cleanlab: found | AP | F1 |"
    yield "|---|--:|---|" + "--:|" * 12
    for key in dict.fromkeys((line["set"], line["size"], line["model"]) for line in lines):
        held = [line for line in lines if (line["set"], line["size"], line["model"]) == key]
        ours, theirs = [line["pyrite"] for line in held], [line["cleanlab"] for line in held]
        low, high = (100 * mean(line[end] for line in ours) for end in ("low", "high"))
        columns = [
            percent([line["accuracy"] for line in held]),
            percent([line["true"] for line in ours]),
            percent([line["rate"] for line in ours]),
            f"{low:.0f} to {high:.0f}" if np.isfinite(low) else "",
            *(share(ours, name) for name in ("auroc", "ap", "f1", "best_f1")),
            top_bin(ours),
            percent([line["rate"] for line in theirs if "rate" in line]),
            share(theirs, "ap"),
            share(theirs, "f1"),
        ]
        yield f"| {key[0]} | {key[1]:,} | {key[2]} | {' | '.join(columns)} |"


def percent(values: list[float]) -> str:
    return f"{100 * mean(values):.1f}" if values and np.isfinite(values).all() else ""


def share(lines: list[Line], name: str) -> str:
    values = [line[name] for line in lines if name in line]
    return f"{mean(values):.3f}".removeprefix("0") if values else ""


def top_bin(lines: list[Line]) -> str:
    """The share of wrong labels among those that are called wrong with 90 % or more."""
    count = sum(line["count"][-1] for line in lines if "count" in line)
    return f"{100 * sum(line['was'][-1] for line in lines if 'was' in line) / count:.0f}" if count else ""


def goals(lines: list[Line]) -> Iterator[str]:
    """In how many cells each goal is met."""

    def met(name: str, some: list[Line], good: Callable[[Line], bool]) -> str:
        return (
            f"- {name}: {sum(map(good, some))} of {len(some)} ({100 * sum(map(good, some)) / max(1, len(some)):.0f} %)"
        )

    told = [line for line in lines if line["pyrite"]["can_tell"]]
    noisy = [line for line in told if line["pyrite"]["true"] > 0]
    clean = [line for line in told if line["pyrite"]["true"] == 0]
    ours: Callable[[Line], Line] = lambda line: line["pyrite"]  # noqa: E731
    yield met("an answer", lines, lambda line: ours(line)["can_tell"])
    yield met(
        "rate within 3 points (5 with labels by people)",
        told,
        lambda line: abs(ours(line)["rate"] - ours(line)["true"]) <= (0.05 if line["people"] else 0.03),
    )
    yield met(
        "interval contains the rate", told, lambda line: ours(line)["low"] <= ours(line)["true"] <= ours(line)["high"]
    )
    yield met(
        "no noise: rate below 5 %, 0 in the interval",
        clean,
        lambda line: ours(line)["rate"] < 0.05 and not ours(line)["low"],
    )
    yield met("F1 within .02 of the best", noisy, lambda line: ours(line)["f1"] >= ours(line)["best_f1"] - 0.02)
    both = [line for line in noisy if "ap" in line["cleanlab"]]
    yield met(
        "average precision at most .005 below the better score of cleanlab",
        both,
        lambda line: ours(line)["ap"] >= line["cleanlab"]["ap"] - 0.005,
    )
    yield met(
        "rate nearer than cleanlab's",
        both,
        lambda line: abs(ours(line)["rate"] - ours(line)["true"]) < abs(line["cleanlab"]["rate"] - ours(line)["true"]),
    )


def draw(lines: list[Line], folder: Path) -> None:
    """The rate found against the true one with its interval, and how often what is called wrong is wrong."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    rates, calibration = figure.subplots(1, 2)
    told = [line for line in lines if line["pyrite"]["can_tell"] and line["model"] != "two models"]
    for people, colour, words in ((False, "tab:blue", "made noise, or none"), (True, "tab:red", "labels by people")):
        some = [line["pyrite"] for line in told if line["people"] == people]
        true, found = (np.array([100 * line[name] for line in some]) for name in ("true", "rate"))
        low, high = (np.array([100 * line[name] for line in some]) for name in ("low", "high"))
        ends = np.maximum([found - low, high - found], 0)
        rates.errorbar(true, found, ends, fmt="o", ms=3, lw=0.5, alpha=0.6, color=colour, label=words)
    rates.plot([0, 50], [0, 50], color="grey", lw=1)
    rates.set(xlabel="wrong labels, %", ylabel="found, % (lines: interval)", xlim=(-1, 50), ylim=(-1, 70))
    rates.legend(loc="upper left")
    said, was, count = (np.sum([line["pyrite"][name] for line in told], 0) for name in ("said", "was", "count"))
    calibration.plot([0, 1], [0, 1], color="grey", lw=1)
    calibration.plot(said / np.maximum(count, 1), was / np.maximum(count, 1), "o-", color="tab:blue")
    calibration.set(
        xlabel="probability of being wrong, as said", ylabel="share that is wrong", xlim=(0, 1), ylim=(0, 1)
    )
    figure.savefig(folder / "audit-rates.png", dpi=110)
