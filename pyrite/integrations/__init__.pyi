from .hugging_face import HFLoss as HFLoss, hf_loss as hf_loss
from .indexed import Indexed as Indexed
from .logged import Log as Log, Logged as Logged
from .tensorboard import TensorBoard as TensorBoard
