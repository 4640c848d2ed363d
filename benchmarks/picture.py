"""The first picture of the README: curves of ``pyrite demo``, and label errors that an audit found in CIFAR-10N.

    pyrite demo --out demo
    PYRITE_DATA=data pyrite audit "cifar10n(column='aggre_label')" --features efficientnet_lite2 --out runs/cifar10n
    PYRITE_DATA=data python -m benchmarks.picture --demo demo --audit runs/cifar10n --out docs/demo.png

The images are the first one of each given class in the ranking; none is chosen by hand. The counts that are printed
refer to the original labels of CIFAR-10.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure, SubFigure

import pyrite
from pyrite.auditing import Audit
from pyrite.report.page import check_audit, draw_gain, suggested_labels
from pyrite.report.style import COLOURS, save

ROWS, COLUMNS = 2, 5


def first_of_each_class(audit: Audit) -> list[int]:
    """The highest-ranked row of each given class, in the order of the ranking."""
    first: dict[int, int] = {}
    for row in audit.ranking.tolist():
        first.setdefault(int(audit.labels[row]), row)
    return list(first.values())


def draw_suspects(figure: SubFigure, audit: Audit) -> None:
    """The most suspect label of each class as an image, with the given and the suggested class."""
    assert audit.run is not None
    images, suggested = audit.run.dataset().inputs, suggested_labels(audit)
    figure.suptitle(
        "The most suspect label of each class in CIFAR-10N", fontsize=13, fontweight="bold", x=0.01, ha="left"
    )
    for axes, row in zip(figure.subplots(ROWS, COLUMNS).flat, first_of_each_class(audit), strict=True):
        axes.imshow(np.asarray(images[audit.index[row]]).transpose(1, 2, 0), interpolation="bicubic")
        axes.set_axis_off()
        axes.set_title(audit.classes[audit.labels[row]], fontsize=11, color="#6B7280")
        axes.text(
            0.5, -0.04, audit.classes[suggested[row]], transform=axes.transAxes, ha="center", va="top", fontsize=11,
            color=COLOURS[1], fontweight="bold",
        )  # fmt: skip
    figure.supxlabel("above: the human label; below: the label that pyrite suggests", fontsize=11, x=0.01, ha="left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=Path("demo"))
    parser.add_argument("--audit", type=Path, default=Path("runs/cifar10n"))
    parser.add_argument("--out", type=Path, default=Path("docs/demo.png"))
    options = parser.parse_args()
    comparison, audit = pyrite.demo(options.demo).comparison, pyrite.audit(options.audit)
    figure = Figure(figsize=(11, 4.1), layout="constrained")
    curves, strip = figure.subfigures(1, 2, width_ratios=(4, 6.2))
    draw_gain(curves, comparison, {"test_accuracy": "Test accuracy, 40 % wrong labels"}, columns=2)
    draw_suspects(strip, audit)
    save(figure, options.out)
    check, first = check_audit(audit), first_of_each_class(audit)
    assert audit.true is not None
    wrong = audit.labels[first] != audit.true[first]
    fixed = suggested_labels(audit)[first] == audit.true[first]
    print(audit.sentence, *check.sentences, sep="\n")
    ranks = [int(np.flatnonzero(audit.ranking == row)[0]) + 1 for row in first]
    print(f"places in the ranking: {ranks}")
    print(f"{wrong.sum()} of the {len(first)} labels shown are wrong; {fixed.sum()} suggestions are right")


if __name__ == "__main__":
    main()
