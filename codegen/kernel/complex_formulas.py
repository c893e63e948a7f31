"""Elementwise operations on complex numbers: a table, by name, of the formulas of their real and imaginary parts.

    "mul": (x, y) -> x.re * y.re - x.im * y.im,  x.re * y.im + x.im * y.re

A formula is written with Python's operators on expressions and computes nothing: `part_of` makes an operation on real
numbers of each part.  Common subexpressions of both parts are computed once, because kernels share equal operations.
Programs of linear algebra use the same formulas (`applied`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from ..ir import Aval
from ..ir.op import Op
from ..lowering import Map
from ..records import NamedTuple


def _operation(name: str, *, turned: bool = False) -> Any:
    """A function that applies a method of the scalar builder to expressions and numbers."""
    return lambda *operands: Expression(name, operands[::-1] if turned else operands)


class Expression:
    """A method of the scalar builder and its operands.  The operand of "part" is the number of an element; those of
    "either" are the constants for f64 and for f32.
    """

    __slots__ = ("name", "operands")

    def __init__(self, name: str, operands: Sequence[Any]) -> None:
        self.name, self.operands = name, operands

    __add__, __sub__, __mul__, __truediv__ = map(_operation, ("add", "sub", "mul", "div"))
    __lt__, __gt__, __ge__, __eq__, __ne__ = map(_operation, ("lt", "gt", "ge", "eq", "ne"))
    __neg__, __abs__, __and__, __or__, __invert__ = map(
        _operation, ("neg", "abs", "logical_and", "logical_or", "logical_not")
    )
    __hash__ = object.__hash__
    __rmul__, __rtruediv__, __radd__ = (_operation(name, turned=True) for name in ("mul", "div", "add"))


_exp, _log, _log1p, _sqrt, _sin, _cos, _tan, _sinh, _cosh, _atan2, _fma, _select = map(
    _operation, ["exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "atan2", "fma", "select"]
)
_isinf, _isnan, _isfinite, _maximum, _minimum, _copysign = map(
    _operation, ["isinf", "isnan", "isfinite", "maximum", "minimum", "copysign"]
)


def _either(of_f64: float, of_f32: float) -> Any:
    return Expression("either", (of_f64, of_f32))


class Complex(NamedTuple):
    """A complex number: expressions, or numbers, for its two parts."""

    re: Any
    im: Any


_ONE = Complex(1.0, 0.0)


def _is_zero(x: Complex) -> Any:
    return (x.re == 0.0) & (x.im == 0.0)


def _times(x: Complex, y: Complex) -> Complex:
    return Complex(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def _chosen(condition: Any, x: Complex, y: Complex) -> Complex:
    return Complex(_select(condition, x.re, y.re), _select(condition, x.im, y.im))


def _quotient(x: Complex, y: Complex) -> Complex:
    """The quotient by c + id by Smith's method: the larger part divides first, so that no intermediate overflows."""
    c, d = y
    is_turned, is_zero = abs(c) < abs(d), _is_zero(y)
    large, small = _select(is_turned, d, c), _select(is_turned, c, d)
    ratio = _select(is_zero, 0.0, small / large)
    scale = 1.0 / _select(is_zero, abs(c), large + small * ratio)
    first, second = _select(is_turned, x.im, x.re), _select(is_turned, x.re, x.im)
    re = _select(is_zero, first, first + second * ratio) * scale
    im = _select(is_zero, second, second - first * ratio) * _select(is_turned, -scale, scale)
    return Complex(re, im)


def _power_static(x: Complex, exponent: float) -> Complex:
    if abs(exponent) == 0.5:
        product = _root(x)
    else:
        product, factor, n = _ONE, x, abs(int(exponent))
        while n:
            if n & 1:
                product = factor if product is _ONE else _times(product, factor)
            n >>= 1
            factor = _times(factor, factor)
    return product if exponent >= 0 else _quotient(_ONE, product)


def _power(x: Complex, p: Complex) -> Complex:
    """e to the (p log x); 1 for p = 0; 0 for x = 0 if p has a positive real part, else nan."""
    at_zero = _select(p.re > 0.0, 0.0, math.nan)
    found = _chosen(_is_zero(x), Complex(at_zero, at_zero), _exponential(_times(p, _logarithm(x))))
    return _chosen(_is_zero(p), _ONE, found)


