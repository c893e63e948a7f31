"""Random numbers drawn from explicit keys, by the same key, the same numbers: `ad.random.normal(key, shape)`."""

from codegen.lazily import lazily

from .errors import hint_in
from .ops.random import *
from .ops.random import __all__ as __all__
from .ops.random import __doc__ as __doc__

__getattr__, __dir__ = lazily(globals(), {}, hint_in)
