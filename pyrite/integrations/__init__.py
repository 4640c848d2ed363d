"""Adapters for other libraries, each thin and optional.

The names are listed in ``__init__.pyi`` and imported when they are first used, so that no other library is imported
before its adapter is. Subclasses of a library's classes, such as a Lightning callback, are in a module with the
library's name: ``pyrite.integrations.lightning``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
