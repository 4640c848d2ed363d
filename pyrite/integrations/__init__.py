"""Other people's tools, each thin and optional."""

from pyrite.integrations.tensorboard import TensorBoard

__all__ = ["TensorBoard"]
