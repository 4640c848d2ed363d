"""``pyrite reproduce``: a table or figure of a paper."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyrite.cli.terminal import AsJson, completes, failures, print_json, print_table, warn
from pyrite.text_tables import duration

if TYPE_CHECKING:
    from pyrite.papers import Reproduction


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="A recipe, such as imae_table1; see 'pyrite list recipes'.", autocompletion=completes("recipe")
        ),
    ],
    scale: Annotated[
        str,
        typer.Option(
            help="Length of the runs: tiny (seconds to minutes), small (about an hour) or paper (as published)."
        ),
    ] = "tiny",
    out: Annotated[Path, typer.Option(help="The folder for the table, the figure, the page and the runs.")] = Path(
        "reproduced"
    ),
    cells: Annotated[
        Path | None, typer.Option(help="The folder of finished runs; by default 'cells' in --out.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of parallel runs.")] = 1,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; by default that of the recipe.")] = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce a table or figure of a paper and print the published values beside it. Repeat the command to resume."""
    from pyrite.papers import reproduce as run_recipe
    from pyrite.papers.page import write_reproduction

    total, numbers = 0, count(1)

    def begin(missing: int, expected: int, seconds: float) -> None:
        nonlocal total
        total = missing
        if missing and not as_json:
            warn(f"{missing} of {expected} runs remain; time left: about {duration(seconds)}")

    def advance(words: str, seconds: float, left: float) -> None:
        if not as_json:
            warn(f"{next(numbers)}/{total}  {words}  {seconds:.0f} s; time left: {duration(left)}")

    with failures():
        found = run_recipe(
            name, scale, out=out, cells=cells, workers=workers, seeds=seeds, estimate=begin, finished=advance,  # type: ignore[arg-type]
        )  # fmt: skip
        written = write_reproduction(found, out)
    if as_json:
        print_json(found.to_dict())
        return
    _print(found)
    names = [f"{found.stem}.md", f"{found.stem}.json", *(path.name for path in written)]
    typer.echo(f"wrote {', '.join(names)} to {out}")


def _print(found: "Reproduction") -> None:
    typer.echo(f"{found.recipe.article}: {found.recipe.title}")
    table = found.table()
    text = len([heading for heading in table.headings if heading in (found.results.axes if found.results else ())]) or 1
    rows = [(*row[:text], *(cell.replace(" ± ", "±") for cell in row[text:])) for row in table.rows]
    published = " (the paper's)" if found.recipe.published else ""
    caption = f"mean±standard deviation, fractions in per cent{published}" if found.results else None
    if rows:
        print_table(table.headings, rows, left=text, caption=caption)
    for verdict in found.verdicts():
        typer.echo(f"{verdict.claim} {verdict.words}: {found.claim_text(verdict.claim)}")
        for finding in verdict.findings:
            if finding.status != "holds":
                typer.echo(f"    {finding.sentence}")
    if far := {words: None for verdict in found.verdicts() for words in verdict.missing}:
        typer.echo(f"differs from the paper: {'; '.join(far)}")
