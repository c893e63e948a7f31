"""Arithmetic: what Python's operators and their relatives record.

Integers wrap, and division and remainder by an integer zero give 0, as in NumPy but without warnings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.lowering import Map

from ..custom.function import Function
from ..tape import another, record
from ..tensor import Tensor
from .cancelling import by_side, by_size
from .conditions import bitwise_and, bitwise_or, equal, where
from .conversion import as_tensor, cast_to
from .declare import binary, unary
from .primitive import I64, adjoint_of, elementwise, elementwise_aval, primitive, sum_to
from .template import public

__all__ = [
    "abs_", "add", "divide", "floor_divide", "hypot", "mod", "multiply", "negative", "positive", "reciprocal", "sign",
    "subtract",
]


# ---------------------------------------------------------------- sums and products

add = binary("add", accepts="fic", partials=lambda y, a, b: (1, 1), traits=("commutative",),
    on_bool=lambda a, b: bitwise_or(a, b),
    doc="""x1 + x2.   T[...], T[...]  →  T[...]     of bool: logical or, as in NumPy

    >>> ad.add([[1.0], [2.0]], [10.0, 20.0])
    f64[2,2]
    [[11. 21.]
     [12. 22.]]
    """)
subtract = binary("sub", called="subtract", accepts="fic", partials=lambda y, a, b: (1, -1),
    doc="""x1 - x2.   T[...], T[...]  →  T[...]

    >>> ad.subtract([3.0, 2.0], [[1.0], [2.0]])
    f64[2,2]
    [[2. 1.]
     [1. 0.]]
    """)
multiply = binary("mul", called="multiply", accepts="fic", partials=lambda y, a, b: (b, a), traits=("commutative",),
    on_bool=lambda a, b: bitwise_and(a, b),
    doc="""x1 * x2.   T[...], T[...]  →  T[...]     of bool: logical and, as in NumPy

    >>> ad.multiply([[1.0], [2.0]], [3.0, 4.0])
    f64[2,2]
    [[3. 4.]
     [6. 8.]]
    """)
divide = binary(
    "div",
    called="divide",
    accepts="fc",
    # One division, where both are asked; and two factors, since y / b may overflow where the gradient does not.
    partials=lambda y, a, b: (lambda: 1 / b, lambda: (1 / b, -y)),
    doc="""x1 / x2.   f[...], f[...]  →  f[...]     integers are divided as float64

    >>> ad.divide([1, 2], 4)
    f64[2] [0.25 0.5 ]
    >>> ad.divide(1.0, 0.0)
    f64[] inf
    """,
)
negative = unary("neg", called="negative", accepts="fic", partials=lambda y, x: (-1,), doc="""-x.   T[...]  →  T[...]

    >>> ad.negative([1.0, -2.0])
    f64[2] [-1.  2.]
    """)


@public()
def positive(x):
    """+x: x itself.   T[...]  →  T[...]

    >>> ad.positive([1.0, -2.0])
    f64[2] [ 1. -2.]
    """
    return another(as_tensor(x, "positive", "x"))


# ---------------------------------------------------------------- the strong product


def _mul0_reference(g: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.where(g == 0, g.dtype.type(0), g * p)


def _mul0_scalar(k, g, p):
    zero = k.constant(0, like=g)
    return k.select(k.eq(g, zero), zero, k.mul(g, p))


def _mul0_pull(y_bar: Tensor, y: Tensor, xs: tuple, params: tuple, masked: bool) -> tuple:
    g, p = xs
    return (
        sum_to(mul0(y_bar, adjoint_of(p)), g.shape) if g.node.kind.out.requires_grad else None,
        sum_to(mul0(adjoint_of(g), y_bar), p.shape) if p.node.kind.out.requires_grad else None,
    )


#: mul0(g, p): g * p, but 0 where g is 0, whatever p is.  How a masked cotangent meets a partial.
mul0 = primitive(
    "mul0",
    _mul0_reference,
    infer=elementwise_aval("mul0", "fc"),
    lower=Map(_mul0_scalar),
    pull=_mul0_pull,
    masks=True,
    traits=("elementwise",),
)

# ---------------------------------------------------------------- quotients of integers


def _as_int64(quotient):
    """A quotient of bool: that of the numbers 0 and 1."""
    return lambda a, b: quotient(cast_to(a, I64), cast_to(b, I64))


floor_divide: Function = binary("floor_divide", accepts="fi", partials=None, lower="floordiv",
    on_bool=_as_int64(lambda a, b: floor_divide(a, b)),
    doc="""The largest integer not above x1 / x2.   T[...], T[...]  →  T[...]

    Integers by 0 give 0; floats follow Python's `//`.  A step function: no gradient flows.

    >>> ad.floor_divide([7, -7, 7], [2, 2, 0])
    i64[3] [ 3 -4  0]
    """)
mod: Function = binary("mod", accepts="fi", partials=lambda y, a, b: (1, lambda: -floor_divide(a, b)),
    on_bool=_as_int64(lambda a, b: mod(a, b)),
    doc="""x1 - floor(x1 / x2) * x2, with the sign of x2, exactly.   T[...], T[...]  →  T[...]

    Integers by 0 give 0, floats by 0 give nan.

    >>> ad.mod([7, -7, 7], [3, 3, 0])
    i64[3] [1 2 0]
    >>> ad.mod(-0.5, 2.0)
    f64[] 1.5
    """)

# ---------------------------------------------------------------- size and sign

abs_ = unary("abs", accepts="fib", partials=lambda y, x: (lambda: sign(x),), cancels=by_side,
    doc="""|x|.   T[...]  →  T[...], c[...]  →  f[...]     the derivative at 0 is 0

    >>> ad.grad(ad.abs)(ad.tensor(0.0))
    f64[] 0.0
    >>> ad.abs(3 + 4j)
    f64[] 5.0
    """)
sign: Function = unary("sign", accepts="fi", partials=None,
    doc="""-1, 0 or 1; nan of nan.   T[...]  →  T[...]     a step function: no gradient flows

    >>> ad.sign([-3.0, 0.0, ad.nan])
    f64[3] [-1.  0. nan]
    """)
reciprocal = unary("reciprocal", accepts="fc", partials=lambda y, x: ((y, -y),),
    lower=lambda k, x: k.div(k.constant(1, like=x), x),
    doc="""1 / x.   f[...]  →  f[...]     integers are taken as float64

    >>> ad.reciprocal([4, 0])
    f64[2] [0.25  inf]
    """)


def _hypot_scalar(k, a, b):
    a, b = k.abs(a), k.abs(b)
    large, small = k.maximum(a, b), k.minimum(a, b)
    one, inf = k.constant(1, like=a), k.constant(np.inf, like=a)
    ratio = k.div(small, k.select(k.eq(large, k.constant(0, like=a)), one, large))
    length = k.mul(large, k.sqrt(k.add(one, k.mul(ratio, ratio))))
    # An infinite side decides, even beside nan.
    return k.select(k.logical_or(k.eq(a, inf), k.eq(b, inf)), inf, length)


hypot: Function = binary("hypot", partials=lambda y, a, b: (lambda: cosine(a, b, y), lambda: cosine(b, a, y)),
    lower=_hypot_scalar, cancels=by_size(lambda a, b: (a, b)),
    doc="""sqrt(x1² + x2²) without overflow.   f[...], f[...]  →  f[...]     the derivative at (0, 0) is 0

    >>> ad.hypot(1e200, 0.0)
    f64[] 1e+200
    >>> ad.grad(ad.hypot)(ad.tensor(0.0), 0.0)
    f64[] 0.0
    """)


def cosine(a: Tensor, b: Tensor, length: Tensor) -> Tensor:
    """a / length for the length of (a, b), and 0 where it is 0, with derivative 0 there."""
    return record(_cosine, (a, b, length))


def _over_length(a: Tensor, b: Tensor, length: Tensor) -> Tensor:
    """The cosine over the length."""
    is_zero = equal(length, 0)
    return where(is_zero, 0, cosine(a, b, length) / where(is_zero, 1, length))


def _cosine_scalar(k: Any, a: Any, b: Any, length: Any) -> Any:
    zero, one = k.constant(0, like=a), k.constant(1, like=a)
    is_zero = k.eq(length, zero)
    return k.select(is_zero, zero, k.div(a, k.select(is_zero, one, length)))


#: A function of the two sides: the derivative by the longer one, 1 / length - a² / length³, is a difference of equals.
_cosine = elementwise(
    "cosine",
    program=_cosine_scalar,
    partials=lambda y, a, b, length: (
        lambda: (cosine(b, a, length), _over_length(b, a, length)),
        lambda: (-y, _over_length(b, a, length)),
        None,
    ),
)
