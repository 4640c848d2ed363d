from .annotations import (
    Annotations as Annotations,
    annotation_cells as annotation_cells,
    annotation_numbers as annotation_numbers,
    are_several as are_several,
)
from .augment import CropFlip as CropFlip, Growth as Growth
from .batches import Batch as Batch, Batches as Batches
from .copies import checksums as checksums, content as content, digest as digest
from .corrections import Corrections as Corrections, read_content as read_content
from .dataset import (
    Dataset as Dataset,
    Inputs as Inputs,
    Numeric as Numeric,
    Samples as Samples,
    Tracklets as Tracklets,
    describe as describe,
    is_missing as is_missing,
)
from .files import data_folder as data_folder
from .folders import named_files as named_files
from .images import LazyImages as LazyImages, Unreadable as Unreadable
from .items import check_like as check_like
from .python_objects import (
    has_labels as has_labels,
    is_collection as is_collection,
    is_object as is_object,
    with_labels as with_labels,
)
from .records import (
    Column as Column,
    InputKind as InputKind,
    Records as Records,
    Schema as Schema,
    kind_of as kind_of,
    listed as listed,
    shown as shown,
    texts as texts,
)
from .registry import (
    DATASETS as DATASETS,
    Data as Data,
    load as load,
    read_like as read_like,
)
from .splits import Part as Part, Splits as Splits, first_members as first_members, split as split
from .statistics import Statistics as Statistics
from .tables import (
    check_order as check_order,
    frame_table as frame_table,
    is_frame as is_frame,
    read_records as read_records,
    table_of as table_of,
)
