"""``RobustClassifier``: for tables and images whose labels are partly wrong."""

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self, final

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import nn

from pyrite.auditing import FEWEST, Audit, audit_scores
from pyrite.checks import is_whole, whole_number
from pyrite.data import Schema
from pyrite.data.copies import copy_groups
from pyrite.data.dataset import is_missing
from pyrite.data.items import check_like, to_numbers
from pyrite.data.statistics import to_float64
from pyrite.data.tables import check_order, is_frame
from pyrite.errors import PyriteError
from pyrite.estimator.candidates import Candidate, Inputs, KernelCandidate, boosting, is_estimator, linear, wrap
from pyrite.estimator.mixture import judge, train_mixture, why_doubtful
from pyrite.estimator.nets import NetCandidate
from pyrite.estimator.rows import Floats, Ints, Reader, Rows, assign_folds, inner_statistics, plain_rows
from pyrite.losses import loss as read_loss
from pyrite.methods import ERM, method
from pyrite.run_audits import default_method
from pyrite.training import RunFailed

_TABLE_NET: Final = "mlp(hidden=(128, 128), limit=3, centred=True)"

_SMALL: Final = 1000  # rows and features up to which a kernel takes less time than nets, and predicts better

_STEPS: Final = 100
"""The least number of training steps on a table. More steps memorise wrong labels: docs/sklearn.md."""