def _size(z: Complex) -> Any:
    """sqrt(a² + b²) without overflow."""
    a, b = abs(z.re), abs(z.im)
    large, small = _maximum(a, b), _minimum(a, b)
    ratio = small / _select(large == 0.0, 1.0, large)
    # If a part is infinite, so is the result, even if the other part is nan.
    return _select(_isinf(a) | _isinf(b), math.inf, large * _sqrt(1.0 + ratio * ratio))


def _exponential(z: Complex) -> Complex:
    """e to the a + ib; where e to the a alone overflows, its product with cos b or sin b may still be finite."""
    a, b = z
    limit = _either(704.0, 87.0)  # whole, and near the logarithm of the largest number
    is_far, is_undirected = a > limit, _isinf(a) & ~_isfinite(b)
    growth, rest = _exp(_select(is_far, a - limit, a)), _either(math.exp(704.0), math.exp(87.0))

    def part(x: Any, at_infinity: Any) -> Any:
        return _select(is_undirected, _select(a > 0.0, at_infinity, 0.0), growth * x * _select(is_far, rest, 1.0))

    return Complex(part(_cos(b), a), _select(b == 0.0, b, part(_sin(b), math.nan)))


def _logarithm(z: Complex) -> Complex:
    """The logarithm: log |z| is computed from |z|² - 1 near 1, elsewhere from the larger part and the ratio of both."""
    a, b = abs(z.re), abs(z.im)
    large, small = _maximum(a, b), _minimum(a, b)
    is_near = (large > 0.5) & (large < 2.0)
    beyond = _fma(small, small, _fma(large, large, -1.0))
    ratio = small / _select(large == 0.0, 1.0, large)
    found = _select(is_near, 0.0, _log(large)) + 0.5 * _log1p(_select(is_near, beyond, ratio * ratio))
    return Complex(_select(_isinf(a) | _isinf(b), math.inf, found), _atan2(z.im, z.re))


def _root(z: Complex) -> Complex:
    """sqrt z: (t, b / 2t) or (|b| / 2t, ±t), t = sqrt((|a| + |z|) / 2).  Large numbers are scaled down, small up."""
    a, b = z
    size = _maximum(abs(a), abs(b))
    is_large, is_small = size > _either(2.0**1020, 2.0**124), size < _either(2.0**-960, 2.0**-100)

    def scale(of_large: float, of_small: Any) -> Any:
        return _select(is_large, of_large, _select(is_small, of_small, 1.0))

    factor = scale(2.0**-4, _either(2.0**104, 2.0**48))
    x, y = a * factor, b * factor
    root = _sqrt(0.5 * (abs(x) + _size(Complex(x, y)))) * scale(4.0, _either(2.0**-52, 2.0**-24))
    twice = root + root
    other = _select(root == 0.0, b, b / _select(_isinf(twice), root, twice))  # 0 at 0
    re = _select(_isnan(a), a, _select(a >= 0.0, root, abs(other)))
    im = _select(_isnan(a), a, _select(a >= 0.0, other, _copysign(root, b)))
    return Complex(_select(_isinf(b), math.inf, re), _select(_isinf(b), b, im))


def _unless_zero(x: Any, y: Any) -> Any:
    """x * y, and 0 where y is 0, even if x is infinite."""
    return _select(y == 0.0, y, x * y)


def _sine(z: Complex) -> Complex:
    return Complex(_unless_zero(_cosh(z.im), _sin(z.re)), _unless_zero(_cos(z.re), _sinh(z.im)))


def _cosine(z: Complex) -> Complex:
    return Complex(_cos(z.re) * _cosh(z.im), -_unless_zero(_sinh(z.im), _sin(z.re)))


def _tangent(z: Complex) -> Complex:
    """tan z = -i tanh iz, and iz = -b + ia."""
    turned = _hyperbolic_tangent(Complex(-z.im, z.re))
    return Complex(turned.im, -turned.re)


def _hyperbolic_tangent(z: Complex) -> Complex:
    """tanh z.  Source: W. Kahan, "Branch cuts for complex elementary functions" (1987)."""
    a, b = z
    flat = _either(22.0, 11.0)  # from here on the real part rounds to 1
    t, s = _tan(b), _sinh(_maximum(_minimum(a, flat), -flat))
    beta = 1.0 + t * t
    size = 1.0 + beta * s * s
    decay = _exp(-abs(a))
    far = _select(_isinf(a), 0.0, 4.0 * _sin(b) * (_cos(b) * decay) * decay)
    is_flat = abs(a) > flat
    re = _select(is_flat, _copysign(1.0, a), beta * s * _sqrt(1.0 + s * s) / size)
    return Complex(re, _select(is_flat, far, t / size))


