"""Data sets: read safely in their official formats, parted, and given out in batches.

The names stand in ``__init__.pyi``; each is imported when it is first used, so that only batches load torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
