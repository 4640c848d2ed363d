from .augment import CropFlip as CropFlip
from .batches import Batch as Batch, Batches as Batches
from .corrections import Corrections as Corrections, read_content as read_content
from .dataset import Dataset as Dataset, Inputs as Inputs, Numeric as Numeric, Tracklets as Tracklets
from .files import data_folder as data_folder
from .given import Data as Data, is_object as is_object
from .growth import Growth as Growth
from .images import LazyImages as LazyImages, Unreadable as Unreadable
from .reading import Samples as Samples, describe as describe, read_like as read_like
from .records import Column as Column, Records as Records, texts as texts
from .registry import DATASETS as DATASETS, load as load
from .splits import Part as Part, Splits as Splits, split as split
from .statistics import Statistics as Statistics
