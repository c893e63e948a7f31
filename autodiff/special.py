"""Special functions, by SciPy's names: `ad.special.gammaln`, `erf`, `i0`, ..."""

from codegen.lazily import lazily

from .errors import hint_in
from .ops.special import *
from .ops.special import __all__ as __all__
from .ops.special import __doc__ as __doc__

__getattr__, __dir__ = lazily(globals(), {}, hint_in)
