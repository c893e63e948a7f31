"""Comparisons, tests of elements, logic, the bits of integers, and choices between values.

No gradient flows through a condition.  A value that was not chosen gets a gradient of exactly zero, even where its
derivative is nan or infinite ("strong zero"): `where`, maximum, minimum, clip and relu mask their cotangents.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..custom.function import Function
from ..errors import ShapeError, located
from ..tape import as_new_result, constant, record
from ..tensor import Tensor
from .arrays import where_of_arrays
from .cancelling import cancels_share
from .conversion import as_tensor, cast_to
from .declare import binary, composed, elements_of, in_common_dtype, unary
from .primitive import BOOL, elementwise
from .template import public

bitwise_and: Function = binary("bitwise_and", accepts="ib", lower="bit_and", traits=("commutative",),
    doc="x1 & x2: bit by bit; of bool, logical and.   i[...], i[...]  →  i[...]",
    example=">>> ad.bitwise_and(0b1100, 0b1010)\ni64[] 8")
bitwise_or: Function = binary("bitwise_or", accepts="ib", lower="bit_or", traits=("commutative",),
    doc="x1 | x2: bit by bit; of bool, logical or.   i[...], i[...]  →  i[...]",
    example=">>> ad.bitwise_or(0b1100, 0b1010)\ni64[] 14")
bitwise_xor: Function = binary("bitwise_xor", accepts="ib", lower="bit_xor", traits=("commutative",),
    doc="x1 ^ x2: bit by bit; of bool, exclusive or.   i[...], i[...]  →  i[...]",
    example=">>> ad.bitwise_xor(0b1100, 0b1010)\ni64[] 6")
bitwise_invert: Function = unary("bitwise_not", called="bitwise_invert", accepts="ib", lower="bit_not",
    doc="All bits inverted, ~x; of bool, logical not.   i[...]  →  i[...]",
    example=">>> ad.bitwise_invert([0, 5])\ni64[2] [-1 -6]")
bitwise_left_shift = binary("left_shift", called="bitwise_left_shift", accepts="i", lower="shift_left",
    doc="x1 << x2.   i[...], i[...]  →  i[...]     0 when x2 is no number of bits (negative, or too many)",
    example=">>> ad.bitwise_left_shift(1, [3, 64, -1])\ni64[3] [8 0 0]")
bitwise_right_shift = binary("right_shift", called="bitwise_right_shift", accepts="i",
    lower="shift_right",
    doc="x1 >> x2, keeping the sign.   i[...], i[...]  →  i[...]     0 or -1 when x2 is no number of bits",
    example=">>> ad.bitwise_right_shift([-8, -8], [1, 64])\ni64[2] [-4 -1]")


def _comparison(name: str, sign: str, lower: str, *traits: str, shown: str) -> Function:
    """Declare a comparison; `shown`: the output of its example."""
    return binary(
        name, accepts="fibc" if "commutative" in traits else "fib", result="bool", lower=lower,
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


isnan: Function = unary("isnan", result="bool", of_complex=lambda x: isnan(x.real) | isnan(x.imag),
    doc="True for elements that are nan, or have a part that is.   T[...]  →  bool[...]     integers never are",
    example=">>> ad.isnan([1.0, ad.inf, ad.nan])\nbool[3] [False False  True]")
isinf: Function = unary("isinf", result="bool", of_complex=lambda x: isinf(x.real) | isinf(x.imag),
    doc="True for elements that are infinite, or have a part that is.   T[...]  →  bool[...]     integers never are",
    example=">>> ad.isinf([1.0, -ad.inf, ad.nan])\nbool[3] [False  True False]")
isfinite: Function = unary("isfinite", result="bool",
    of_complex=lambda x: isfinite(x.real) & isfinite(x.imag),
    doc="True for elements that are neither nan nor infinite.   T[...]  →  bool[...]     integers always are",
    example=">>> ad.isfinite([1.0, ad.inf, ad.nan])\nbool[3] [ True False False]")


def truth(x: Any, name: str, argument: str) -> Tensor:
    """x as bool: everything but zero is True (nan too, as in NumPy)."""
    return cast_to(as_tensor(x, name, argument), BOOL)


def _logical(of_bits: Function, condition: str, example: str) -> Any:
    """Declare a logical function: a bitwise operation on its arguments as bool."""
    name, operation = of_bits.__name__.replace("bitwise", "logical"), of_bits.primitive
    doc = f"True where {condition}; numbers count as True unless they are zero.   T[...], T[...]  →  bool[...]"
    return composed(
        name, lambda x1, x2: record(operation, (truth(x1, name, "x1"), truth(x2, name, "x2"))), doc, example,
        tensors=2,
    )


logical_and = _logical(bitwise_and, "both are", ">>> ad.logical_and([0, 1, 2], [3, 0, 4])\nbool[3] [False False  True]")
logical_or = _logical(bitwise_or, "either is", ">>> ad.logical_or([0, 1], [0, 0])\nbool[2] [False  True]")
logical_xor = _logical(bitwise_xor, "exactly one is",
    ">>> ad.logical_xor([0, 1, 2], [3, 0, 4])\nbool[3] [ True  True False]")
logical_not = composed("logical_not", lambda x: record(bitwise_invert.primitive, (truth(x, "logical_not", "x"),)),
    "True where x is False; numbers count as True unless they are zero.   T[...]  →  bool[...]",
    ">>> ad.logical_not([0.0, 0.5])\nbool[2] [ True False]")


_where = elementwise(
    "where",
    where_of_arrays,
    accepts="fibc",
    first="b",
    partials=lambda y, condition, a, b: (None, condition, lambda: ~condition),
    lower="select",
    masks=True,
)


@public(records=_where, takes_numbers=True)
def where(condition, x1, x2):
    """x1 where the condition holds, x2 elsewhere.   bool[...], T[...], T[...]  →  T[...]

    Both sides are computed for all elements.  The side not taken gets a gradient of exactly 0, so
    `where(x > 0, log(x), 0)` has gradient 0 at 0.  An element of a condition that is not bool counts as
    True unless it is zero.

    >>> ad.grad(lambda x: ad.where(x > 0, ad.log(x), 0.0))(ad.tensor(0.0))
    f64[] 0.0
    """
    c = truth(condition, "where", "condition")
    return record(_where, (c, *in_common_dtype("where", (("x1", x1), ("x2", x2)), "fibc")))


def interpolated(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """Linear interpolation, first + share * (second - first), also if one of the two is infinite."""
    change = second - first
    beyond = where(share == 0.0, first, first * (1.0 - share) + second * share)
    return where(isfinite(change), first + share * change, beyond)


#: share(a, b): the derivative of maximum(a, b) by a, which is 1 where a is larger, one half in a tie, 0 elsewhere.
_share = elementwise(
    "share", program=lambda k, a, b: k.select(a == b, 0.5, k.select(a > b, 1.0, k.constant(0.0, like=a)))
)
maximum = binary("maximum", accepts="fi", partials=lambda y, a, b: (lambda: _share(a, b), lambda: _share(b, a)),
    masks=True, cancels=cancels_share, traits=("commutative",), on_bool=operator.or_,
    doc="""The larger of two elements; nan if either is.   T[...], T[...]  →  T[...]

    Where they are equal each gets half of the gradient.""",
    example=">>> ad.maximum([1.0, ad.nan], 2.0)\nf64[2] [ 2. nan]\n"
    ">>> ad.grad(ad.maximum)(ad.tensor(2.0), 2.0)\nf64[] 0.5")
minimum = binary("minimum", accepts="fi", partials=lambda y, a, b: (lambda: _share(b, a), lambda: _share(a, b)),
    masks=True, cancels=cancels_share, traits=("commutative",), on_bool=operator.and_,
    doc="""The smaller of two elements; nan if either is.   T[...], T[...]  →  T[...]

    Where they are equal each gets half of the gradient.""",
    example=">>> ad.minimum([1.0, ad.nan], 2.0)\nf64[2] [ 1. nan]")
relu = unary(
    "relu",
    program=lambda k, x: k.maximum(x, 0),
    accepts="fi",
    # y > 0 exactly where x > 0.  y is kept anyway; x need not be kept for this rule.
    slope=lambda y, x: y > 0,
    masks=True,
    doc="max(x, 0).   T[...]  →  T[...]     the derivative at 0 is 0",
    example=">>> ad.grad(lambda x: ad.sum(ad.relu(x)))(ad.tensor([-1.0, 0.0, 2.0]))\nf64[3] [0. 0. 1.]",
)


_clip = elementwise(
    "clip",
    accepts="fi",
    partials=lambda y, x, low, high: (
        lambda: (x >= low) & (x <= high),
        lambda: (x < low) & (low <= high),
        lambda: (x > high) | (low > high),
    ),
    program=lambda k, x, low, high: k.minimum(k.maximum(x, low), high),
    masks=True,
)


def neutral_element(dtype: np.dtype, sign: int) -> Any:
    """The neutral element of maximum (sign 1) or minimum (sign -1) in a dtype."""
    if dtype.kind == "i":
        return int(np.iinfo(dtype).min if sign > 0 else np.iinfo(dtype).max)
    number = -sign * math.inf
    return {"b": sign < 0, "c": complex(number, number)}.get(dtype.kind, number)


@public(records=_clip, takes_numbers=True)
def clip(x, min=None, max=None):
    """x, not below `min` and not above `max`; None bounds nothing.   T[...], T[...], T[...]  →  T[...]

    x gets the whole gradient between the bounds and at them; beyond a bound that bound gets it.  Where min
    exceeds max the result is max, as in NumPy.

    dtype, casting   the dtype to compute in, and NumPy's rule for what may be converted to it

    >>> ad.grad(lambda x: ad.sum(ad.clip(x, 0.0, 1.0)))(ad.tensor([-1.0, 0.0, 0.5, 2.0]))
    f64[4] [0. 1. 1. 0.]
    """
    x = as_tensor(x, "clip", "x")
    if x.dtype == np.bool_:
        x = x if min is None else maximum(x, min)
        return as_new_result(x) if max is None else minimum(x, max)
    bounds = [(name, bound) for name, bound in (("min", min), ("max", max)) if bound is not None]
    x, *bounds_of = in_common_dtype("clip", (("x", x), *bounds), "fi")
    if not bounds_of:
        return as_new_result(x)
    if min is None:
        bounds_of.insert(0, constant(neutral_element(x.dtype, 1), x.dtype))
    if max is None:
        bounds_of.append(constant(neutral_element(x.dtype, -1), x.dtype))
    return record(_clip, (x, *bounds_of))


@public()
def select(condlist, choicelist, default=0):
    """For each element the choice of the first condition that holds; `default` where none holds.

    condlist: [bool[...], ...]  choicelist: [T[...], ...]  →  T[...]     all are broadcast

    A choice that is not taken gets a gradient of exactly 0, as in `where`.  Raises ShapeError for no conditions,
    or another number of choices than of conditions.

    >>> x = ad.tensor([-1.0, 0.5, 3.0])
    >>> ad.select([x < 0, x > 1], [0.0, 1.0], x)
    f64[3] [0.  0.5 1. ]
    """
    conditions = elements_of(condlist, "select", "conditions")
    choices = elements_of(choicelist, "select", "choices")
    if len(conditions) != len(choices) or not conditions:
        raise ShapeError(located(
            f"select: {len(conditions)} conditions for {len(choices)} choices",
            "there is one choice for each condition, and one at least",
        ))
    named = [*[("choicelist", choice) for choice in choices], ("default", default)]
    *choices, found = in_common_dtype("select", named, "fibc")
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = where(condition, choice, found)
    return found