@final
class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that does not memorise wrong labels and identifies them.

    Cross-validation computes held-out scores of every row. For tables, the models are kernel regression or nets,
    gradient boosting and linear models. Their weights in the prediction are fitted to the given labels of the held-out
    rows. An audit of the scores estimates the probability that each label is wrong. Then the models are trained on all
    rows: nets weight each row by the probability that its label is right, and boosting leaves out rows whose label is
    likely wrong. The prediction is the weighted mean of the probabilities of the models.

    ``fit`` issues a warning if the model may confuse classes.

    The result does not depend on the order of the rows. Up to 100,000 rows, a sample weight of 2 gives bit-identical
    results to two copies of the row.

    Args:
        loss: the loss of nets or its spec string, such as ``"gce(q=0.7)"``; if it is given, only nets are trained. None
            for the absolute error, scaled if there are many classes.
        model: a scikit-learn classifier; the spec string of a net, such as ``"resnet20"``; an ``nn.Module``, which is
            copied before training; a function that creates a module for an input shape and a number of classes; or a
            list of these, whose weights are fitted to held-out labels. None for a default that depends on the data. For
            tables, the default includes nets above 1,000 rows or features, or if ``epochs``, ``batch_size``, ``lr`` or
            ``members`` is set.
        epochs: the number of passes over the data for nets; None for at least 10 epochs and 100 steps.
        batch_size: the number of rows per step; None for an eighth of all rows, from 16 to 128.
        lr: the learning rate of nets; None for a default that depends on the net and the loss.
        folds: the number of folds for held-out scores; 0 to skip the audit. None for 5 (tables) or 2 (images).
        members: the number of nets whose predictions are averaged. None for 5 (tables) or 1 (images, and if ``model``
            is an ``nn.Module``).
        random_state: an integer for reproducible results; None for a new seed in each call of ``fit``.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``; ``"auto"`` selects a GPU if available.
        verbose: whether to print a line for each model that is trained.

    Attributes:
        classes_: the distinct labels, sorted.
        n_features_in_: the number of features of a row, or channels of an image.
        feature_names_in_: the names of the columns, if ``X`` had column names that are strings.
        audit_: the result of the audit, whose ``index`` contains the positions of the rows; None without an audit, or
            with too few rows.
        wrong_probability_: the probability that the label of each row is wrong; NaN where it cannot be estimated.
        suspects_: the positions of rows with suspect labels, in decreasing order of the probability of a wrong label.
        noise_rate_: the estimated fraction of wrong labels; NaN where it cannot be estimated.
        choice_: the candidate models, their weights in the prediction, and the fraction of held-out labels that each
            predicts.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> RobustClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        loss: Any = None,
        *,
        model: Any = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        folds: int | None = None,
        members: int | None = None,
        random_state: int | None = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.loss, self.model = loss, model
        self.epochs, self.batch_size, self.lr = epochs, batch_size, lr
        self.folds, self.members = folds, members
        self.random_state, self.device, self.verbose = random_state, device, verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Fit to rows of features, images of shape (N, C, H, W), a data frame, a list of texts, or a data set.

        The columns of a frame can be numbers with missing values, booleans, categories, dates or texts. A ``Dataset``
        or ``DataLoader`` of PyTorch or a ``Dataset`` of Hugging Face contains its labels; if the label column cannot be
        inferred, pass its name as ``y``.
        """
        check_order(X, y, "y")
        check_order(X, sample_weight, "sample_weight")
        X, y = plain_rows(X, y)  # noqa: N806
        _check_labels(y)
        _check_weights(sample_weight)
        self._reader, self._columns = Reader.for_rows(X), [*X.columns] if is_frame(X) else []
        inputs, given = _checked(self, X if self._reader is None else self._reader.transform(X), y)
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        seed = _seed(self.random_state)
        rows = Rows.of(inputs, labels, weight, seed)
        if len(np.unique(labels[rows.order])) < 2:
            raise PyriteError("labels with a positive weight are all of one class: a classifier needs two or more")
        used = inputs[rows.order]
        self._scale = inner_statistics(used) if inputs.ndim == 2 else None
        self._shape = inputs.shape[1:]
        described: dict[str, Any] = {"kind": "images", "shape": self._shape, "columns": {}, "dtype": str(inputs.dtype)}
        if self._reader is not None:
            described = self._reader.described
        elif inputs.ndim == 2:
            described |= {"kind": "numbers", "dtype": ""}
        self._like = Schema(**described)
        try:
            self._train(Inputs(used, self._prepared(used)), labels[rows.order], rows, seed)
        except RunFailed as error:
            raise PyriteError(
                f"training diverged, {str(error).partition('. ')[0]}: set lr to a tenth of that"
            ) from None
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
        rows, _ = plain_rows(X, like=self._like)
        names = [*getattr(self, "feature_names_in_", ())]
        if is_frame(rows) and rows is not X and {*names} <= {*rows.columns}:  # a data set still has its labels
            rows = rows[names]
        given = [*rows.columns] if is_frame(rows) and not names else self._columns
        if given != self._columns and {*given} == {*self._columns}:  # scikit-learn checks columns that are texts alone
            raise PyriteError("X has the columns in another order than in fit: give it the same order")
        inputs = _checked(self, rows, reset=False) if self._reader is None else self._reader.transform(rows)
        if inputs.shape[1:] != self._shape:
            raise PyriteError(f"X has rows of shape {inputs.shape[1:]}, but the classifier was fitted to {self._shape}")
        if inputs.ndim == 4:
            check_like(inputs.shape, inputs.dtype, self._like, "X")
        return self._mixture.log_probabilities(Inputs(inputs, self._prepared(inputs)))

    def _prepared(self, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Images unchanged; features centred and scaled in float64, then converted to float32."""
        return inputs if self._scale is None else self._scale.standardise(inputs)

    def _train(self, features: Inputs, labels: Ints, rows: Rows, seed: int) -> None:
        folds = _count("folds", self.folds, 5 if features.scaled.ndim == 2 else 2, least=2)
        held_out = folds > 0 and len(labels) >= FEWEST
        candidates = self._candidates(features, held_out, weighted=bool(np.ptp(rows.weight)))
        fold = assign_folds(labels, copy_groups(features.given), folds) if held_out else None
        judged = judge(candidates, features, labels, rows.weight, fold, seed)
        self.audit_: Audit | None = None
        right = judged.right
        if held_out:
            names = tuple(map(str, self.classes_))
            audit = audit_scores(labels, scores=judged.scores, kind="log-probabilities", classes=names, seed=seed)
            self.audit_ = replace(audit, index=rows.order)
            if right is None and audit.noise_rate < 0.5:  # NaN if unknown; above, wrong labels may be the majority
                right = 1 - audit.wrong_probability
            self._warn(audit, judged.scores, labels, rows.weight)
        self.choice_ = judged.choice
        if self.verbose:
            print(self.choice_, flush=True)
        self._mixture = train_mixture(candidates, judged, features, labels, rows.weight, right, seed)

    def _candidates(self, features: Inputs, held_out: bool, weighted: bool) -> list[Candidate]:
        """What is trained. Without held-out labels nothing weighs the models of a table, and it is nets alone."""
        table = features.scaled.ndim == 2
        models = self.model if isinstance(self.model, list | tuple) else [self.model]
        if not models:
            raise PyriteError("model is an empty list: name at least one model")
        if any(map(is_estimator, models)) and not table:
            raise PyriteError("model is a classifier of scikit-learn, which takes rows of features, but X is images")
        if self.model is None and self.loss is None and table and held_out:
            return self._table_models(features)
        found: list[Candidate] = [
            wrap(model, self.classes_, weighted, self.verbose) if is_estimator(model) else self._nets(model, features)
            for model in models
        ]
        if all(map(is_estimator, models)):
            self._check_without_nets(models[0])
        return found

    def _check_without_nets(self, model: Any) -> None:
        """Raise ``PyriteError`` if something is set that a classifier of scikit-learn does not have."""
        for name in ("loss", "epochs", "batch_size", "lr", "members"):
            if (value := getattr(self, name)) is not None:
                raise PyriteError(f"{name} is {value!r}, but {type(model).__name__} is not a net: omit {name}")

    def _table_models(self, features: Inputs) -> list[Candidate]:
        """A smooth model, trees and linear ones. The smooth one is nets if the table is large or nets are set up."""
        small = max(features.scaled.shape) <= _SMALL
        nets_are_set_up = any(each is not None for each in (self.epochs, self.batch_size, self.lr, self.members))
        kernel = KernelCandidate(len(self.classes_), self.verbose) if small and not nets_are_set_up else None
        trees = boosting(self.classes_, features.scaled.shape[1], together=small, verbose=self.verbose)
        return [kernel or self._nets(None, features), *trees, *linear(self.classes_, self.verbose)]

    def _nets(self, model: Any, features: Inputs) -> NetCandidate:
        table, count = features.scaled.ndim == 2, len(features.scaled)
        size = _count("batch_size", self.batch_size, int(np.clip(count // 8, 16, 128)), least=2)
        # Copies of one net that are trained on the same batches stay equal.
        several = table and not isinstance(model, nn.Module)
        return NetCandidate(
            net=_TABLE_NET if table and model is None else model,
            method=method(default_method(len(self.classes_))) if self.loss is None else ERM(read_loss(self.loss)),
            classes=tuple(map(str, self.classes_)),
            epochs=_count("epochs", self.epochs, max(10, -(-_STEPS * size // count)), least=1),
            batch_size=size,
            lr=self.lr,
            members=_count("members", self.members, 5 if several else 1, least=1),
            device=self.device,
            verbose=self.verbose,
        )

    def _warn(self, audit: Audit, scores: Floats, labels: Ints, weight: Floats) -> None:
        """Warn if the prediction may take a wrong class for the right one."""
        names = tuple(map(str, self.classes_))
        reason = why_doubtful(scores, labels, weight, names)
        if audit.noise_rate >= 0.5:
            reason = f"{100 * audit.noise_rate:.0f} % of the labels seem to be wrong"
        if reason:
            warnings.warn(f"{reason}: the classifier may predict wrong classes", UserWarning, stacklevel=4)

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


def _check_labels(labels: Any) -> None:
    """Raise an error for labels that scikit-learn would accept as a class, or reject with an unclear message."""
    _check_not_masked(labels, "y")
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "OUT":
        return
    first: dict[bool, int] = {}  # the index of the first text, and of the first number
    for index, label in enumerate(given):
        is_text = isinstance(label, str)
        missing = is_missing(label) if is_text else label is None or type(label).__name__ in ("NAType", "NaTType")
        if missing or label != label:
            shown = repr(str(label)) if is_text else repr(label)
            raise PyriteError(f"y is {shown} at index {index}: a row without a label cannot be trained on")
        first.setdefault(is_text, index)
    if len(first) == 2:
        one, two = (f"{given[index]!r} at index {index}" for index in sorted(first.values()))
        raise PyriteError(f"y mixes texts and numbers, such as {one} and {two}: write all labels as texts")


def _check_weights(weights: Any) -> None:
    """Raise an error for a negative weight, with its index. scikit-learn checks everything else."""
    _check_not_masked(weights, "sample_weight")
    given = np.asarray(weights)
    if given.dtype.kind in "if" and (given < 0).any():
        first = int((given < 0).argmax())
        raise PyriteError(f"sample_weight is {given.flat[first]} at index {first}: weights must be 0 or more")


def _check_not_masked(values: Any, name: str) -> None:
    if np.ma.is_masked(values):
        raise PyriteError(f"{name} is a masked array with masked values: fill them, or leave those rows out")


def _checked(estimator: RobustClassifier, inputs: Any, *labels: Any, **options: Any) -> Any:
    """Inputs, and labels if given, as scikit-learn checks them: images stay, everything else becomes float64."""
    _check_not_masked(inputs, "X")
    kind: dict[str, Any] = {"dtype": np.float64}
    if getattr(inputs, "ndim", 2) == 4:
        inputs = to_numbers(np.asarray(inputs))
        kind = {"dtype": inputs.dtype, "allow_nd": True}
    listed = inputs.tolist() if isinstance(inputs, np.ndarray) and inputs.dtype == object else inputs
    rows = np.asarray(None)
    with suppress(ValueError):  # of several lengths, which scikit-learn rejects
        rows = np.asarray(listed) if isinstance(listed, list | np.ndarray) else rows
    if rows.ndim == 2 and rows.dtype.kind in "iu":
        to_float64(rows, lambda row, column: f"X, row {row}, column {column}")
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn's sum that detects NaN may overflow
        try:
            return validate_data(estimator, inputs, *labels, **options, **kind)
        except ValueError as error:
            if "must be in the same order" not in str(error):
                raise
            raise PyriteError(f"{str(error).strip()} Pass X[list(classifier.feature_names_in_)].") from None


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
