"""Measurements of training and its results, computed from arrays. Nothing here uses a model."""

from pyrite.diagnostics.accuracy import (
    SubsetAccuracies,
    Tally,
    accuracy,
    clearly_better,
    hybrid_accuracy,
    subset_accuracies,
)
from pyrite.diagnostics.calibration import Reliability, brier_score, brier_score_of_event, reliability, top_label
from pyrite.diagnostics.detection import (
    BestF1,
    Detection,
    average_precision,
    best_f1,
    detection,
    precision_at,
    roc_auc,
)
from pyrite.diagnostics.dimension import local_intrinsic_dimension
from pyrite.diagnostics.retrieval import Retrieval, embed_sets, retrieve
from pyrite.diagnostics.weighting import MARGIN_EDGES, effective_samples, epoch_weight, weight_statistics

__all__ = [
    "MARGIN_EDGES",
    "BestF1",
    "Detection",
    "Reliability",
    "Retrieval",
    "SubsetAccuracies",
    "Tally",
    "accuracy",
    "average_precision",
    "best_f1",
    "brier_score",
    "brier_score_of_event",
    "clearly_better",
    "detection",
    "effective_samples",
    "embed_sets",
    "epoch_weight",
    "hybrid_accuracy",
    "local_intrinsic_dimension",
    "precision_at",
    "reliability",
    "retrieve",
    "roc_auc",
    "subset_accuracies",
    "top_label",
    "weight_statistics",
]
