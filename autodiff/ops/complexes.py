"""Complex numbers: their parts, their size, their conjugate.

The gradient of a real result is that of PyTorch: ∂/∂re + i ∂/∂im, so a step along -grad descends.  The
pairing between cotangents and tangents is Re(conj(x_bar) dx); so the pull of a function with a complex
derivative multiplies by the conjugate of its partial, and the pull of a product with a matrix by the conjugate
transpose.  `elementwise` and `matmul` see to that; the functions here, which are no functions of
x alone but of its parts, have their rules written out.

Complex arrays are compiled by parts: what is recorded here becomes operations on real numbers, and fuses with what
is around it (`codegen.passes.stored_parts`).  Values are NumPy's within a few ulps, at finite arguments; exp, log, sqrt
and abs also where a part is infinite or nan, the other functions may give nan there.  Of products and quotients also
nan and infinity are NumPy's: a real factor takes part as a complex number whose imaginary part is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Call

from ..custom import Function
from ..tape import another, constant, record
from ..tensor import Tensor
from .arithmetic import abs_, add, cosine, multiply, sign
from .cancelling import divided
from .conditions import equal, isfinite, isinf, isnan, logical_and, logical_or, where
from .conversion import as_tensor, cast_to
from .creation import zeros_like
from .primitive import C64, C128, F32, F64, OwnPrimitive, added, dtype_name_of, expect, linear, primitive, zero_of
from .template import public

__all__ = ["conj", "imag", "real"]

_REAL = {C64: F32, C128: F64}


def _part_aval(name: str) -> Callable[[Aval], Aval]:
    def infer(x: Aval) -> Aval:
        expect(name, (x,), "c")
        return x.with_dtype(_REAL[x.dtype])

    return infer


def _same_aval(x: Aval) -> Aval:
    expect("conj", (x,), "c")
    return x


def _imaginary(x: Tensor, like: Tensor) -> Tensor:
    """i times a real x, in the dtype of `like`."""
    return multiply(cast_to(x, like.dtype), constant(1j, dtype_name_of(like)))


_real: OwnPrimitive = linear(
    "real",
    np.real,
    infer=_part_aval("real"),
    transpose=lambda y_bar, y, x: (cast_to(y_bar, x.dtype),),
    lower=Call(),
    traits=("elementwise",),
)
_imag: OwnPrimitive = linear(
    "imag",
    np.imag,
    infer=_part_aval("imag"),
    transpose=lambda y_bar, y, x: (_imaginary(y_bar, x),),
    lower=Call(),
    traits=("elementwise",),
)
_conj = linear(
    "conj",
    np.conjugate,
    infer=_same_aval,
    transpose=lambda y_bar, y, x: (conjugated(y_bar),),
    lower=Call(),
    traits=("elementwise",),
)


def _direction(x: Tensor) -> Tensor:
    """x / |x|, and 0 at 0; where a part is infinite, of the signs of infinite parts."""
    size = record(_size, (x,))
    zero, parts = zero_of(size.dtype), [real_part(x), imaginary_part(x)]
    is_end, infinite = logical_or(isinf(size), equal(size, zero)), [isinf(p) for p in parts]
    parts = [where(is_end, where(i, sign(p), zero), p) for p, i in zip(parts, infinite, strict=True)]
    length = where(is_end, where(logical_and(*infinite), math.sqrt(2), add(zero, 1.0)), size)
    # By parts: a quotient of complex numbers loses those near the ends of the range.
    re, im = parts
    along, across = cosine(re, im, length), cosine(im, re, length)
    return add(cast_to(along, x.dtype), _imaginary(across, x))


def _size_vjp(y_bar: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor | None]:
    multiple, rest = divided(y_bar, y)
    along = None if multiple is None else multiply(cast_to(multiple, x.dtype), x)
    return (added(along, None if rest is None else multiply(cast_to(rest, x.dtype), _direction(x))),)


_size: OwnPrimitive = primitive(
    "abs_complex",
    np.absolute,
    infer=_part_aval("abs"),
    vjp=_size_vjp,
    jvp=lambda dxs, y, x: real_part(multiply(conjugated(_direction(x)), dxs[0])),
    lower=Call(),
    traits=("elementwise", "cancels"),
)


abs_.on_complex(lambda x: record(_size, (x,)))


isnan.on_complex(lambda x: logical_or(isnan(real_part(x)), isnan(imaginary_part(x))))
isinf.on_complex(lambda x: logical_or(isinf(real_part(x)), isinf(imaginary_part(x))))
isfinite.on_complex(lambda x: logical_and(isfinite(real_part(x)), isfinite(imaginary_part(x))))


def real_part(x: Tensor) -> Tensor:
    """The real part of a tensor; itself where it is real."""
    return record(_real, (x,)) if x.dtype.kind == "c" else x


def imaginary_part(x: Tensor) -> Tensor:
    """The imaginary part of a complex tensor."""
    return record(_imag, (x,))


def real_aval(aval: Aval) -> Aval:
    """The aval of a part; itself where it is real."""
    return aval.with_dtype(_REAL[aval.dtype]) if aval.dtype in _REAL else aval


def conjugated(x: Tensor) -> Tensor:
    """The conjugate of a tensor; itself where it is real."""
    return record(_conj, (x,)) if x.dtype.kind == "c" else x


def _public(name: str, operation: OwnPrimitive, of_real: Callable[[Tensor], Tensor], doc: str) -> Function:
    def body(x):
        t = as_tensor(x, name, "x")
        return record(operation, (t,)) if t.dtype.kind == "c" else of_real(t)

    made: Function = public(records=operation, name=name, doc=doc)(body)
    return made


real = _public("real", _real, another, """The real part.   c[...]  →  f[...]     real arrays are themselves

    >>> ad.real([1 + 2j, 3.0])
    f64[2] [1. 3.]
    """)
imag = _public("imag", _imag, zeros_like, """The imaginary part.   c[...]  →  f[...]     zeros of real arrays

    >>> ad.imag([1 + 2j, 3.0])
    f64[2] [2. 0.]
    >>> ad.imag(3.0)
    f64[] 0.0
    """)
conj = _public("conj", _conj, another, """The conjugate.   c[...]  →  c[...]     real arrays are themselves

    >>> ad.conj([1 + 2j, 3.0])
    c128[2] [1.-2.j 3.-0.j]
    """)
