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
from pyrite.estimator.reading import Reader
from pyrite.estimator.rows import Floats, Ints, Rows, assign_folds, inner_statistics
from pyrite.estimator.together import Nets, train_together
from pyrite.losses import loss as read_loss
from pyrite.methods import ERM, method
from pyrite.models import Architecture, Factory
from pyrite.run_audits import default_method
from pyrite.training import RunFailed, resolve

__all__ = ["RobustClassifier"]

_TABLE_NETS: Final = "mlp(hidden=(128, 128), limit=3)", "mlp(hidden=(128, 128), limit=3, bins=8)"
"""For smooth tables, and for tables with jumps. The one that predicts more held-out labels is used."""

_STEPS: Final = 100
"""The least number of training steps on a table. More steps memorise wrong labels: docs/sklearn.md."""


@final
class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that does not memorise wrong labels, and reports which labels are wrong.

    First, cross-validation with ``folds`` nets gives held-out scores for every row, and an audit of these scores
    estimates which labels are wrong. Then ``members`` nets are trained on all rows, each row weighted by the
    probability that its label is right. The prediction is the mean of their probabilities.

    The order of the rows does not matter, and a weight of 2 is the same as a row twice, to the last bit (up to 100,000
    rows).

    Args:
        loss: a loss or its spec, such as ``"gce(q=0.7)"``. None for absolute error, scaled if there are many classes,
            or for tables ``gce(q=0.7)`` if that predicts more of the held-out labels.
        model: a spec such as ``"resnet20"``, an ``nn.Module``, of which copies are trained, or a function that makes
            one from the shape of an input and the number of classes. None for a default that depends on the data.
        epochs: passes over the data; None for at least 10 epochs and 100 steps.
        batch_size: rows per step; None for an eighth of the rows, from 16 to 128.
        lr: the learning rate; None for a default that depends on net and loss.
        folds: the number of folds of the audit; 0 for no audit. None is 5 for tables and 2 for images.
        members: the number of nets whose predictions are averaged. None is 5 for tables, and 1 for images or if
            ``model`` is an ``nn.Module``.
        random_state: a whole number for reproducible results; None for another seed each time.
        device: cpu, cuda or cuda:1.
        verbose: print a line for each training.

    Attributes:
        classes_: the distinct labels, sorted.
        n_features_in_: the number of features of a row, or channels of an image.
        feature_names_in_: the names of the columns, if ``X`` had column names that are strings.
        audit_: the result of the audit, with rows by their ``index``; None without an audit, or with too few rows.
        wrong_probability_: the probability that the label of each row is wrong; NaN where it cannot be estimated.
        suspects_: positions of rows whose labels should be reviewed, the most suspicious first.
        noise_rate_: the estimated share of wrong labels; NaN where it cannot be estimated.

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
        """Train on rows of features, uint8 images of shape (N, C, H, W), a data frame, or a list of texts.

        The columns of a frame may be numbers with gaps, truth values, categories, dates or texts.
        """
        _check_labels(y)
        _check_weights(sample_weight)
        self._reader = Reader.for_rows(X)
        inputs, given = _checked(self, X if self._reader is None else self._reader.transform(X), y)
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        seed = _seed(self.random_state)
        rows = Rows.of(inputs, labels, weight, seed)
        if len(np.unique(labels[rows.order])) < 2:
            raise ValueError("labels with a positive weight are all of one class: a classifier needs two or more")
        self._scale = inner_statistics(inputs[rows.order]) if inputs.ndim == 2 else None
        names = tuple(map(str, self.classes_))
        data = Dataset("rows", self._prepared(inputs[rows.order]), labels[rows.order], names)
        try:
            self._train(data, rows, seed)
        except RunFailed as error:
            raise ValueError(f"training diverged, {str(error).partition('. ')[0]}: set lr to a tenth of that") from None
        self._set_suspects(rows, len(labels))
        if self._reader is not None and self._reader.columns:
            self.n_features_in_ = len(self._reader.columns)
            self.feature_names_in_ = np.array(self._reader.columns, object)
        return self

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """The logarithms of the probabilities, one column per class; with two classes, their difference."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Probabilities, one column per class in the order of ``classes_``."""
        return np.exp(self._scores(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The most probable class of every row."""
        best = self._scores(X).argmax(1)
        return np.asarray(self.classes_[best])

    def _scores(self, X: Any) -> Floats:  # noqa: N803
        check_is_fitted(self)
        inputs = _checked(self, X, reset=False) if self._reader is None else self._reader.transform(X)
        shape = self._nets.shape
        if inputs.shape[1:] != shape:
            raise ValueError(f"X has rows of shape {inputs.shape[1:]}, but the classifier was fitted to {shape}")
        per_net = self._nets.scores(self._prepared(inputs))
        return np.asarray(logsumexp(log_softmax(per_net, 2), 0) - np.log(len(per_net)))

    def _prepared(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Images unchanged; features centred and scaled in float64, then converted to float32."""
        return inputs if self._scale is None else self._scale.standardise(inputs)

    def _train(self, data: Dataset, rows: Rows, seed: int) -> None:
        table = data.inputs.ndim == 2
        folds = _count("folds", self.folds, 5 if table else 2, least=2)
        # Copies of one net that are trained on the same batches stay equal.
        members = _count("members", self.members, 5 if table and not isinstance(self.model, nn.Module) else 1, least=1)
        nets = _TABLE_NETS if table and self.model is None else (self.model,)
        methods = (ERM(read_loss(self.loss)),) if self.loss is not None else _methods(len(data.classes), table)
        self.audit_: Audit | None = None
        weight = rows.weight
        best = _Candidate(nets[0], methods[0])
        if folds and len(data) >= FEWEST:
            fold = assign_folds(data.labels, rows.cell, folds)
            scores = self._held_out_scores(data, weight, fold, best, seed)
            for change in [{"net": net} for net in nets[1:]] + [{"method": other} for other in methods[1:]]:
                candidate = best._replace(**change)
                other_scores = self._held_out_scores(data, weight, fold, candidate, seed)
                if _predicts_more(other_scores, scores, data.labels, weight):
                    best, scores = candidate, other_scores
            audit = audit_scores(data.labels, scores=scores, kind="logits", classes=data.classes, seed=seed)
            self.audit_ = replace(audit, index=rows.order)
            if self.audit_.noise_rate < 0.5:  # NaN if unknown; above, wrong labels may be the majority
                weight = weight * (1 - self.audit_.wrong_probability)
        self._nets = self._fit(data, np.tile(weight, (members, 1)), best, seed + 1)

    def _held_out_scores(self, data: Dataset, weight: Floats, fold: Ints, candidate: "_Candidate", seed: int) -> Floats:
        """Scores of every row, from the net that was not trained on it."""
        folds = np.unique(fold)
        trained = self._fit(data, weight * (fold != folds[:, None]), candidate, seed)
        return trained.scores(np.asarray(data.inputs))[np.searchsorted(folds, fold), np.arange(len(data))]

    def _fit(self, data: Dataset, weight: Floats, candidate: "_Candidate", seed: int) -> Nets:
        size = _count("batch_size", self.batch_size, int(np.clip(len(data) // 8, 16, 128)), least=2)
        epochs = _count("epochs", self.epochs, max(10, -(-_STEPS * size // len(data))), least=1)
        plan = resolve(
            data, model=candidate.net, method=candidate.method, lr=self.lr, epochs=epochs, batch_size=size,
            validation=0.0, seed=seed, device=self.device,
        )  # fmt: skip
        recipe, method = plan.recipe, plan.method
        assert isinstance(method, ERM)
        if self.verbose:
            print(f"{len(weight)} x {recipe.model}, {recipe.method}, {epochs} epochs of {len(data)} rows", flush=True)
        net = recipe.model if candidate.net is None else candidate.net
        return train_together(data, weight, net, method, recipe)

    def _set_suspects(self, rows: Rows, count: int) -> None:
        audit = self.audit_
        self.wrong_probability_ = np.full(count, np.nan)
        self.suspects_ = np.zeros(0, np.int64)
        self.noise_rate_ = np.nan if audit is None else audit.noise_rate
        if audit is None or not audit.can_tell:
            return
        # Equal rows may have been judged by different nets; they get the mean of the results.
        copies = np.bincount(rows.content)
        wrong, score = (
            (np.bincount(rows.content, weights=values) / copies)[rows.content]
            for values in (audit.wrong_probability, audit.score)
        )
        self.wrong_probability_[rows.order] = wrong
        rank = np.zeros(count)  # the score decides where probabilities round to 1
        rank[rows.order] = score
        suspects = np.flatnonzero(self.wrong_probability_ >= audit.threshold)
        self.suspects_ = suspects[np.lexsort((-rank[suspects], -self.wrong_probability_[suspects]))]


def _methods(classes: int, table: bool) -> tuple[ERM, ...]:
    default = method(default_method(classes))
    assert isinstance(default, ERM)
    return (default, ERM(GCE(q=0.7))) if table else (default,)


class _Candidate(NamedTuple):
    """A net and a method that are compared on held-out labels."""

    net: Any
    method: ERM


def _predicts_more(new: Floats, old: Floats, labels: Ints, weight: Floats) -> bool:
    """Whether the new scores predict more labels, by more than the standard error of the difference.

    Wrong labels lower the accuracy of both, but symmetric noise does not change their order.
    """
    gained = weight * (1.0 * (new.argmax(1) == labels) - (old.argmax(1) == labels))
    return bool(gained.sum() > np.sqrt((gained**2).sum()))


def _check_labels(labels: Any) -> None:
    """Raise ValueError for labels that scikit-learn would accept as a class, or reject with an unclear message."""
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
    """Raise ValueError for a negative weight, with its index. scikit-learn checks everything else."""
    _check_not_masked(weights, "sample_weight")
    given = np.asarray(weights)
    if given.dtype.kind in "if" and (given < 0).any():
        first = int((given < 0).argmax())
        raise ValueError(f"sample_weight is {given.flat[first]} at index {first}: weights must be 0 or more")


def _check_not_masked(values: Any, name: str) -> None:
    if np.ma.is_masked(values):
        raise ValueError(f"{name} is a masked array with masked values: fill them, or leave those rows out")


def _checked(estimator: RobustClassifier, inputs: Any, *labels: Any, **options: Any) -> Any:
    """Inputs, and labels if given, as scikit-learn checks them: images stay uint8, everything else becomes float64."""
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
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn's sum that detects NaN may overflow
        return validate_data(estimator, inputs, *labels, **options, **kind)


def _count(name: str, value: int | None, default: int, least: int) -> int:
    if value is None:
        return default
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
