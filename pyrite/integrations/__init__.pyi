from .hugging_face import HFLoss as HFLoss, hf_fuse as hf_fuse, hf_loss as hf_loss
from .indexed import Indexed as Indexed
from .label_studio import write_label_studio as write_label_studio
from .loggers import Log as Log, Logged as Logged, TensorBoard as TensorBoard
