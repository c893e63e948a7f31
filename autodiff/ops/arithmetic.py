"""Arithmetic of real and complex numbers: Python's operators, remainders, absolute values, real and imaginary parts.

Integers wrap, and division and remainder by an integer zero give 0, as in NumPy but without warnings.

The gradient of a real result by a complex number is that of PyTorch: ∂/∂re + i ∂/∂im, so a step along -grad descends.
The pairing between cotangents and tangents is Re(conj(x_bar) dx); so the pull of a function with a complex derivative
multiplies by the conjugate of its partial, and the pull of a product with a matrix by the conjugate transpose.
`elementwise` and `matmul` do so.  Functions without a complex derivative (real, imag, conj, abs) have rules here.

Complex arrays are compiled by parts: the operations recorded here become operations on real numbers, and fuse with
their neighbours (`codegen.passes.stored_parts`).  Values agree with NumPy's within a few ulps at finite arguments.
If a part is infinite or nan, exp, log, sqrt and abs still agree, other functions may give nan.  Products and quotients
have NumPy's nans and infinities: a real factor counts as a complex number whose imaginary part is zero.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.garbage import ignoring
from codegen.ir import Aval
from codegen.lowering import Map

from ..custom.function import Function
from ..tape import as_new_result, record
from ..tape.leaves import leaf
from ..tape.modes import no_grad
from ..tape.node import Node as TapeNode
from ..tape.plan import data
from ..tensor import Tensor, handle
from .arrays import on_arrays, on_elements
from .cancelling import cancels_sign, cancels_size, divided
from .conditions import isinf, logical_and, where
from .conversion import as_tensor, cast_to
from .declare import binary, composed, documented, unary
from .primitive import (
    C64,
    C128,
    F32,
    F64,
    I64,
    OwnPrimitive,
    added,
    adjoint_of,
    elementwise,
    elementwise_aval,
    expect,
    linear,
    primitive,
    sum_to,
    zero_of,
    zeros_of,
)  # fmt: skip
from .template import public

add = binary("add", accepts="fic", partials=lambda y, a, b: (1, 1), traits=("commutative",),
    on_bool=operator.or_,
    doc="""x1 + x2.   T[...], T[...]  →  T[...]     of bool: logical or, as in NumPy

    >>> ad.add([[1.0], [2.0]], [10.0, 20.0])
    f64[2,2]
    [[11. 21.]
     [12. 22.]]
    """)


def accumulated(present: TapeNode, value: np.ndarray) -> Tensor:
    """The sum of a `.grad`, held by the node `present`, and a new gradient; computed at once if `.grad` has a value."""
    if present.value is None:
        with no_grad():
            return add(handle(present), leaf(value))
    with ignoring(all="ignore"):
        return leaf(np.asarray(np.add(data(present), value)))


subtract = binary("sub", called="subtract", accepts="fic", partials=lambda y, a, b: (1, -1),
    doc="""x1 - x2.   T[...], T[...]  →  T[...]

    >>> ad.subtract([3.0, 2.0], [[1.0], [2.0]])
    f64[2,2]
    [[2. 1.]
     [1. 0.]]
    """)
multiply = binary("mul", called="multiply", accepts="fic", partials=lambda y, a, b: (b, a), traits=("commutative",),
    on_bool=operator.and_,
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
    # The partials share one division.  -y / b is left as two factors: it may overflow where the gradient does not.
    partials=lambda y, a, b: (lambda: 1 / b, lambda: (1 / b, -y)),
    doc="x1 / x2.   f[...], f[...]  →  f[...]     integers are divided as float64",
    example=">>> ad.divide([1, 2], 4)\nf64[2] [0.25 0.5 ]",
)
negative = unary("neg", called="negative", accepts="fic", slope=lambda y, x: -1,
    doc="-x.   T[...]  →  T[...]", example=">>> ad.negative([1.0, -2.0])\nf64[2] [-1.  2.]")


positive = composed("positive", lambda x: x,
    "+x: x itself.   T[...]  →  T[...]", ">>> ad.positive([1.0, -2.0])\nf64[2] [ 1. -2.]", takes="T")


def _mul0_scalar(k, g, p):
    return k.select(g == 0.0, 0.0, g * p)


#: mul0(g, p): g * p, but 0 where g is 0, even if p is nan or inf: the product of a masked cotangent g and a partial p.
mul0: OwnPrimitive = primitive(
    "mul0",
    on_arrays(_mul0_scalar),
    infer=elementwise_aval("mul0", "fc"),
    lower=Map(on_elements(_mul0_scalar)),
    vjp=lambda y_bar, y, g, p: (
        lambda: sum_to(mul0(y_bar, adjoint_of(p)), g.shape),
        lambda: sum_to(mul0(adjoint_of(g), y_bar), p.shape),
    ),
    masks=True,
)


def _as_int64(quotient):
    """A quotient of two bools, computed from the integers 0 and 1."""
    return lambda a, b: quotient(cast_to(a, I64), cast_to(b, I64))


floor_divide: Function = binary("floor_divide", accepts="fi", lower="floordiv",
    on_bool=_as_int64(lambda a, b: floor_divide(a, b)),
    doc="""The largest integer not above x1 / x2.   T[...], T[...]  →  T[...]

    Integers by 0 give 0; floats follow Python's `//`.  A step function: no gradient flows.""",
    example=">>> ad.floor_divide([7, -7, 7], [2, 2, 0])\ni64[3] [ 3 -4  0]")
