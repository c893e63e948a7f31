"""Random numbers drawn from explicit keys, by the same key, the same numbers: `ad.random.normal(key, shape)`."""

from .ops.random import *
from .ops.random import __all__ as __all__
from .ops.random import __doc__ as __doc__


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
