"""New samples for a trained model, read in the way in which its training data were read."""

from typing import Any

from pyrite.data.dataset import Dataset
from pyrite.data.records import Records

__all__ = ["describe"]


def describe(data: Dataset) -> dict[str, Any]:
    """How the samples of a data set look, ready for JSON: what ``read_like`` needs to read others."""
    inputs = data.inputs
    if isinstance(inputs, Records):
        kind = "text" if inputs.is_text else "table"
        columns = [[name, kind] for name, kind in zip(inputs.names, inputs.kinds, strict=True)]
    else:
        kind = "images" if inputs.ndim == 4 else "numbers"
        columns = [[name, "number"] for name in data.columns]
    return {"kind": kind, "shape": list(inputs.shape[1:]), "columns": columns, "label": data.label}
