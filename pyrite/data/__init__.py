"""Data sets: reading them safely in their official formats, splits, and batches.

The public names are listed in ``__init__.pyi``. Each is imported on first use, so that only batches load torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
