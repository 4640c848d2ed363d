"""From the user's arguments to a plan: a resolved recipe, and the objects that it names."""

import os
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Unpack, final

from torch import nn

from pyrite.data import DATASETS, Data, Dataset, is_object, load
from pyrite.errors import PyriteError
from pyrite.features import Encoder, OwnModule
from pyrite.losses import OwnLoss, loss as read_loss
from pyrite.methods import ERM, Method, method as read_method
from pyrite.models import Architecture, Factory, architecture
from pyrite.spec import build, lookup, spec_string
from pyrite.training.optimisers import OPTIMISERS, optimiser
from pyrite.training.pace import fitting
from pyrite.training.recipe import GIVEN, Options, Recipe, Short, reading, settled
from pyrite.training.start import with_measured_margin

__all__ = ["Model", "Plan", "features_and_text", "method_and_text", "model_and_text", "resolve", "says_rate"]

Model = str | Architecture | nn.Module | Factory


@final
@dataclass(frozen=True)
class Plan:
    """Everything that is needed to start a run.

    Attributes:
        recipe: everything that decides it, spelled out.
        data: what it is trained on.
        method: the method that trains it.
        model: a net of the user's own, or a function that makes one; None if ``recipe.model`` spells the net.
        features: an encoder of the user's own; None if ``recipe.features`` spells it.
    """

    recipe: Recipe
    data: Dataset
    method: Method
    model: Architecture | nn.Module | Factory | None = None
    features: Encoder | None = None


def resolve(data: Data | None = None, *, loaded: Dataset | None = None, **options: Unpack[Options]) -> Plan:
    """The plan that ``train`` makes of these arguments. ``loaded`` is the data set, if it has been read already."""
    if loaded is not None and is_object(data):
        data = loaded
    values = {} if options.get("config") is None else Recipe.read(options["config"])  # type: ignore[arg-type]
    given = {name: value for name, value in options.items() if name not in _HANDLED_SEPARATELY and value is not None}
    values |= {name: _text(name, value) for name, value in given.items()}
    if is_object(data):
        data = load(data, **reading(values))
    if not isinstance(values.get("label", ""), str):  # the labels themselves; they are in the data set now
        values["label"] = data.label if isinstance(data, Dataset) else ""
    short = Short.checked({name: options.get(name) for name in ("lr", "minutes")})
    method, values["method"] = method_and_text(options, values.get("method"))
    model, values["model"] = model_and_text(options.get("model"), values.get("model", ""))
    features, values["features"] = features_and_text(options.get("features"), values.get("features", ""))
    lengths = [name for name in ("epochs", "iterations", "minutes") if options.get(name) is not None]
    if len(lengths) > 1:
        raise PyriteError(f"{' and '.join(lengths)} are both given: each is a length of training")
    if lengths and lengths != ["iterations"]:
        values.pop("iterations", None)  # of a configuration file
    values["data"] = _data_text(data, values.get("data"))
    if values.get("corrections"):
        values["corrections"] = os.path.abspath(os.path.expanduser(str(values["corrections"])))
    recipe = Recipe.make(**values)
    source = loaded or (data if isinstance(data, Dataset) else recipe.load_data())
    plan = _filled_in(recipe, source, method, model, features)
    if short.minutes is not None:
        found = fitting(
            60 * short.minutes, plan.recipe, source, plan.method, model, features, widen=not recipe.model,
        )  # fmt: skip
        plan = _filled_in(recipe.model_copy(update=found), source, method, model, features)
    if short.lr is not None:
        plan = replace(plan, recipe=_with_rate(plan.recipe, short.lr, options.get("optimiser")))
    return plan


def _filled_in(
    recipe: Recipe,
    source: Dataset,
    method: Method,
    model: Architecture | nn.Module | Factory | None,
    features: Encoder | None,
) -> Plan:
    """The plan with all defaults that depend on the data, the net or the method."""
    measured = with_measured_margin(method, recipe, model, source)
    if measured is not method:
        method, recipe = measured, recipe.model_copy(update={"method": str(measured)})
    recipe = recipe.resolved(source, method, features)
    net = None if recipe.model.startswith(GIVEN) else architecture(recipe.model)
    suited = settled(method, recipe.augment, recipe.validation, source, net)
    if suited is not method:
        method, recipe = suited, recipe.model_copy(update={"method": str(suited)})
    for own in _parts(method):
        if isinstance(own, OwnLoss):
            own.try_out(len(source.classes))
    if net is not None:
        # The width of features is known when they are fitted.
        net.check_size(source.inputs.shape[1:] if recipe.features == "none" else (1,), len(source.classes))
    return Plan(recipe, source, method, model, features)


