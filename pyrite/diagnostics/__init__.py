"""Measurements of training and its results, computed from arrays. Nothing here uses a model."""

from pyrite.diagnostics.embeddings import Retrieval, embed_sets, local_intrinsic_dimension, retrieve
from pyrite.diagnostics.epochs import (
    MARGIN_EDGES,
    SubsetAccuracies,
    Tally,
    accuracy,
    clearly_better,
    effective_samples,
    epoch_weight,
    hybrid_accuracy,
    subset_accuracies,
    weight_statistics,
)
from pyrite.diagnostics.scores import (
    BestF1,
    Detection,
    Reliability,
    average_precision,
    best_f1,
    brier_score,
    brier_score_of_event,
    detection,
    precision_at,
    reliability,
    roc_auc,
    top_label,
)

__all__ = [
    "MARGIN_EDGES", "BestF1", "Detection", "Reliability", "Retrieval", "SubsetAccuracies", "Tally", "accuracy",
    "average_precision", "best_f1", "brier_score", "brier_score_of_event", "clearly_better", "detection",
    "effective_samples", "embed_sets", "epoch_weight", "hybrid_accuracy", "local_intrinsic_dimension", "precision_at",
    "reliability", "retrieve", "roc_auc", "subset_accuracies", "top_label", "weight_statistics",
]  # fmt: skip
