"""Label Studio: an audit's ranking as tasks with predictions. Its JSON export is read wherever corrections are."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr  # nosec B406

from pyrite.auditing import Audit
from pyrite.data import Dataset, Records
from pyrite.errors import PyriteError
from pyrite.files import write_or_refuse

FROM_NAME, TO_NAME = "label", "sample"  # of the labelling configuration


def write_label_studio(
    audit: Audit, path: str | Path, *, data: Dataset | None = None, only_suspects: bool = True
) -> Path:
    """Write tasks for Label Studio, the most likely wrong first, and beside them the labelling configuration (.xml).

    The suggested label is the prediction of a task, with its probability as score; the given one is shown above it.
    Label Studio's JSON export is read by ``--corrections``, ``--reviewed`` and ``Audit.reviewed``.

    Args:
        audit: what to review.
        path: the file.
        data: what ``audit.index`` refers to, by default the data of the audit or of its run. Image files are named
            relative to their folder, from which Label Studio serves them as local files.
        only_suspects: leave out labels that look right.
    """
    data = audit.data if data is None else data
    if data is None and audit.run is not None:
        data = audit.run.dataset()
    if data is None:
        raise PyriteError("data is missing: pass the samples that the scores are of")
    rows = [row for row in audit.ranking.tolist() if audit.is_suspect[row] or not only_suspects]
    kind = "image" if data.inputs.ndim == 4 else "text"
    tasks = [_task(audit, data, row, kind) for row in rows]
    target = Path(path)
    write_or_refuse(target.with_suffix(".xml"), labelling_config(audit.classes, kind).encode())
    return write_or_refuse(target, json.dumps(tasks, ensure_ascii=False, indent=1).encode())


def labelling_config(classes: tuple[str, ...], kind: str) -> str:
    """The labelling configuration of Label Studio: one class per sample."""
    shown = "Image" if kind == "image" else "Text"
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    return (
        f'<View>\n  <Header value="given: $given"/>\n  <{shown} name="{TO_NAME}" value="${kind}"/>\n'
        f'  <Choices name="{FROM_NAME}" toName="{TO_NAME}" choice="single">\n{choices}\n  </Choices>\n</View>\n'
    )


def _task(audit: Audit, data: Dataset, row: int, kind: str) -> dict[str, Any]:
    index, given = int(audit.index[row]), audit.classes[audit.labels[row]]
    best = audit.classes[audit.suggested[row]]
    content: dict[str, Any] = {"index": index, "given": given, kind: _content(data, index)}
    if data.paths:
        content["path"] = data.paths[index]
    wrong = audit.wrong_probability[row]
    prediction = {
        "model_version": "pyrite",
        "score": None if wrong != wrong else round(float(audit.likelihoods[row, 0]), 4),
        "result": [
            {"from_name": FROM_NAME, "to_name": TO_NAME, "type": "choices", "value": {"choices": [best]}},
        ],
    }
    if wrong == wrong:
        content["wrong_probability"] = round(float(wrong), 4)
    # The given label is no annotation: an export of tasks that nobody has looked at would confirm it.
    return {"data": content, "predictions": [prediction]}


def _content(data: Dataset, index: int) -> str:
    inputs = data.inputs
    if inputs.ndim == 4:
        if not data.paths:
            raise PyriteError(
                f"{data.name} holds images without files, which Label Studio cannot show: save them first"
            )
        return f"/data/local-files/?d={quote(data.paths[index])}"
    if isinstance(inputs, Records):
        if inputs.is_text:
            return inputs[[index]].texts()[0]
        cells, names = inputs.cells(index), inputs.names
    else:
        cells = tuple(f"{value:.15g}" for value in inputs[index].tolist())
        names = data.columns or tuple(str(place) for place in range(len(cells)))
    return "\n".join(f"{name}: {cell}" for name, cell in zip(names, cells, strict=True))
