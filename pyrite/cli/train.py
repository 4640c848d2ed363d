"""``pyrite train``: train on labels that are partly wrong, and leave a run directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from pyrite.cli.terminal import AsJson, echo, failures, is_first, print_json, print_table, warn, with_settings
from pyrite.settings import SETTINGS
from pyrite.text_tables import counted

if TYPE_CHECKING:
    from pyrite.settings import Settings
    from pyrite.training import Run


@with_settings()
def train(
    data: Annotated[str | None, typer.Argument(help=SETTINGS["data"].help)] = None,
    out: Annotated[Path | None, typer.Option(help="The run directory; a new one by default.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this directory.")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.", rich_help_panel="Running")
    ] = False,
    as_json: AsJson = False,
    **options: "Unpack[Settings]",
) -> None:
    """Train a model on partly wrong labels."""
    from pyrite.training import Observer, given_settings, train as train_run

    observers: list[Observer] = []
    if tensorboard:
        from pyrite.integrations import TensorBoard

        observers.append(TensorBoard())
    with failures():
        given = given_settings(options) if resume is None else {}
        if given.get("drop_suspects") and not given.get("corrections"):  # nothing names the suspects yet
            from pyrite.without_suspects import train_without_suspects

            run = train_without_suspects(
                data, out=out, observers=observers, progress=not as_json,
                audited=lambda audit: echo(audit.sentence, err=as_json), **options,
            )  # fmt: skip
        else:
            run = train_run(data, out=out, resume=resume, observers=observers, progress=not as_json, **options)
    if is_first() and as_json:
        names = ("saved", "corrected", "dropped", "warnings", "unreadable")
        facts = {name: run.facts[name] for name in names if name in run.facts}
        print_json({"run": str(run.path), **run.table, **facts})
    elif is_first():
        _print(run)


def _print(run: "Run") -> None:
    if run.results.rows:
        print_table((), run.results.rows)
    if "dropped" in run.facts:
        corrected, dropped = counted(run.facts["corrected"], "label"), counted(run.facts["dropped"], "sample")
        echo(f"corrected {corrected}, dropped {dropped}")
    if unreadable := run.facts["unreadable"]:
        reason = next(iter(unreadable.values()))
        echo(f"skipped {counted(len(unreadable), 'unreadable image')}; the first: {reason}", err=True)
    for sentence in (*run.facts["notes"], *run.facts["warnings"]):
        warn(sentence)
    last, method = run.history[-1] if run.history else {}, run.config.method
    if str(method).startswith("self_corrected") and "estimated_noise_rate" in last:
        noise = last["estimated_noise_rate"]
        found = f"estimated label noise {100 * noise:.0f} %; the targets were corrected"
        if not noise:
            found = "no label noise was found, so the loss remained cross entropy"
        echo(f"{method}: {found}")
    elif "best_method" in last:
        line = run.history[run.epoch - 1]
        others = f"; the prediction averages {line['selected']:.0f} methods" if line["selected"] > 1 else ""
        echo(f"{method}: method {line['best_method']:.0f} predicts the most held-out labels{others}")
    elif "exponent" in last:
        echo(f"{method} ended with exponent {last['exponent']:.2f} (0 is cross entropy, 1 absolute error)")
    if run.choice:
        echo(f"saved the model of {run.choice}")
    echo(f"wrote {run.path}")
