"""Comparisons, tests of elements, logic, and the bits of integers: no gradient flows through them.

Truth values are integers of one bit; results of comparisons and tests are bool.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..custom.function import Function
from ..tape import record
from ..tensor import Tensor
from .conversion import as_tensor, cast_to
from .declare import binary, unary
from .template import public

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "equal",
    "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and", "logical_not",
    "logical_or", "logical_xor", "not_equal",
]  # fmt: skip


# ---------------------------------------------------------------- bits

bitwise_and: Function = binary("bitwise_and", accepts="ib", partials=None, lower="bit_and", traits=("commutative",),
    doc="""x1 & x2: bit by bit; of bool, logical and.   i[...], i[...]  →  i[...]

    >>> ad.bitwise_and(0b1100, 0b1010)
    i64[] 8
    >>> ad.bitwise_and([True, True], [True, False])
    bool[2] [ True False]
    """)
bitwise_or: Function = binary("bitwise_or", accepts="ib", partials=None, lower="bit_or", traits=("commutative",),
    doc="""x1 | x2: bit by bit; of bool, logical or.   i[...], i[...]  →  i[...]

    >>> ad.bitwise_or(0b1100, 0b1010)
    i64[] 14
    """)
bitwise_xor: Function = binary("bitwise_xor", accepts="ib", partials=None, lower="bit_xor", traits=("commutative",),
    doc="""x1 ^ x2: bit by bit; of bool, exclusive or.   i[...], i[...]  →  i[...]

    >>> ad.bitwise_xor(0b1100, 0b1010)
    i64[] 6
    """)
bitwise_invert: Function = unary("bitwise_not", called="bitwise_invert", accepts="ib", partials=None, lower="bit_not",
    doc="""All bits inverted, ~x; of bool, logical not.   i[...]  →  i[...]

    >>> ad.bitwise_invert([0, 5])
    i64[2] [-1 -6]
    >>> ad.bitwise_invert(True)
    bool[] False
    """)
bitwise_left_shift = binary("left_shift", called="bitwise_left_shift", accepts="i", partials=None, lower="shift_left",
    doc="""x1 << x2.   i[...], i[...]  →  i[...]     0 when x2 is no number of bits (negative, or too many)

    >>> ad.bitwise_left_shift(1, [3, 64, -1])
    i64[3] [8 0 0]
    """)
bitwise_right_shift = binary("right_shift", called="bitwise_right_shift", accepts="i", partials=None,
    lower="shift_right",
    doc="""x1 >> x2, keeping the sign.   i[...], i[...]  →  i[...]     0 or -1 when x2 is no number of bits

    >>> ad.bitwise_right_shift([-8, -8], [1, 64])
    i64[2] [-4 -1]
    """)

_BOOL = np.dtype(np.bool_)

# ---------------------------------------------------------------- order


def _comparison(name: str, sign: str, lower: str, *traits: str, shown: str) -> Function:
    """A comparison; `shown`: what its example prints."""
    return binary(
        name, accepts="fibc" if "commutative" in traits else "fib", result="bool", partials=None, lower=lower,
        traits=traits,
        doc=f"""x1 {sign} x2, element by element.   T[...], T[...]  →  bool[...]     {sign == "!="} where either is nan

    >>> ad.{name}([1.0, 2.0, 3.0, ad.nan], 2.0)
    bool[4] {shown}
    """,
    )


equal = _comparison("equal", "==", "eq", "commutative", shown="[False  True False False]")
not_equal = _comparison("not_equal", "!=", "ne", "commutative", shown="[ True False  True  True]")
less: Function = _comparison("less", "<", "lt", shown="[ True False False False]")
less_equal: Function = _comparison("less_equal", "<=", "le", shown="[ True  True False False]")
greater: Function = _comparison("greater", ">", "gt", shown="[False False  True False]")
greater_equal: Function = _comparison("greater_equal", ">=", "ge", shown="[False  True  True False]")

# ---------------------------------------------------------------- tests

isnan = unary("isnan", result="bool", partials=None,
    doc="""True for elements that are nan, or have a part that is.   T[...]  →  bool[...]     integers never are

    >>> ad.isnan([1.0, ad.inf, ad.nan])
    bool[3] [False False  True]
    """)
isinf = unary("isinf", result="bool", partials=None,
    doc="""True for elements that are infinite, or have a part that is.   T[...]  →  bool[...]     integers never are

    >>> ad.isinf([1.0, -ad.inf, ad.nan])
    bool[3] [False  True False]
    >>> ad.isinf(complex(0, ad.inf))
    bool[] True
    """)
isfinite = unary("isfinite", result="bool", partials=None,
    doc="""True for elements that are neither nan nor infinite.   T[...]  →  bool[...]     integers always are

    >>> ad.isfinite([1.0, ad.inf, ad.nan])
    bool[3] [ True False False]
    """)

# ---------------------------------------------------------------- logic


def truth(x: Any, name: str, argument: str) -> Tensor:
    """x as bool: everything but zero is True (nan too, as in NumPy)."""
    return cast_to(as_tensor(x, name, argument), _BOOL)


@public()
def logical_and(x1, x2):
    """True where both are; numbers count as True unless they are zero.   T[...], T[...]  →  bool[...]

    >>> ad.logical_and([0, 1, 2], [3, 0, 4])
    bool[3] [False False  True]
    """
    return record(bitwise_and.primitive, (truth(x1, "logical_and", "x1"), truth(x2, "logical_and", "x2")))


@public()
def logical_or(x1, x2):
    """True where either is; numbers count as True unless they are zero.   T[...], T[...]  →  bool[...]

    >>> ad.logical_or([0, 1], [0, 0])
    bool[2] [False  True]
    """
    return record(bitwise_or.primitive, (truth(x1, "logical_or", "x1"), truth(x2, "logical_or", "x2")))


@public()
def logical_xor(x1, x2):
    """True where exactly one is; numbers count as True unless they are zero.   T[...], T[...]  →  bool[...]

    >>> ad.logical_xor([0, 1, 2], [3, 0, 4])
    bool[3] [ True  True False]
    """
    return record(bitwise_xor.primitive, (truth(x1, "logical_xor", "x1"), truth(x2, "logical_xor", "x2")))


@public()
def logical_not(x):
    """True where x is False; numbers count as True unless they are zero.   T[...]  →  bool[...]

    >>> ad.logical_not([0.0, 0.5])
    bool[2] [ True False]
    """
    return record(bitwise_invert.primitive, (truth(x, "logical_not", "x"),))
