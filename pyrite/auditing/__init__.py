"""Which labels are wrong, from scores or margins: arrays in, an ``Audit`` out. ``pyrite.run_audits`` also trains.

The public names are listed in ``__init__.pyi``. Each is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
