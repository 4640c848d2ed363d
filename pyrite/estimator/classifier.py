"""``RobustClassifier``: for tables and images whose labels are partly wrong."""

from dataclasses import replace
from typing import Any, Final, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import nn

from pyrite.auditing import FEWEST, Audit, audit_scores
from pyrite.checks import is_whole, whole_number
from pyrite.curves import GCE
from pyrite.data import Dataset
from pyrite.data.dataset import check_inputs, is_missing
from pyrite.data.statistics import to_float64
from pyrite.estimator.rows import Floats, Ints, Rows, deal, inner_statistics
from pyrite.estimator.together import Nets, train_together
from pyrite.losses import loss as read_loss
from pyrite.methods import ERM, method
from pyrite.models import Architecture, Factory
from pyrite.run_audits import default_method
from pyrite.training import RunFailed, resolve

__all__ = ["RobustClassifier"]

_TABLE_NETS: Final = "mlp(hidden=(128, 128), limit=3)", "mlp(hidden=(128, 128), limit=3, bins=8)"
"""For tables that are smooth, and for those with jumps. Which one it is, held-out labels decide."""

_STEPS: Final = 100
"""Of training on a table, at least. Later ones learn wrong labels by heart: docs/sklearn.md."""


@final
class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that does not learn wrong labels by heart, and says which labels are wrong.

    First ``folds`` nets, each of which leaves out another part of the rows, say what they make of labels they have not
    seen, and an audit concludes which are wrong. Then ``members`` nets are trained on all rows, each row counting as
    much as its label is probably right. Their mean probabilities are the prediction.

    The order of the rows does not matter, and a weight of 2 is the same as a row twice, to the last bit (up to 100,000
    rows).

    Args:
        loss: a loss or its spec, such as ``"gce(q=0.7)"``. None for absolute error, scaled if there are many classes,
            or for tables ``gce(q=0.7)`` if that predicts more of the held-out labels.
        model: a spec such as ``"resnet20"``, a net of your own, of which copies are trained, or what makes one when it
            is called with the shape of an input and the number of classes. None for a net that suits the data.
        epochs: times over the data; None for some hundred steps, or 10 epochs of large data.
        batch_size: rows a step; None for an eighth of the rows, from 16 to 128.
        lr: the learning rate; None for one that suits net and loss.
        folds: parts for the audit; 0 for no audit. None is 5 for tables and 2 for images.
        members: nets that predict together. None is 5 for tables, and 1 for images or a net of your own.
        random_state: a whole number gives the same result every time; None another one each time.
        device: cpu, cuda or cuda:1.
        verbose: print what is being trained.

    Attributes:
        classes_: the labels there are, in order.
        n_features_in_: features of a row, or channels of an image.
        feature_names_in_: names of the columns, where ``X`` had names that are texts.
        audit_: what ``pyrite.audit`` says of the rows, by their ``index``; None if there was no audit, or too few rows.
        wrong_probability_: of every row, the probability that its label is wrong; NaN where nobody can tell.
        suspects_: positions of rows whose labels should be looked at, the worst first.
        noise_rate_: the share of wrong labels; NaN where nobody can tell.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> RobustClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        loss: Any = None,
        *,
        model: str | Architecture | nn.Module | Factory | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        folds: int | None = None,
        members: int | None = None,
        random_state: int | None = 0,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.loss, self.model = loss, model
        self.epochs, self.batch_size, self.lr = epochs, batch_size, lr
        self.folds, self.members = folds, members
        self.random_state, self.device, self.verbose = random_state, device, verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Train on rows of features, or on images in bytes of shape (N, C, H, W)."""
        _check_labels(y)
        _check_weights(sample_weight)
        inputs, given = _checked(self, X, y)
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        seed = _seed(self.random_state)
        rows = Rows.of(inputs, labels, weight, seed)
        if len(np.unique(labels[rows.order])) < 2:
            raise ValueError("the labels that count are of one class: there is nothing to tell apart")
        self._scale = inner_statistics(inputs[rows.order]) if inputs.ndim == 2 else None
        names = tuple(map(str, self.classes_))
        data = Dataset("rows", self._prepared(inputs[rows.order]), labels[rows.order], names)
        try:
            self._train(data, rows, seed)
        except RunFailed as error:
            raise ValueError(f"training diverged, {str(error).partition('. ')[0]}: set lr to a tenth of that") from None
        self._say_what_is_wrong(rows, len(labels))
        return self

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Scores: the logarithms of the probabilities, a column a class; of two classes the difference."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Probabilities, a column a class in the order of ``classes_``."""
        return np.exp(self._scores(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The likeliest class of every row."""
        likeliest = self._scores(X).argmax(1)
        return np.asarray(self.classes_[likeliest])

    def _scores(self, X: Any) -> Floats:  # noqa: N803
        check_is_fitted(self)
        inputs = _checked(self, X, reset=False)
        shape = self._nets.shape
        if inputs.shape[1:] != shape:
            raise ValueError(f"X has rows of shape {inputs.shape[1:]}, but the classifier was fitted to {shape}")
        each = self._nets.scores(self._prepared(inputs))
        return np.asarray(logsumexp(log_softmax(each, 2), 0) - np.log(len(each)))

    def _prepared(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Images as they are, or features centred and scaled in float64 before they are narrowed to float32."""
        return inputs if self._scale is None else self._scale.standardise(inputs)

    def _train(self, data: Dataset, rows: Rows, seed: int) -> None:
        table = data.inputs.ndim == 2
        folds = _count("folds", self.folds, 5 if table else 2, least=2)
        # Copies of one net that see the same batches stay copies.
        members = _count("members", self.members, 5 if table and not isinstance(self.model, nn.Module) else 1, least=1)
        nets = _TABLE_NETS if table and self.model is None else (self.model,)
        methods = (ERM(read_loss(self.loss)),) if self.loss is not None else _methods(len(data.classes), table)
        self.audit_: Audit | None = None
        weight = rows.weight
        best = _Way(nets[0], methods[0])
        if folds and len(data) >= FEWEST:
            part = deal(data.labels, rows.cell, folds)
            scores = self._held_out(data, weight, part, best, seed)
            for changed in [{"net": net} for net in nets[1:]] + [{"method": other} for other in methods[1:]]:
                way = best._replace(**changed)
                other_scores = self._held_out(data, weight, part, way, seed)
                if _predicts_more(other_scores, scores, data.labels, weight):
                    best, scores = way, other_scores
            found = audit_scores(data.labels, scores=scores, kind="logits", classes=data.classes, seed=seed)
            self.audit_ = replace(found, index=rows.order)
            if self.audit_.noise_rate < 0.5:  # NaN where it cannot tell; beyond, it may have taken wrong for right
                weight = weight * (1 - self.audit_.wrong_probability)
        self._nets = self._fit(data, np.tile(weight, (members, 1)), best, seed + 1)

    def _held_out(self, data: Dataset, weight: Floats, part: Ints, way: "_Way", seed: int) -> Floats:
        """What nets that have not seen a row's label give the row."""
        parts = np.unique(part)
        trained = self._fit(data, weight * (part != parts[:, None]), way, seed)
        return trained.scores(np.asarray(data.inputs))[np.searchsorted(parts, part), np.arange(len(data))]

    def _fit(self, data: Dataset, weight: Floats, way: "_Way", seed: int) -> Nets:
        size = _count("batch_size", self.batch_size, int(np.clip(len(data) // 8, 16, 128)), least=2)
        epochs = _count("epochs", self.epochs, max(10, -(-_STEPS * size // len(data))), least=1)
        recipe = resolve(
            data, model=way.net, method=way.method, lr=self.lr, epochs=epochs, batch_size=size, validation=0.0,
            seed=seed, device=self.device,
        ).recipe  # fmt: skip
        if self.verbose:
            print(f"{len(weight)} x {recipe.model}, {recipe.method}, {epochs} epochs of {len(data)} rows", flush=True)
        return train_together(data, weight, recipe.model if way.net is None else way.net, way.method, recipe)

    def _say_what_is_wrong(self, rows: Rows, count: int) -> None:
        found = self.audit_
        self.wrong_probability_ = np.full(count, np.nan)
        self.suspects_ = np.zeros(0, np.int64)
        self.noise_rate_ = np.nan if found is None else found.noise_rate
        if found is None or not found.can_tell:
            return
        # Rows that are the same were judged by several nets; what is said of them is the same.
        copies = np.bincount(rows.content)
        wrong, score = (
            (np.bincount(rows.content, weights=values) / copies)[rows.content]
            for values in (found.wrong_probability, found.score)
        )
        self.wrong_probability_[rows.order] = wrong
        rank = np.zeros(count)  # by the score where probabilities round to 1
        rank[rows.order] = score
        suspects = np.flatnonzero(self.wrong_probability_ >= found.threshold)
        self.suspects_ = suspects[np.lexsort((-rank[suspects], -self.wrong_probability_[suspects]))]


def _methods(classes: int, table: bool) -> tuple[ERM, ...]:
    usual = method(default_method(classes))
    assert isinstance(usual, ERM)
    return (usual, ERM(GCE(q=0.7))) if table else (usual,)


class _Way(NamedTuple):
    """A kind of net and what it minimises."""

    net: Any
    method: ERM


def _predicts_more(new: Floats, old: Floats, labels: Ints, weight: Floats) -> bool:
    """Whether new scores predict more labels, by more than the standard error of the difference.

    Wrong labels make the number smaller for both, but symmetric noise leaves the order.
    """
    gained = weight * (1.0 * (new.argmax(1) == labels) - (old.argmax(1) == labels))
    return bool(gained.sum() > np.sqrt((gained**2).sum()))


def _check_labels(labels: Any) -> None:
    """Refuse what scikit-learn would take for a class, or complain of in words that do not help."""
    _check_not_masked(labels, "y")
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "OUT":
        return
    kinds: dict[bool, int] = {}
    for index, label in enumerate(given):
        text = isinstance(label, str)
        missing = is_missing(label) if text else label is None or type(label).__name__ in ("NAType", "NaTType")
        if missing or label != label:
            shown = repr(str(label)) if text else repr(label)
            raise ValueError(f"y is {shown} at index {index}: a row without a label cannot be trained on")
        kinds.setdefault(text, index)
    if len(kinds) == 2:
        first, second = sorted(kinds.values())
        raise ValueError(
            f"y mixes texts and numbers, such as {given[first]!r} at index {first} and {given[second]!r} at index "
            f"{second}: write all labels as texts"
        )


def _check_weights(weights: Any) -> None:
    """Refuse negative weights with their index; all else scikit-learn refuses."""
    _check_not_masked(weights, "sample_weight")
    given = np.asarray(weights)
    if given.dtype.kind in "if" and (given < 0).any():
        first = int((given < 0).argmax())
        raise ValueError(f"sample_weight is {given.flat[first]} at index {first}: weights are 0 or more")


def _check_not_masked(values: Any, name: str) -> None:
    if np.ma.is_masked(values):
        raise ValueError(f"{name} is a masked array with masked values: fill them, or leave those rows out")


def _checked(estimator: RobustClassifier, inputs: Any, *labels: Any, **options: Any) -> Any:
    """Inputs, and labels if given, as scikit-learn checks them: images stay bytes, all else becomes float64."""
    _check_not_masked(inputs, "X")
    kind: dict[str, Any] = {"dtype": np.float64}
    if getattr(inputs, "ndim", 2) == 4:
        dtype = np.asarray(inputs).dtype
        if dtype != np.uint8:
            raise ValueError(f"X holds images of {dtype}, but they must be bytes (uint8) of shape (N, C, H, W)")
        check_inputs(np.asarray(inputs), "the images X")
        kind = {"dtype": np.uint8, "allow_nd": True}
    elif isinstance(inputs, np.ndarray) and inputs.ndim == 2 and inputs.dtype.kind in "iu":
        to_float64(inputs, lambda row, column: f"X, row {row}, column {column}")
    with np.errstate(over="ignore", invalid="ignore"):  # the sum by which scikit-learn looks for NaN may overflow
        return validate_data(estimator, inputs, *labels, **options, **kind)


def _count(name: str, value: int | None, usual: int, least: int) -> int:
    if value is None:
        return usual
    if name == "folds" and is_whole(value) and value == 0:
        return 0
    none = ", or 0" if name == "folds" else ""
    return whole_number(name, value, least, wanted=f"a whole number, {least} or more{none}")


def _seed(state: Any) -> int:
    if isinstance(state, np.random.RandomState):
        return int(state.randint(2**31))
    if state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    wanted = "a whole number from 0 to 2**32 - 1, a RandomState or None"
    return whole_number("random_state", state, 0, 2**32 - 1, wanted)
