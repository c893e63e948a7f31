"""Special functions, by SciPy's names: `ad.special.gammaln`, `erf`, `i0`, ..."""

from .ops.special import *
from .ops.special import __all__ as __all__
from .ops.special import __doc__ as __doc__


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