mod: Function = binary("mod", accepts="fi", partials=lambda y, a, b: (1, lambda: -floor_divide(a, b)),
    on_bool=_as_int64(lambda a, b: mod(a, b)),
    doc="""x1 - floor(x1 / x2) * x2, with the sign of x2, exactly.   T[...], T[...]  →  T[...]

    Integers by 0 give 0, floats by 0 give nan.""",
    example=">>> ad.mod([7, -7, 7], [3, 3, 0])\ni64[3] [1 2 0]")

abs_ = unary("abs", accepts="fib", slope=lambda y, x: sign(x), cancels=cancels_sign,
    of_complex=lambda x: record(_size, (x,)),
    doc="|x|.   T[...]  →  T[...], c[...]  →  f[...]     the derivative at 0 is 0",
    example=">>> ad.grad(ad.abs)(ad.tensor(0.0))\nf64[] 0.0\n>>> ad.abs(3 + 4j)\nf64[] 5.0")
sign: Function = unary("sign", accepts="fi",
    doc="-1, 0 or 1; nan of nan.   T[...]  →  T[...]     a step function: no gradient flows",
    example=">>> ad.sign([-3.0, 0.0, ad.nan])\nf64[3] [-1.  0. nan]")
reciprocal = unary("reciprocal", accepts="fc", slope=lambda y, x: (y, -y),
    lower=lambda k, x: 1.0 / x,
    doc="1 / x.   f[...]  →  f[...]     integers are taken as float64",
    example=">>> ad.reciprocal([4, 0])\nf64[2] [0.25  inf]")


def _hypot_scalar(k, a, b):
    a, b = abs(a), abs(b)
    large, small = k.maximum(a, b), k.minimum(a, b)
    ratio = small / k.select(large == 0.0, 1.0, large)
    # An infinite side makes the length infinite, even if the other side is nan.
    return k.select((a == np.inf) | (b == np.inf), np.inf, large * k.sqrt(1.0 + ratio * ratio))


hypot: Function = binary("hypot", partials=lambda y, a, b: (lambda: cosine(a, b, y), lambda: cosine(b, a, y)),
    lower=_hypot_scalar, cancels=cancels_size(lambda a, b: (a, b)),
    doc="sqrt(x1² + x2²) without overflow.   f[...], f[...]  →  f[...]     the derivative at (0, 0) is 0",
    example=">>> ad.hypot(1e200, 0.0)\nf64[] 1e+200\n>>> ad.grad(ad.hypot)(ad.tensor(0.0), 0.0)\nf64[] 0.0")


def cosine(a: Tensor, b: Tensor, length: Tensor) -> Tensor:
    """a / length, where `length` is that of the vector (a, b); 0, with derivative 0, where the length is 0."""
    return record(_cosine, (a, b, length))


def _over_length(a: Tensor, b: Tensor, length: Tensor) -> Tensor:
    """cosine(a, b, length) / length, and 0 where the length is 0."""
    is_zero = length == 0
    return where(is_zero, 0, cosine(a, b, length) / where(is_zero, 1, length))


#: a / length as a function of a and b.  1 / length - a² / length³, its derivative by a longer side, would cancel.
_cosine = elementwise(
    "cosine",
    program=lambda k, a, b, length: k.select(length == 0.0, 0.0, a / k.select(length == 0.0, 1.0, length)),
    partials=lambda y, a, b, length: (
        lambda: (cosine(b, a, length), _over_length(b, a, length)),
        lambda: (-y, _over_length(b, a, length)),
        None,
    ),
)


_REAL = {C64: F32, C128: F64}


