"""The operations: everything that `ad.*` computes, each declared in one place.

    primitive    how an operation is declared      declare                public functions: arguments, elementwise ones
    conversion   into tensors, between dtypes      operators, protocols   how users reach them

All operations raise DTypeError for a dtype that their signature does not admit (f, i, c, bool; T: any dtype),
ShapeError for shapes that do not broadcast, DispatchError for a type without a method.  Docstrings list further errors.

`ad.*` has every generic function whose name has no underscore in front.  Operators, methods and NumPy's functions find
the function to call by its name.  A trailing underscore (`abs_`) keeps Python's function visible in the library.
"""

import sys

from codegen.lazily import imported, lazily

from ..custom.function import Function
from ..tape.machine import WHEN_REPEATED
from .arithmetic import *
from .conditions import *
from .contraction import *
from .conversion import *
from .conversion import as_tensor as as_tensor
from .conversion import cast_to as cast_to
from .conversion import dtype_of as dtype_of
from .creation import *
from .diagonals import *
from .einsum import *
from .elementwise import *
from .extremes import *
from .gathering import *
from .indexing import *
from .joining import *
from .operators import attach
from .padding import *
from .power import *
from .primitive import spread_to as spread_to
from .primitive import sum_to as sum_to
from .primitive import zeros_of as zeros_of
from .protocols import counterparts, reductions
from .rearranging import *
from .reductions import *
from .rows import *
from .shaping import *
from .statistics import *

abs, all, any, max, min, round, sum = abs_, all_, any_, max_, min_, round_, sum_

#: Further names of functions, by their main name: those of the Array API and of NumPy.
_ALSO = {
    "abs": "absolute", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "bitwise_invert": "bitwise_not invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "concatenate": "concat", "conj": "conjugate", "divide": "true_divide",
    "matrix_transpose": "mT", "max": "amax", "min": "amin", "mod": "remainder", "power": "pow", "round": "around",
    "transpose": "permute_dims",
}  # fmt: skip
#: The public functions, by all their names.
_PUBLIC = {f.__name__: f for f in [*globals().values()] if isinstance(f, Function)} | {"full": full}
_PUBLIC |= {also: _PUBLIC[name] for name, others in _ALSO.items() for also in others.split()}
# `elementwise` and `primitive` are files here, and also functions of `primitive`: the names stay with the files.
globals().update(_PUBLIC | {file: sys.modules[f"{__name__}.{file}"] for file in ("elementwise", "primitive")})
__all__ = sorted({*_PUBLIC} - {"getitem", "index_update"})  # users write these two as x[...] and x[...] = y

#: The module of each function that many programs never use, by name: it is imported when the name is first read.
LATER = {
    name: home
    for home, names in {
        "elementwise_late": "cbrt deg2rad degrees elu exp2 gelu heaviside leaky_relu log_sigmoid mish "
        "nan_to_num rad2deg radians relu6 selu silu sinc",
        "floats": "angle copysign divmod fabs fix float_power fmax fmin fmod frexp iscomplex isneginf isposinf isreal "
        "ldexp modf nextafter signbit",
        "nan_reductions": "median nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin "
        "nanpercentile nanprod nanquantile nanstd nansum nanvar percentile quantile",
        "searching": "allclose argwhere array_equal digitize flatnonzero histogram interp isclose isin nonzero "
        "searchsorted",
        "sequences": "convolve correlate ediff1d gradient polyval trapezoid unwrap vander",
        "special_normal": "erfinv",
        "stacking": "append array_split atleast_1d atleast_2d atleast_3d broadcast_arrays column_stack cumulative_prod "
        "cumulative_sum diagflat dsplit dstack fliplr flipud geomspace hsplit hstack identity indices logspace rot90 "
        "tri vsplit vstack",
        "summaries": "average bincount corrcoef count_nonzero cov cross kron matvec ptp vdot vecdot vecmat",
    }.items()
    for name in names.split()
}
_find, __dir__ = lazily(globals(), {name: name for name in ("fft", "linalg", "random", "special")} | LATER)


def __getattr__(name: str) -> object:
    found = _find(name)
    if name in LATER:
        counterparts((name,), globals())
    return found


attach(globals())
reductions(globals())
counterparts(__all__, globals())

# The machine code that records operations is installed once a program repeats itself.
WHEN_REPEATED.append(lambda: imported("autodiff.ops.recorder").install_once())
