from .contract import (
    Encoder as Encoder,
    Features as Features,
    State as State,
    read_state as read_state,
    state_bytes as state_bytes,
)
from .embedding import OwnModule as OwnModule
from .registry import (
    FEATURES as FEATURES,
    as_numbers as as_numbers,
    default_features as default_features,
    encoder as encoder,
)
