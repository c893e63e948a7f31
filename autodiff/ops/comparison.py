"""Comparisons, tests of elements, and logic: results are bool, and no gradient flows through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..custom.function import Function, function
from ..tape import record
from ..tensor import Tensor
from .bits import bitwise_and, bitwise_invert, bitwise_or, bitwise_xor
from .conversion import as_tensor, cast_to
from .declare import binary, unary

__all__ = [
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal",
]

_BOOL = np.dtype(np.bool_)

# ---------------------------------------------------------------- order


def _comparison(name: str, sign: str, lower: str, *traits: str, shown: str) -> Function:
    """A comparison; `shown`: what its example prints."""
    return binary(
        name, accepts="fibc" if "commutative" in traits else "fib", result="bool", partials=None, lower=lower,
        traits=traits,
        doc=f"""x1 {sign} x2, element by element.   T[...], T[...]  →  bool[...]     {sign == "!="} where either is nan

    >>> import autodiff as ad
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

    >>> import autodiff as ad
    >>> ad.isnan([1.0, ad.inf, ad.nan])
    bool[3] [False False  True]
    """)
isinf = unary("isinf", result="bool", partials=None,
    doc="""True for elements that are infinite, or have a part that is.   T[...]  →  bool[...]     integers never are

    >>> import autodiff as ad
    >>> ad.isinf([1.0, -ad.inf, ad.nan])
    bool[3] [False  True False]
    >>> ad.isinf(complex(0, ad.inf))
    bool[] True
    """)
isfinite = unary("isfinite", result="bool", partials=None,
    doc="""True for elements that are neither nan nor infinite.   T[...]  →  bool[...]     integers always are

    >>> import autodiff as ad
    >>> ad.isfinite([1.0, ad.inf, ad.nan])
    bool[3] [ True False False]
    """)

# ---------------------------------------------------------------- logic


def truth(x: Any, name: str, argument: str) -> Tensor:
    """x as bool: everything but zero is True (nan too, as in NumPy)."""
    return cast_to(as_tensor(x, name, argument), _BOOL)


@function
def logical_and(x1, x2):
    """True where both are; numbers count as True unless they are zero.   T[...], T[...]  →  bool[...]

    >>> import autodiff as ad
    >>> ad.logical_and([0, 1, 2], [3, 0, 4])
    bool[3] [False False  True]
    """
    return record(bitwise_and.primitive, (truth(x1, "logical_and", "x1"), truth(x2, "logical_and", "x2")))


@function
def logical_or(x1, x2):
    """True where either is; numbers count as True unless they are zero.   T[...], T[...]  →  bool[...]

    >>> import autodiff as ad
    >>> ad.logical_or([0, 1], [0, 0])
    bool[2] [False  True]
    """
    return record(bitwise_or.primitive, (truth(x1, "logical_or", "x1"), truth(x2, "logical_or", "x2")))


@function
def logical_xor(x1, x2):
    """True where exactly one is; numbers count as True unless they are zero.   T[...], T[...]  →  bool[...]

    >>> import autodiff as ad
    >>> ad.logical_xor([0, 1, 2], [3, 0, 4])
    bool[3] [ True  True False]
    """
    return record(bitwise_xor.primitive, (truth(x1, "logical_xor", "x1"), truth(x2, "logical_xor", "x2")))


@function
def logical_not(x):
    """True where x is False; numbers count as True unless they are zero.   T[...]  →  bool[...]

    >>> import autodiff as ad
    >>> ad.logical_not([0.0, 0.5])
    bool[2] [ True False]
    """
    return record(bitwise_invert.primitive, (truth(x, "logical_not", "x"),))