def method_and_text(options: Options, configured: str | None = None) -> tuple[Method, str]:
    """The method that the options name, and its name in a recipe.

    Args:
        options: with ``method`` or ``loss``.
        configured: the method in a configuration file; the default method if None.
    """
    loss, chosen = options.get("loss"), options.get("method")
    if loss is not None and chosen is not None:
        raise PyriteError("method and loss are both given: write the loss into the method")
    if loss is not None:
        method: Method = ERM(read_loss(loss))
        text = f"erm({loss})" if isinstance(loss, str) else None
    else:
        named = Recipe.model_fields["method"].default if configured is None else configured
        wanted = named if chosen is None else chosen
        if isinstance(wanted, str) and wanted.startswith(GIVEN):
            raise PyriteError(f"the method was {wanted}: pass it again as method or loss")
        method, text = read_method(wanted), wanted if isinstance(wanted, str) else None
    if spec_string(method) is not None:
        return method, str(method)
    # A method that was read from a text can be read again. Of an object only the name is known.
    return method, GIVEN + str(method) if text is None else text


def model_and_text(model: Model | None, configured: str = "") -> tuple[Architecture | nn.Module | Factory | None, str]:
    """A net of the user's own, or None if it has a spelling, and its name in a recipe."""
    if model is None:
        if configured.startswith(GIVEN):
            raise PyriteError(f"the net was {configured}: pass it again as model")
        return None, configured
    if isinstance(model, str):
        return None, model
    if isinstance(model, Architecture):
        return (None, str(model)) if spec_string(model) is not None else (model, GIVEN + str(model))
    if isinstance(model, nn.Module):
        return model, GIVEN + type(model).__name__
    if not callable(model):
        raise PyriteError(f"model is {model!r}, but must be a text such as 'resnet20', an nn.Module or a factory")
    return model, GIVEN + str(getattr(model, "__name__", type(model).__name__))


def features_and_text(features: object, configured: str = "") -> tuple[Encoder | None, str]:
    """An encoder of the user's own, or None if it has a spelling, and its name in a recipe."""
    if features is None:
        if configured.startswith(GIVEN):
            raise PyriteError(f"the features were {configured}: pass them again as features")
        return None, configured
    if isinstance(features, str):
        return None, features
    own = OwnModule(features) if isinstance(features, nn.Module) else features
    if not isinstance(own, Encoder):
        raise PyriteError(f"features is {features!r}, but must be a text such as 'tfidf', an nn.Module or an encoder")
    return (None, str(own)) if spec_string(own) is not None else (own, GIVEN + str(own))


def says_rate(spec: object) -> bool:
    """Whether an optimiser's spec sets its learning rate, as first argument or by name."""
    if not isinstance(spec, str):
        return spec is not None

    def first(lr: float | None = None, *more: object, **named: object) -> SimpleNamespace:
        return SimpleNamespace(given=lr is not None)

    name = spec.partition("(")[0].strip()
    lookup(name, OPTIMISERS, "optimiser")
    return bool(build(spec, {name: first}, "optimiser").given)


# All other options go into a recipe as they are, or as the text that spells them.
_HANDLED_SEPARATELY = ("method", "loss", "lr", "minutes", "model", "features", "config")

_DESCRIBED = ("noise", "optimiser", "schedule", "augment")


def _text(name: str, value: object) -> object:
    """A setting as it is in a recipe: an object as the text that builds it again."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if name not in _DESCRIBED or isinstance(value, str):
        return value
    text = spec_string(value)
    if text is None:
        raise PyriteError(
            f"{name} is {value!r}, which no text spells: give its class a name, as in "
            f"pyrite.register('my_{name}', {type(value).__name__})"
        )
    return text


def _parts(thing: object) -> list[object]:
    """An object and its parts: the losses of a method, the losses within a loss."""
    if isinstance(thing, nn.Module):
        return list(thing.modules())
    if isinstance(thing, list | tuple):
        return [part for item in thing for part in _parts(item)]
    if isinstance(thing, Method):
        return [thing, *_parts(list(vars(thing).values()))]
    return [thing] if hasattr(thing, "__dict__") else []


def _data_text(data: Data | None, configured: str | None) -> str:
    if isinstance(data, Dataset):
        return GIVEN + data.name
    if data is None:
        if configured is None:
            raise PyriteError("data is missing: a name such as 'digits', a folder of images, or a file")
        if str(configured).startswith(GIVEN):
            raise PyriteError(f"the data was {configured}: pass it again, as in pyrite.train(data, ...)")
        return configured
    # A relative path would be wrong when the run is resumed from another folder.
    is_path = str(data) not in DATASETS and os.path.exists(str(data))
    return os.path.abspath(str(data)) if is_path else str(data)


def _with_rate(recipe: Recipe, lr: float, spec: object) -> Recipe:
    if says_rate(spec):
        raise PyriteError(f"lr is given twice: alone, and in the optimiser {str(spec)!r}")
    chosen = optimiser(recipe.optimiser)
    return recipe.model_copy(update={"optimiser": str(type(chosen)(**vars(chosen) | {"lr": lr}))})
