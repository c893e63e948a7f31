"""Linear algebra, by NumPy's names: `ad.linalg.solve`, `inv`, `det`, `svd`, `eigh`, ..."""

from codegen.lazily import lazily

from .errors import hint_in
from .ops.linalg import *
from .ops.linalg import __all__ as __all__
from .ops.linalg import __doc__ as __doc__

__getattr__, __dir__ = lazily(globals(), {}, hint_in)
