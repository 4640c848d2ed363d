"""The registry of noise models, and ``noise_model``, which reads a spec."""

from pyrite.noise.class_noise import Asymmetric, Clean, Flip, Flip2, Flips, Pairs, Symmetric, Uniform
from pyrite.noise.given_matrix import Matrix
from pyrite.noise.human import Human
from pyrite.noise.instance import Instance
from pyrite.noise.model import Noise
from pyrite.spec import Registry

__all__ = ["NOISES", "noise_model"]

NOISES: Registry[Noise] = Registry(
    "noise",
    {
        "clean": Clean,
        "symmetric": Symmetric,
        "uniform": Uniform,
        "flip": Flip,
        "flip2": Flip2,
        "flips": Flips,
        "asymmetric": Asymmetric,
        "pairs": Pairs,
        "matrix": Matrix,
        "human": Human,
        "instance": Instance,
    },
    Noise,
    "symmetric(0.4)",
)


def noise_model(spec: str | Noise) -> Noise:
    """The noise model described by ``spec``; a noise model is returned unchanged.

    >>> noise_model("symmetric(0.4, exact=True)")
    Symmetric(rate=0.4, exact=True)
    """
    return NOISES.read(spec)
