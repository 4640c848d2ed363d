"""Retrieval of the same person: the quality of a trained net's embeddings, on data in tracklets."""

from typing import Any

import numpy as np
import torch

from pyrite.data import Batches, Dataset, Statistics
from pyrite.diagnostics import embed_sets, retrieve
from pyrite.errors import PyriteError
from pyrite.methods import Trainer
from pyrite.models import embed

__all__ = ["measure_retrieval"]


def measure_retrieval(trainer: Trainer, test: Dataset, scale: Statistics) -> dict[str, Any] | None:
    """Mean average precision and cumulative matches on a test part in tracklets; None if it is not.

    A tracklet is the mean of its frames' embeddings, brought to length 1; the gallery is every tracklet, without those
    of the same person in the same camera (see ``diagnostics.retrieve``).
    """
    learner, model, tracklets = trainer.learners[0], trainer.model, test.tracklets
    if tracklets is None:
        return None
    device = learner.weights[0].device
    batches = Batches(test.numeric, test.labels, batch_size=500, seed=0, shuffle=False, normalise=scale, device=device)
    model.eval()
    with torch.inference_mode():
        frames = np.concatenate([embed(model, learner.ready(batch.inputs)).float().cpu().numpy() for batch in batches])
    if len(frames) != len(test):
        raise PyriteError(
            f"{len(test) - len(frames)} frames of {test.name} cannot be read, so not all tracklets are known"
        )
    sets = embed_sets(frames, tracklets.start, tracklets.stop)
    query = tracklets.query
    result = retrieve(
        sets[query],
        sets,
        query_identity=tracklets.identity[query],
        gallery_identity=tracklets.identity,
        query_camera=tracklets.camera[query],
        gallery_camera=tracklets.camera,
    )
    return {
        "mean_average_precision": result.mean_average_precision,
        "cmc": {str(rank): fraction for rank, fraction in result.cmc.items()},
        "queries": result.queries,
        "without_match": result.without_match,
    }
