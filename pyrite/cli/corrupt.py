"""``pyrite corrupt``: make some labels wrong, by a noise model."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyrite.cli.settings import with_settings
from pyrite.cli.terminal import warn
from pyrite.settings import READING

if TYPE_CHECKING:
    from pyrite.noise import NoisyLabels


@with_settings(only=READING)
def corrupt(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder, or a file.")],
    noise: Annotated[str, typer.Option(help="A noise model, such as 'flip2(0.4)'; see 'pyrite list noises'.")],
    seed: Annotated[int, typer.Option(help="Everything random comes from it.")] = 0,
    out: Annotated[Path, typer.Option(help="The file to write, an .npz.")] = Path("noisy.npz"),
    picture: Annotated[Path | None, typer.Option(help="Also draw which labels are given for which classes.")] = None,
    per_class: Annotated[bool, typer.Option("--per-class", help="Also print the rate of every class.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it for a program to read.")] = False,
    **reading: str,
) -> None:
    """Make some labels of a data set wrong, and write them beside the true ones."""
    from pyrite.data import load
    from pyrite.features import as_numbers
    from pyrite.noise import corrupt as corrupt_labels, noise_model

    model = noise_model(noise)
    source = load(data, **reading)
    inputs = as_numbers(source.inputs) if model.needs_inputs else None
    noisy = corrupt_labels(source.labels, model, classes=len(source.classes), seed=seed, inputs=inputs)
    for sentence in source.notes:
        warn(sentence)
    # The picture first, so that no labels are written if its name is bad.
    drawn = [] if picture is None else [_draw(noisy, source.classes, picture)]
    written = [noisy.save(out), *drawn]
    if as_json:
        typer.echo(json.dumps(_facts(noisy, source.classes, written), indent=2))
        return
    typer.echo(
        f"{noisy.noise}, seed {noisy.seed}: {noisy.is_wrong.sum()} of {len(noisy)} labels are wrong "
        f"({100 * noisy.rate:.2f} %)"
    )
    if per_class:
        for name, rate in zip(source.classes, noisy.class_rates, strict=True):
            typer.echo(f"  {100 * rate:6.2f} %  {name}" if math.isfinite(rate) else f"       none  {name}")
    for path in written:
        typer.echo(f"wrote {path}")


def _draw(noisy: "NoisyLabels", names: Sequence[str], path: Path) -> Path:
    from pyrite.report.confusion import draw_matrix

    title = f"{noisy.noise}, seed {noisy.seed}\n{100 * noisy.rate:.1f} % of {len(noisy)} labels are wrong"
    return draw_matrix(noisy.realised, path, names, title)


def _facts(noisy: "NoisyLabels", names: Sequence[str], written: list[Path]) -> dict[str, Any]:
    rates = [rate if math.isfinite(rate) else None for rate in noisy.class_rates.tolist()]
    return {
        **noisy.manifest(),
        "wrong": int(noisy.is_wrong.sum()),
        "class_rates": dict(zip(names, rates, strict=True)),
        "written": [str(path) for path in written],
    }
