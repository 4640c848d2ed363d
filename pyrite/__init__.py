"""pyrite: learning from labels that are partly wrong.

The public names stand in ``__init__.pyi``; each is imported when it is first used, so that ``import pyrite`` and
``pyrite --help`` do not load torch.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
