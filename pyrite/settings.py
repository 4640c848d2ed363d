"""Every setting of a training run, defined once: name, type, limits, default and help text.

The command-line flags, the recipe of a run and the checks of both come from the classes below. This module imports
neither torch nor pydantic, so that ``pyrite --help`` stays quick.
"""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

__all__ = ["READING", "Keep", "Precision", "Settings", "ShortForms"]

Precision = Literal["float32", "float64", "bfloat16"]
Keep = Literal["best", "last"]

READING = ("label", "text", "ignore", "name")
"""The settings that say which columns of a table are what."""


class Settings:
    """What decides a run. An empty text, or None, stands for a value that suits the data, the net and the method."""

    data: Annotated[str, "A data set's name or spec, a folder, or a file."]
    label: Annotated[str, "The column of the labels; by default one that is called so, or the last of few values."] = ""
    text: Annotated[
        str, "The column of texts to learn from, or several with commas; all other columns are left out."
    ] = ""
    ignore: Annotated[str, "Columns to leave out, with commas between them, such as 'id,url'."] = ""
    name: Annotated[str, "The column that names a sample in reports; it is not learned from."] = ""
    features: Annotated[str, "What samples become, such as 'tfidf'; none for raw images or plain numbers."] = ""
    method: Annotated[str, "A method; --loss LOSS is short for 'erm(LOSS)'."] = "auto"
    noise: Annotated[str, "Make labels wrong first, such as 'symmetric(0.4)'; corrections come after it."] = ""
    corrections: Annotated[str, "A file of corrected labels, as the report exports it, or a suspects.csv."] = ""
    drop_suspects: Annotated[
        float,
        Ge(0),
        Le(1),
        "Leave out labels that are wrong with this probability or more, as the corrections say; without those, "
        "'pyrite train' audits first.",
    ] = 0.0
    model: Annotated[str, "A net, such as 'resnet20'; by default one that suits the data."] = ""
    epochs: Annotated[int, Ge(1), "Times over the data."] = 30
    iterations: Annotated[int | None, Ge(1), "Length in steps, in place of --epochs; an epoch may then be shorter."] = (
        None
    )
    batch_size: Annotated[int, Ge(1), "Samples per step, over all processes."] = 128
    optimiser: Annotated[str, "Such as 'adam(lr=1e-3, eps=0.1)'; by default SGD with momentum."] = ""
    schedule: Annotated[str, "Of the learning rate, such as linear, cosine or 'steps(at=[40, 80])'."] = ""
    clip: Annotated[float | None, Ge(0), "The largest norm of a gradient; 0 for no limit."] = None
    accumulate: Annotated[int, Ge(1), "Send each batch through the net in this many pieces."] = 1
    augment: Annotated[str, "Such as 'crop_flip(pad=4)', or none."] = ""
    grow: Annotated[
        float | None,
        Ge(0.5),
        Le(1),
        "The side of images in the first epoch, as a share; they are whole after two thirds of the run.",
    ] = None
    mirror: Annotated[
        bool | None, "Predict the mean of an image and its mirror image; by default if training mirrors images."
    ] = None
    samples: Annotated[int | None, Ge(1), "Use only this many samples, with the share of each class kept."] = None
    validation: Annotated[float | None, Ge(0), Lt(1), "Hold out this share, with its given labels."] = None
    keep: Annotated[
        Keep, "best saves the model of the best epoch by held-out labels, if it is clearly better; last the last one."
    ] = "best"
    precision: Annotated[
        Precision | None, "float32, float64 or bfloat16 (torch's autocast); by default what suits net and processor."
    ] = None
    compile: Annotated[bool, "Run the net through torch.compile."] = False
    checkpoint_every: Annotated[int, Ge(0), "Also save after every so many steps, not only every epoch."] = 0
    seed: Annotated[int, Ge(0), "Everything random comes from it."] = 0
    device: Annotated[str, "cpu, cuda or cuda:1."] = "cpu"


class ShortForms:
    """What may be said in place of a setting: a loss for the method ``erm(loss)``, a rate for the optimiser, a time for
    the number of epochs.
    """

    loss: Annotated[str | None, "A loss, such as 'gce(q=0.7)'; see 'pyrite list losses'."] = None
    lr: Annotated[float | None, Ge(0), "The learning rate."] = None
    minutes: Annotated[
        float | None,
        Gt(0),
        "Length in minutes on this machine, in place of --epochs; the longer, the wider the default net for images.",
    ] = None
