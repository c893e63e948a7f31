"""The operations: everything that `ad.*` computes, each declared in one place.

    primitive    how an operation is declared        declare     elementwise ones, as public functions
    conversion   into tensors, between dtypes        promotion   one dtype for several operands
    one_node     for the native recorder             operators, protocols, methods    how users reach them

What all raise: DTypeError for a dtype that the letters of a signature (f, i, c, bool; T: any) do not stand for,
ShapeError where shapes do not broadcast, DispatchError for a type without a method.  What else, each says.

`__all__` holds the public functions under their public names.  Names with a trailing underscore
(`abs_`) keep Python's own visible inside the library.
"""

from typing import TYPE_CHECKING

from codegen.lazily import imported, lazily

from ..tape.machine import WHEN_REPEATED
from . import methods as methods
from . import operators as operators
from . import protocols as protocols
from .along import take_along_axis
from .angles import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)
from .arithmetic import abs_ as abs
from .arithmetic import (
    add,
    divide,
    floor_divide,
    hypot,
    mod,
    multiply,
    negative,
    positive,
    reciprocal,
    sign,
    subtract,
)
from .bits import bitwise_and, bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor
from .bits import bitwise_not as bitwise_invert
from .comparison import (
    equal,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from .complexes import conj, imag, real
from .contraction import dot, inner, matmul, outer, tensordot
from .conversion import as_tensor as as_tensor
from .conversion import astype, dense
from .conversion import cast_to as cast_to
from .conversion import dtype_of as dtype_of
from .creation import (
    arange,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .einsum import einsum
from .elementwise import erf, exp, expm1, log, log1p, log2, log10, sigmoid, softplus, sqrt
from .extremes import cummax, cummin, nanmax, nanmean, nanmin, nansum
from .gathering import take
from .gradients import project, stop_gradient, unbroadcast
from .indexing import add_at
from .indexing import getitem as getitem
from .indexing import index_update as index_update
from .inverse_error import erfinv
from .joining import concatenate, split, stack
from .linalg_basic import diag, diagonal, norm, trace
from .padding import pad
from .power import power, square
from .primitive import spread_to as spread_to
from .primitive import sum_to as sum_to
from .primitive import zeros_of as zeros_of
from .products import prod
from .rearranging import diff, meshgrid, repeat, roll, tile, unstack
from .reductions import all_ as all
from .reductions import any_ as any
from .reductions import argmax, argmin
from .reductions import max_ as max
from .reductions import min_ as min
from .reductions import sum_ as sum
from .rounding import ceil, floor, rint, trunc
from .rounding import round_ as round
from .scans import cumprod, cumsum
from .segments import one_hot, segment_sum
from .selection import clip, maximum, minimum, relu, where
from .shaping import (
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    ravel,
    reshape,
    squeeze,
    swapaxes,
    transpose,
)
from .sorting import argsort, sort
from .statistics import log_softmax, logaddexp, logsumexp, mean, softmax, std, var
from .triangles import tril, triu

if TYPE_CHECKING:
    from . import fft as fft
    from . import linalg as linalg
    from . import random as random
    from . import special as special
    from .activations import *  # as `LATER` has them
    from .choosing import *
    from .floats import *
    from .grids import *
    from .nans import *
    from .quantiles import *
    from .rarer import *
    from .searching import *
    from .sequences import *
    from .stacking import *
    from .summaries import *

#: Functions that many programs never use are imported when one is first asked for: by name, the module that has it.
LATER = {
    **dict.fromkeys(("median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"), "quantiles"),
    **dict.fromkeys(
        ("argwhere", "array_equal", "flatnonzero", "isin", "nanargmax", "nanargmin", "nonzero", "select"), "choosing"),
    **dict.fromkeys(
        ("broadcast_arrays", "cumulative_prod", "cumulative_sum", "diagflat", "geomspace", "identity", "indices",
         "logspace", "tri"), "grids"),
    **dict.fromkeys(
        ("angle", "copysign", "divmod", "fabs", "fix", "float_power", "fmax", "fmin", "fmod", "frexp", "iscomplex",
         "isneginf", "isposinf", "isreal", "ldexp", "modf", "nextafter", "signbit"), "floats"),
    **dict.fromkeys(("digitize", "histogram", "interp", "searchsorted"), "searching"),
    **dict.fromkeys(
        ("convolve", "correlate", "ediff1d", "gradient", "polyval", "trapezoid", "unwrap", "vander"), "sequences"),
    **dict.fromkeys(
        ("allclose", "cbrt", "cross", "deg2rad", "degrees", "exp2", "fliplr", "flipud", "heaviside", "isclose", "kron",
         "logaddexp2", "nan_to_num", "rad2deg", "radians", "rot90", "sinc"), "rarer"),
    **dict.fromkeys(
        ("elu", "gelu", "leaky_relu", "log_sigmoid", "mish", "relu6", "selu", "silu"), "activations"),
    **dict.fromkeys(
        ("append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "column_stack", "dsplit", "dstack",
         "hsplit", "hstack", "vsplit", "vstack"), "stacking"),
    **dict.fromkeys(
        ("average", "bincount", "corrcoef", "count_nonzero", "cov", "matvec", "ptp", "vdot", "vecdot", "vecmat"),
        "summaries"),
    **dict.fromkeys(("nancumprod", "nancumsum", "nanprod", "nanstd", "nanvar"), "nans"),
}  # fmt: skip
__getattr__, __dir__ = lazily(globals(), {name: name for name in ("fft", "linalg", "random", "special")} | LATER)

# Recording in machine code, for programs that repeat themselves.
WHEN_REPEATED.append(lambda: imported("autodiff.ops.recorder").install_once())

# The Array API's names for the same functions.
concat, permute_dims, mT = concatenate, transpose, matrix_transpose
absolute, remainder, pow = abs, mod, power
# NumPy's other names.
amax, amin, around, conjugate, true_divide = max, min, round, conj, divide
bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
acos, asin, atan, atan2 = arccos, arcsin, arctan, arctan2
acosh, asinh, atanh = arccosh, arcsinh, arctanh

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "add_at",
    "all",
    "amax",
    "amin",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "around",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "broadcast_to",
    "ceil",
    "clip",
    "concat",
    "concatenate",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dense",
    "diag",
    "diagonal",
    "diff",
    "divide",
    "dot",
    "einsum",
    "empty",
    "empty_like",
    "equal",
    "erf",
    "erfinv",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "flip",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "inner",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "mT",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "mod",
    "moveaxis",
    "multiply",
    "nanmax",
    "nanmean",
    "nanmin",
    "nansum",
    "negative",
    "norm",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "permute_dims",
    "positive",
    "pow",
    "power",
    "prod",
    "project",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "right_shift",
    "rint",
    "roll",
    "round",
    "segment_sum",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "unbroadcast",
    "unstack",
    "var",
    "where",
    "zeros",
    "zeros_like",
]
