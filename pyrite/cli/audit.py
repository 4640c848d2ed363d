"""``pyrite audit``: which labels are wrong, as a ranking, a summary and a page to look at."""

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from pyrite.cli.terminal import AsJson, echo, failures, is_first, keep_input, print_json, warn, with_settings
from pyrite.errors import PyriteError
from pyrite.text_tables import counted

_SHOWN = 5  # annotators, and samples to label once more
_OWN = "Scores of your own model, in place of DATA"

if TYPE_CHECKING:
    from pyrite.auditing import Audit
    from pyrite.settings import Settings


@with_settings(defaults=False)
def audit(
    data: Annotated[
        str | None,
        typer.Argument(help="A folder, a file, a run directory, or the name of a data set; see 'pyrite list data'."),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(
            help="Out-of-sample scores: a .npy, .csv or .parquet file, or shards such as 'scores-*.npy'. Repeat the "
            "flag for several models.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Given labels: a .npy, .txt, .csv or .parquet file. --label selects a column of a table, or one per "
            "annotator.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Kind of the scores: logits, probabilities or log-probabilities.", rich_help_panel=_OWN),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Embeddings of the samples, from which a nearest-neighbour model computes further scores: a .npy file "
            "with one row per sample.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Class names in the order of the scores, or the columns to read, such as cat,dog,emu.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    samples_of: Annotated[
        str | None,
        typer.Option("--data", help="Samples to show on the review page: a table or a folder.", rich_help_panel=_OWN),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler whose workers read the shards, such as tcp://host:8786.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    metadata: Annotated[
        Path | None,
        typer.Option(help="A table with further columns of the samples, to search for groups with many wrong labels."),
    ] = None,
    reviewed: Annotated[
        Path | None,
        typer.Option(help="Decisions of the review page or of Label Studio, to recalibrate the audit."),
    ] = None,
    label_studio: Annotated[
        bool,
        typer.Option(
            "--label-studio", help="Also write the suspects as tasks for Label Studio.", rich_help_panel="Running"
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder; by default the run directory, or 'audit' with --scores."),
    ] = None,
    as_json: AsJson = False,
    **options: "Unpack[Settings]",
) -> None:
    """Find wrong labels: rank all labels, list the suspects and write a review page."""
    if data is not None and scores:
        raise PyriteError("DATA and --scores exclude each other: to show samples on the review page, pass --data")
    if data is None and not scores:
        raise PyriteError("nothing to audit: pass DATA, a run directory, or --scores with --labels and --kind")
    if reviewed is not None:
        from pyrite.data.corrections import read_content

        read_content(reviewed)  # a missing file is better known before training than after it
    if dask is not None and not scores:
        raise PyriteError("--dask requires --scores: it distributes only the audit of scores in shards")
    own = {"labels": labels, "kind": kind, "embeddings": embeddings, "classes": classes, "data": samples_of}
    if scores:
        for path in (*scores, *filter(None, (labels, embeddings, metadata, samples_of))):
            keep_input(str(path), (out or Path("audit")) / "suspects.csv")
        result, folder = _of_scores(scores, own, metadata, dask, options), out or Path("audit")
    else:
        for name, value in own.items():
            if value is not None:
                hint = "; --label names the label column of a table" if name == "labels" else ""
                flag = f"--{name}"
                raise PyriteError(f"{flag} requires --scores, in place of {data}: omit {flag}{hint}")
        result, folder = _of_data(str(data), out, metadata, options, quiet=as_json)
    if not is_first():
        return
    from pyrite.files import one_at_a_time
    from pyrite.report.audit_page import write_audit_page

    result = result if reviewed is None else result.reviewed(reviewed)
    with one_at_a_time(folder):
        result.to_csv(folder / "suspects.csv")
        result.to_json(folder / "audit.json")
        write_audit_page(result, folder / "report.html")
        if label_studio:
            from pyrite.integrations import write_label_studio

            write_label_studio(result, folder / "label_studio.json")
    print_json(result.summary() | {"folder": str(folder)}) if as_json else _print(result, folder)


def _of_data(
    data: str, out: Path | None, metadata: Path | None, options: "Settings", quiet: bool
) -> tuple["Audit", Path]:
    from pyrite.run_audits import audit as find_wrong_labels

    is_run = os.path.isfile(os.path.join(data, "recipe.toml"))
    with failures():
        result = find_wrong_labels(
            data, out=None if is_run else out, progress=not quiet, metadata=metadata, **options
        )  # fmt: skip
    assert result.run is not None
    return result, out if is_run and out is not None else result.run.path


def _of_scores(
    scores: list[Path], own: dict[str, Any], metadata: Path | None, dask: str | None, options: "Settings"
) -> "Audit":
    for name, hint in (("labels", ""), ("kind", " logits, probabilities or log-probabilities")):
        if own[name] is None:
            raise PyriteError(f"--scores requires --{name}{hint}")
    from pyrite.auditing import named_scores
    from pyrite.run_audits import audit as find_wrong_labels

    column = str(options.pop("label", None) or "")
    tables = [_scores(path, column if path.resolve() == own["labels"].resolve() else "") for path in scores]
    classes = None if own["classes"] is None else [name.strip() for name in own["classes"].split(",")]
    if dask is not None:
        if not hasattr(tables[0], "to_dask"):
            raise PyriteError(f"--dask requires shards, such as 'scores-*.npy', but --scores is {scores[0]}")
        _connect(dask)
        chosen, named = named_scores(tables[0], classes)
        classes = None if named is None else list(named)
        tables[0] = chosen.to_dask()  # type: ignore[attr-defined]
    labels = _labels(own["labels"], column)
    try:
        return find_wrong_labels(
            labels, scores=tables[0] if len(tables) == 1 else tables, kind=own["kind"],
            embeddings=None if own["embeddings"] is None else _array(own["embeddings"]), classes=classes,
            data=own["data"], metadata=metadata, **options,
        )  # fmt: skip
    except PyriteError as error:
        if column or labels.ndim == 1:
            raise
        hint = f"without --label, all {labels.shape[1]} columns of {own['labels']} are read as labels"
        raise PyriteError(f"{error}; {hint}") from None


def _connect(address: str) -> None:
    """Have Dask compute on this cluster until the program ends."""
    try:
        from distributed import Client
    except ImportError:
        raise PyriteError("Dask is not installed: pip install 'pyrite-labels[scale]'") from None
    try:
        Client(address, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise PyriteError(f"no Dask scheduler answers at {address!r}: {str(error).splitlines()[0]}") from None


def _scores(path: Path, label: str) -> Any:
    """The scores in a .npy file, or a table without the column of labels."""
    from pyrite.auditing import open_shards
    from pyrite.data import table_of

    if (shards := open_shards(path)) is not None:
        return shards
    table = table_of(path)
    return _array(path) if table is None else table.frame.drop(columns=label, errors="ignore")


def _array(path: Path) -> Any:
    """The numbers of a .npy file, memory-mapped, because they may be larger than memory."""
    import numpy as np

    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise PyriteError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _labels(path: Path, column: str) -> Any:
    """Class numbers or names: a .npy file, a text file with one per line, or a table with a column per annotator."""
    import numpy as np
    from pandas import DataFrame

    from pyrite.data import table_of

    if path.suffix == ".npy":
        return np.asarray(_array(path))
    table = table_of(path)
    if table is None:
        try:
            return np.array(path.read_text(encoding="utf-8").splitlines(), object)
        except (OSError, ValueError) as error:
            raise PyriteError(
                f"cannot read {path}: labels must be a table, a .npy file or lines of text ({error})"
            ) from None
    names = [name.strip() for name in column.split(",")] if column else table.names
    for name in names:
        table.check_column(name)
    cells = DataFrame({name: table.texts(name) for name in names})
    return cells if len(names) > 1 else cells[names[0]].to_numpy(object)


def _print(result: "Audit", folder: Path) -> None:
    echo(f"{result.sentence[0].upper()}{result.sentence[1:]}.")
    for name, by in islice(result.annotators.items(), _SHOWN):
        low, high = by.interval
        wrong = f"{100 * by.rate:.1f} % ({100 * low:.0f} to {100 * high:.0f} %)"
        echo(f"  {name}: {wrong} of {counted(by.labels, 'label')} are wrong")
    if len(result.annotators) > _SHOWN:
        echo(f"  and {len(result.annotators) - _SHOWN:,} more annotators, in audit.json")
    if result.annotators:
        named = [result.paths[row] if result.paths else str(result.index[row]) for row in result.label_next[:_SHOWN]]
        echo(f"The most useful samples to label once more: {', '.join(named)}.")
    for one in result.slices[1:]:  # the sentence has the first
        echo(f"  also where {one.sentence}")
    if result.advice:
        echo(f"{result.advice[0].upper()}{result.advice[1:]}.")
    if result.review is not None and result.can_tell:
        echo(f"{result.review.sentence}.")
    if result.can_tell and not result.is_suspect.any():
        echo("There are no suspects.")
    elif result.can_tell:
        number = counted(result.is_suspect.sum(), "suspect")
        echo(f"{number}, each at least {100 * result.threshold:.0f} % likely to be wrong:")
        names = result.classes
        done = set() if result.review is None else set(result.review.rows.tolist())
        rows = (row for row in result.ranking.tolist() if result.is_suspect[row] and row not in done)
        for row in islice(rows, 5):
            where = result.paths[row] if result.paths else f"sample {result.index[row]}"
            # The given label of a suspect may still be the likeliest class.
            other = next(choice for choice in result.choices[row] if choice != result.labels[row])
            given, better = names[result.labels[row]], names[other]
            percent = 100 * result.wrong_probability[row]
            echo(f"  {where}: given {given}, suggested {better} ({percent:.1f} % likely wrong)")
    for warning in result.warnings:
        warn(warning)
    echo(f"wrote {folder / 'suspects.csv'}, audit.json and the review page:")
    echo(f"{folder / 'report.html'}")