def _complex_aval(name: str, gives_real: bool = True) -> Callable[[Aval], Aval]:
    def infer(x: Aval) -> Aval:
        expect(name, (x,), "c")
        return x.with_dtype(_REAL[x.dtype]) if gives_real else x

    return infer


#: i times a real x.  A complex product would give nan for an infinite x, which it multiplies by the real part of i, 0.
imaginary: OwnPrimitive = linear(
    "imaginary",
    lambda x: np.stack((np.zeros_like(x), x), -1).view(np.result_type(x, np.complex64))[..., 0],
    infer=lambda x: x.with_dtype(C64 if x.dtype == F32 else C128),
    transpose=lambda y_bar, y, x: (imaginary_part(y_bar),),
    traits=("elementwise",),
)


def _part(
    name: str, numpy: Callable[..., Any], transpose: Callable[..., tuple], of_real: Callable[[Tensor], Tensor],
    summary: str, example: str, gives_real: bool = True,
) -> Any:
    """Declare a public function by a linear operation on complex numbers; `of_real` is its result for real ones."""
    operation = linear(name, numpy, infer=_complex_aval(name, gives_real), transpose=transpose, traits=("elementwise",))

    def body(x):
        t = as_tensor(x, name, "x")
        return record(operation, (t,)) if t.dtype.kind == "c" else of_real(t)

    return public(1, operation, name=name, doc=documented(example, summary))(body)


real = _part("real", np.real, lambda y_bar, y, x: (cast_to(y_bar, x.dtype),), as_new_result,
    "The real part.   c[...]  →  f[...]     real arrays are themselves",
    ">>> ad.real([1 + 2j, 3.0])\nf64[2] [1. 3.]")
imag = _part("imag", np.imag, lambda y_bar, y, x: (record(imaginary, (y_bar,)),), lambda x: zeros_of(x.aval),
    "The imaginary part.   c[...]  →  f[...]     zeros of real arrays",
    ">>> ad.imag([1 + 2j, 3.0])\nf64[2] [2. 0.]")
conj = _part("conj", np.conjugate, lambda y_bar, y, x: (conjugated(y_bar),), as_new_result,
    "The conjugate.   c[...]  →  c[...]     real arrays are themselves",
    ">>> ad.conj([1 + 2j, 3.0])\nc128[2] [1.-2.j 3.-0.j]", gives_real=False)
_real, _imag, _conj = real.primitive, imag.primitive, conj.primitive


def _direction(x: Tensor) -> Tensor:
    """x / |x|, and 0 at 0; where a part is infinite, the direction by the signs of the infinite parts."""
    size = record(_size, (x,))
    zero, parts = zero_of(size.dtype), [real_part(x), imaginary_part(x)]
    is_end, infinite = isinf(size) | (size == zero), [isinf(p) for p in parts]
    parts = [where(is_end, where(i, sign(p), zero), p) for p, i in zip(parts, infinite, strict=True)]
    length = where(is_end, where(logical_and(*infinite), math.sqrt(2), zero + 1.0), size)
    # The parts are divided separately: a complex quotient loses parts near the ends of the range.
    re, im = parts
    along, across = cosine(re, im, length), cosine(im, re, length)
    return cast_to(along, x.dtype) + record(imaginary, (across,))


def _size_vjp(y_bar: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor | None]:
    multiple, rest = divided(y_bar, y)
    along = None if multiple is None else cast_to(multiple, x.dtype) * x
    return (added(along, None if rest is None else cast_to(rest, x.dtype) * _direction(x)),)


_size: OwnPrimitive = primitive(
    "abs_complex",
    np.absolute,
    infer=_complex_aval("abs"),
    vjp=_size_vjp,
    jvp=lambda dxs, y, x: real_part(conjugated(_direction(x)) * dxs[0]),
    traits=("elementwise", "cancels"),
)


def real_part(x: Tensor) -> Tensor:
    """The real part of a tensor; a real tensor as it is."""
    return record(_real, (x,)) if x.dtype.kind == "c" else x


def imaginary_part(x: Tensor) -> Tensor:
    """The imaginary part of a complex tensor."""
    return record(_imag, (x,))


def real_aval(aval: Aval) -> Aval:
    """The aval of the real part; a real aval as it is."""
    return aval.with_dtype(_REAL[aval.dtype]) if aval.dtype in _REAL else aval


def conjugated(x: Tensor) -> Tensor:
    """The conjugate of a tensor; a real tensor as it is."""
    return record(_conj, (x,)) if x.dtype.kind == "c" else x
