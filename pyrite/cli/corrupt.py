"""``pyrite corrupt``: make some labels wrong, by a noise model."""

import math
from pathlib import Path
from typing import Annotated

import typer

from pyrite.cli.terminal import AsJson, DataName, Seed, echo, keep_input, print_json, warn, with_settings
from pyrite.settings import READING


@with_settings(only=READING)
def corrupt(
    data: DataName,
    noise: Annotated[str, typer.Option(help="A noise model, such as 'flip2(0.4)'; see 'pyrite list noises'.")],
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="The .npz file to write.")] = Path("noisy.npz"),
    picture: Annotated[Path | None, typer.Option(help="Also plot the noise matrix, to this image file.")] = None,
    per_class: Annotated[bool, typer.Option("--per-class", help="Also print the noise rate of every class.")] = False,
    as_json: AsJson = False,
    **reading: str,
) -> None:
    """Corrupt the labels of a data set with a noise model and save given and true labels."""
    from pyrite.data import load
    from pyrite.features import as_numbers
    from pyrite.noise import corrupt as corrupt_labels, noise_model

    keep_input(data, out)
    model = noise_model(noise)
    source = load(data, **reading)
    inputs = as_numbers(source.inputs) if model.needs_inputs else None
    noisy = corrupt_labels(source.labels, model, classes=len(source.classes), seed=seed, inputs=inputs)
    for sentence in source.notes:
        warn(sentence)
    written = []
    if picture is not None:  # first, so that no labels are written if its name is bad
        from pyrite.report.figures import matrix_figure
        from pyrite.report.style import save

        title = f"{noisy.noise}, seed {noisy.seed}\n{100 * noisy.rate:.1f} % of {len(noisy)} labels are wrong"
        written = [save(matrix_figure(noisy.realised, source.classes, title), picture)]
    written = [noisy.save(out), *written]
    rates = dict(zip(source.classes, noisy.class_rates.tolist(), strict=True))
    wrong = int(noisy.is_wrong.sum())
    if as_json:
        known = {name: rate if math.isfinite(rate) else None for name, rate in rates.items()}
        print_json({**noisy.manifest(), "wrong": wrong, "class_rates": known, "written": [*map(str, written)]})
        return
    shown = f"{wrong} of {len(noisy)} labels are wrong ({100 * noisy.rate:.2f} %)"
    echo(f"{noisy.noise}, seed {noisy.seed}: {shown}")
    for name, rate in rates.items() if per_class else ():
        echo(f"  {100 * rate:6.2f} %  {name}" if math.isfinite(rate) else f"       none  {name}")
    for path in written:
        echo(f"wrote {path}")
