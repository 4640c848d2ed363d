"""``pyrite predict``: the classes of new samples, by the model of a run."""

from pathlib import Path
from typing import Annotated

import typer

from pyrite.cli.terminal import AsJson, RunPath, echo, keep_input, print_json, warn
from pyrite.text_tables import counted


def predict(
    run: RunPath,
    data: Annotated[str, typer.Argument(help="A folder, a file or a data set; labels are not needed.")],
    out: Annotated[Path, typer.Option(help="The table to write.")] = Path("predictions.csv"),
    name: Annotated[str, typer.Option(help="The column of a table that identifies a sample.")] = "",
    as_json: AsJson = False,
) -> None:
    """Predict the classes of new samples with the model of a run."""
    from pyrite.training import Run

    keep_input(data, out)
    found = Run.load(run).predict(data, name=name)
    path = found.to_csv(out)
    if found.unreadable:
        first = found.unreadable[0]
        warn(f"skipped {counted(len(found.unreadable), 'unreadable file')}; the first: {first.reason}")
    for sentence in found.notes:
        warn(sentence)
    counts = found.counts()
    if as_json:
        print_json({"samples": len(found), "counts": counts, "written": str(path)})
        return
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:10]
    echo(f"{len(found):,} samples: " + ", ".join(f"{label} ({count:,})" for label, count in most if count))
    echo(f"wrote {path}")
