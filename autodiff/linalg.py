"""Linear algebra, by NumPy's names: `ad.linalg.solve`, `inv`, `det`, `svd`, `eigh`, ..."""

from .ops.linalg import *
from .ops.linalg import __all__ as __all__
from .ops.linalg import __doc__ as __doc__


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
