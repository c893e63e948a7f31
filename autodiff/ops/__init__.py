"""The operations: everything that `ad.*` computes, each declared in one place.

    primitive    how an operation is declared        declare     elementwise ones, as public functions
    conversion   into tensors, between dtypes        promotion   one dtype for several operands
    warm         the hot path of recording           operators, protocols, methods    how users reach them

`__all__` holds the public functions under their public names.  Names with a trailing underscore
(`abs_`) keep Python's own visible inside the library.
"""

from . import operators as operators
from . import protocols as protocols
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
from .elementwise import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    expm1,
    floor,
    log,
    log1p,
    log2,
    log10,
    rint,
    sigmoid,
    sin,
    sinh,
    softplus,
    sqrt,
    tan,
    tanh,
    trunc,
)
from .elementwise import round_ as round
from .power import power, square
from .primitive import spread_to as spread_to
from .primitive import sum_to as sum_to
from .primitive import zeros_of as zeros_of
from .selection import clip, maximum, minimum, relu, where

# The Array API's names for the same functions.
absolute, remainder, pow = abs, mod, power
acos, asin, atan, atan2 = arccos, arcsin, arctan, arctan2
acosh, asinh, atanh = arccosh, arcsinh, arctanh

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "dense",
    "divide",
    "empty",
    "empty_like",
    "equal",
    "erf",
    "exp",
    "expm1",
    "eye",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "ones",
    "ones_like",
    "positive",
    "pow",
    "power",
    "reciprocal",
    "relu",
    "remainder",
    "rint",
    "round",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
    "zeros",
    "zeros_like",
]