#: By the name of an operation: a function of its operands and parameters that gives its result, complex or real.
FORMULAS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: Complex(x.re + y.re, x.im + y.im),
    "sub": lambda x, y: Complex(x.re - y.re, x.im - y.im),
    "neg": lambda x: Complex(-x.re, -x.im),
    "mul": _times,
    "mul0": lambda g, p: _chosen(_is_zero(g), Complex(0.0, 0.0), _times(g, p)),  # 0 where g is 0, for any p
    "div": _quotient,
    "reciprocal": lambda x: _quotient(_ONE, x),
    "power_static": _power_static,
    "power": _power,
    "lower_power": _power,
    "where": _chosen,
    "equal": lambda x, y: (x.re == y.re) & (x.im == y.im),
    "not_equal": lambda x, y: (x.re != y.re) | (x.im != y.im),
    "cast": lambda x, _: ~_is_zero(x),  # to bool
    "abs_complex": _size,
    "exp": _exponential,
    "log": _logarithm,
    "sqrt": _root,
    "sin": _sine,
    "cos": _cosine,
    "tan": _tangent,
    "sinh": lambda z: Complex(*_sine(Complex(z.im, z.re))[::-1]),
    "cosh": lambda z: Complex(_cos(z.im) * _cosh(z.re), _unless_zero(_sinh(z.re), _sin(z.im))),
    "tanh": _hyperbolic_tangent,
}


def part_of(op: Op, part: str, are_complex: tuple[bool, ...], params: tuple, dtype: np.dtype) -> Op:
    """The operation on real numbers for a part of a complex operation's result: "re", "im"; "" if the result is real.

    are_complex   for each operand: True if it is passed as two real operands
    """
    found = FORMULAS[op.name](*_operands(are_complex), *params)
    result = getattr(found, part) if part else found

    def infer(*avals: Aval) -> Aval:
        return Aval(_broadcast([a.shape for a in avals]), dtype)

    def scalar(k: Any, *elements: Any) -> Any:
        return _computed(result, k, elements, {})

    name = f"{op.name}_{part}" if part else op.name
    return Op(name, infer=infer, reference=None, lower=Map(scalar), traits=frozenset(("elementwise",)))


def applied(name: str, k: Any, *numbers: tuple[Any, Any]) -> Any:
    """Apply a formula to complex numbers that are pairs of elements; returns a pair, or an element if it is real."""
    elements = [part for number in numbers for part in number]
    known: dict[int, Any] = {}
    found = FORMULAS[name](*_operands([True] * len(numbers)))
    if not isinstance(found, Complex):
        return _computed(found, k, elements, known)
    return _computed(found.re, k, elements, known), _computed(found.im, k, elements, known)


def _operands(are_complex: Sequence[bool]) -> list[Any]:
    """Expressions for operands; a complex operand takes two elements."""
    operands, count = [], 0
    for is_pair in are_complex:
        parts = [Expression("part", (count + k,)) for k in range(1 + is_pair)]
        operands.append(Complex(*parts) if is_pair else parts[0])
        count += len(parts)
    return operands


def _computed(x: Any, k: Any, elements: Sequence[Any], known: dict[int, Any]) -> Any:
    """The value of an expression, computed with a scalar builder.   known: values computed before, by id"""
    if not isinstance(x, Expression):
        return k.constant(x, like=elements[-1])
    if id(x) not in known:
        if x.name == "part":
            value = elements[x.operands[0]]
        elif x.name == "either":
            value = k.constant(x.operands[k.dtype(elements[-1]) == "f32"], like=elements[-1])
        else:
            value = getattr(k, x.name)(*[_computed(operand, k, elements, known) for operand in x.operands])
        known[id(x)] = value
    return known[id(x)]


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which all broadcast.  Extents are only compared, because one may stand for any size."""
    aligned = zip_longest(*[reversed(shape) for shape in shapes], fillvalue=1)
    return tuple([next((n for n in extents if n != 1), 1) for extents in aligned])[::-1]
