"""Other people's tools, each thin and optional.

The names stand in ``__init__.pyi``; each is imported when it is first used, and nothing here imports another tool
before somebody asks for its adapter. What must be a part of that tool, such as a Lightning callback, is in a module
that has the tool's name: ``pyrite.integrations.lightning``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
