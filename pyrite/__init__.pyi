from . import data as data, diagnostics as diagnostics, models as models, noise as noise
from .auditing import Audit as Audit, data_issues as data_issues
from .comparing import Comparison as Comparison, compare as compare
from .criterion import Loss as Loss
from .curves import (
    AEL as AEL,
    AGCE as AGCE,
    AUL as AUL,
    CE as CE,
    GCE as GCE,
    IMAE as IMAE,
    MAE as MAE,
    RCE as RCE,
    SCE as SCE,
    TCE as TCE,
    Curve as Curve,
    Focal as Focal,
    Peak as Peak,
    Scale as Scale,
    Shift as Shift,
    TruncatedGCE as TruncatedGCE,
    Unit as Unit,
    expected_margin as expected_margin,
    initial_margins as initial_margins,
    scale as scale,
    shift as shift,
)
from .data import (
    DATASETS as DATASETS,
    Batches as Batches,
    CropFlip as CropFlip,
    Dataset as Dataset,
    Splits as Splits,
    Statistics as Statistics,
    split as split,
)
from .demonstration import demo as demo
from .errors import PyriteError as PyriteError
from .estimator import RobustClassifier as RobustClassifier
from .exports import export as export
from .features import FEATURES as FEATURES, Encoder as Encoder
from .integrations import Logged as Logged, TensorBoard as TensorBoard, hf_fuse as hf_fuse, hf_loss as hf_loss
from .losses import (
    LOSSES as LOSSES,
    MSE as MSE,
    NCE as NCE,
    Backward as Backward,
    BootHard as BootHard,
    BootSoft as BootSoft,
    Confidence as Confidence,
    Forward as Forward,
    LinearLoss as LinearLoss,
    Normalised as Normalised,
    OwnLoss as OwnLoss,
    Peer as Peer,
    Smooth as Smooth,
    loss as loss,
    normalised as normalised,
    underfitting as underfitting,
    unit as unit,
)
from .methods import (
    ERM as ERM,
    L2RW as L2RW,
    METHODS as METHODS,
    Context as Context,
    Learner as Learner,
    MetaWeight as MetaWeight,
    Method as Method,
    Step as Step,
    Trainer as Trainer,
    method as method,
)
from .models import MODELS as MODELS, Architecture as Architecture, Network as Network, build_model as build_model
from .noise import (
    NOISES as NOISES,
    Noise as Noise,
    NoisyLabels as NoisyLabels,
    corrupt as corrupt,
    noise_model as noise_model,
)
from .papers import RECIPES as RECIPES, Reproduction as Reproduction, reproduce as reproduce
from .registration import register as register
from .run_audits import audit as audit
from .soft_margin import margin as margin, margins as margins
from .training import (
    Config as Config,
    Run as Run,
    RunFailed as RunFailed,
    Start as Start,
    check_on_net as check_on_net,
    fit as fit,
    measure_start as measure_start,
    train as train,
)
from .tuning import Trial as Trial, Tuning as Tuning, tune as tune
from .without_suspects import train_without_suspects as train_without_suspects

__version__: str
