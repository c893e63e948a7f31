"""The real operations that complex ones are made of.  They stand in no graph that a user sees.

    part    one of the two numbers of each element of memory        f64[n,2]  ->  f64[n]
    pair    two arrays as the memory of a complex one, interleaved  f64[n], f64[n]  ->  f64[n,2]
    hosted  what NumPy computes with complex numbers                memory -> memory

and elementwise formulas, one per part of a result: functions of a scalar builder `k`, as lowerings are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from ..ir import DTYPES, Aval, Node
from ..ir.op import Op
from ..kernel.edges import broadcast_index
from ..lowering import Call, Map, Move
from .pairs import REALS

__all__ = ["FORMULAS", "PART", "RESHAPE", "ROWS", "SPREAD", "ZEROS", "hosted", "memory_aval"]


def memory_aval(aval: Aval) -> Aval:
    """Of an array as it lies in memory: complex numbers are pairs there."""
    return Aval((*aval.shape, 2), REALS[aval.dtype]) if aval.dtype in REALS else aval


def _part_aval(x: Aval, *, which: int) -> Aval:
    return x.with_shape(x.shape[:-1])


#: Which of the two numbers: 0 the real ones, 1 the imaginary ones.
PART = Op(
    "part",
    infer=_part_aval,
    reference=lambda x, *, which: x[..., which],
    lower=Move(lambda k, index, x, *, which: x(*index, k.index(which))),
    params=("which",),
    traits=frozenset(("move",)),
)

#: An array of zeros: the imaginary parts of real numbers.
ZEROS = Op(
    "zeros",
    infer=lambda *, shape, dtype: Aval(shape, DTYPES[dtype]),
    reference=lambda *, shape, dtype: np.zeros(shape, DTYPES[dtype]),
    lower=Move(lambda k, index, *, shape, dtype: k.constant(0, dtype)),
    params=("shape", "dtype"),
)



def _row_of(k: Any, index: Any, x: Any, y: Any) -> Any:
    *before, row, which, column = index
    place = (*before, row, column)
    return k.select(k.lt(which, k.index(1)), x(*place), y(*place))


#: Rows of two matrices in turn: f64[k,n], f64[k,n] -> f64[k,2,n].
ROWS = Op(
    "rows",
    infer=lambda x, y: x.with_shape((*x.shape[:-1], 2, x.shape[-1])),
    reference=lambda x, y: np.stack([x, y], axis=-2),
    lower=Move(_row_of, free=False),
)

RESHAPE = Op(
    "reshape",
    infer=lambda x, *, shape: x.with_shape(shape),
    reference=lambda x, *, shape: x.reshape(shape),
    lower=Move(lambda k, index, x, *, shape: x, free=False, is_reshape=True),
    params=("shape",),
    traits=frozenset(("move",)),
)

SPREAD = Op(
    "broadcast_to",
    infer=lambda x, *, shape: x.with_shape(shape),
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    lower=Move(lambda k, index, x, *, shape: x(*broadcast_index(index, shape, x.shape))),
    params=("shape",),
    traits=frozenset(("move",)),
)


def hosted(name: str, lower: Call) -> Op:
    """An operation on complex numbers in memory, of NumPy or `Dense`: its parameter is the complex node."""
    return Op(name, infer=_hosted_aval, reference=None, lower=lower, params=("computed",))


def _hosted_aval(*_inputs: Aval, computed: Node) -> Aval:
    return memory_aval(computed.aval)


# ---------------------------------------------------------------- formulas


def _one(k: Any, x: Any) -> Any:
    return k.constant(1, like=x)


def _zero(k: Any, x: Any) -> Any:
    return k.constant(0, like=x)


def _infinity(k: Any, x: Any) -> Any:
    return k.constant(math.inf, like=x)


def _both_zero(k: Any, a: Any, b: Any) -> Any:
    return k.logical_and(k.eq(a, _zero(k, a)), k.eq(b, _zero(k, b)))


def _unless_zero(k: Any, x: Any, y: Any) -> Any:
    """x * y, and 0 where y is: also beside an infinite x."""
    return k.select(k.eq(y, _zero(k, y)), y, k.mul(x, y))


def _size(k: Any, a: Any, b: Any) -> Any:
    """sqrt(a² + b²) without overflow."""
    a, b = k.abs(a), k.abs(b)
    large, small = k.maximum(a, b), k.minimum(a, b)
    ratio = k.div(small, k.select(k.eq(large, _zero(k, a)), _one(k, a), large))
    size = k.mul(large, k.sqrt(k.add(_one(k, a), k.mul(ratio, ratio))))
    # An infinite part decides, even beside nan.
    return k.select(k.logical_or(k.isinf(a), k.isinf(b)), _infinity(k, a), size)


# Division by c + id as Smith does it: by the larger part first, so that nothing overflows on the way.


def _is_turned(k: Any, c: Any, d: Any) -> Any:
    return k.lt(k.abs(c), k.abs(d))


def _by_size(k: Any, c: Any, d: Any) -> tuple[Any, Any]:
    turned = _is_turned(k, c, d)
    return k.select(turned, d, c), k.select(turned, c, d)


def _ratio(k: Any, c: Any, d: Any) -> Any:
    """The smaller part by the larger one."""
    large, small = _by_size(k, c, d)
    return k.select(_both_zero(k, c, d), _zero(k, c), k.div(small, large))


def _scale(k: Any, c: Any, d: Any, ratio: Any) -> Any:
    """The factor that both parts are multiplied by."""
    large, small = _by_size(k, c, d)
    size = k.select(_both_zero(k, c, d), k.abs(c), k.add(large, k.mul(small, ratio)))
    return k.div(_one(k, c), size)


def _quotient_re(k: Any, a: Any, b: Any, c: Any, d: Any, ratio: Any, scale: Any) -> Any:
    turned = _is_turned(k, c, d)
    first, second = k.select(turned, b, a), k.select(turned, a, b)
    return k.mul(k.select(_both_zero(k, c, d), first, k.add(first, k.mul(second, ratio))), scale)


def _quotient_im(k: Any, a: Any, b: Any, c: Any, d: Any, ratio: Any, scale: Any) -> Any:
    turned = _is_turned(k, c, d)
    first, second = k.select(turned, b, a), k.select(turned, a, b)
    moved = k.select(_both_zero(k, c, d), second, k.sub(second, k.mul(first, ratio)))
    return k.mul(moved, k.select(turned, k.neg(scale), scale))


# e to the a + ib: where e to the a alone overflows, cos b and sin b may bring it back.


def _limit(k: Any, a: Any) -> float:
    """Whole, and near the logarithm of the largest number."""
    return 704.0 if k.dtype(a) == "f64" else 87.0


def _growth(k: Any, a: Any) -> Any:
    limit = k.constant(_limit(k, a), like=a)
    return k.exp(k.select(k.gt(a, limit), k.sub(a, limit), a))


def _times_growth(k: Any, a: Any, growth: Any, x: Any) -> Any:
    limit = _limit(k, a)
    return k.mul(k.mul(growth, x), k.select(k.gt(a, k.constant(limit, like=a)),
                                            k.constant(math.exp(limit), like=a), _one(k, a)))  # fmt: skip


def _is_undirected(k: Any, a: Any, b: Any) -> Any:
    """An infinite size, and no direction."""
    return k.logical_and(k.isinf(a), k.logical_not(k.isfinite(b)))


def _exp_re(k: Any, a: Any, b: Any, growth: Any) -> Any:
    end = k.select(k.gt(a, _zero(k, a)), a, _zero(k, a))
    return k.select(_is_undirected(k, a, b), end, _times_growth(k, a, growth, k.cos(b)))


def _exp_im(k: Any, a: Any, b: Any, growth: Any) -> Any:
    end = k.select(k.gt(a, _zero(k, a)), k.constant(math.nan, like=a), _zero(k, a))
    found = k.select(_is_undirected(k, a, b), end, _times_growth(k, a, growth, k.sin(b)))
    return k.select(k.eq(b, _zero(k, b)), b, found)


def _log_re(k: Any, a: Any, b: Any) -> Any:
    """log |z|: near 1 by how far |z|² is from it, elsewhere by the larger part and the ratio."""
    one, half, zero = _one(k, a), k.constant(0.5, like=a), _zero(k, a)
    a, b = k.abs(a), k.abs(b)
    large, small = k.maximum(a, b), k.minimum(a, b)
    is_near = k.logical_and(k.gt(large, half), k.lt(large, k.constant(2, like=a)))
    beyond = k.fma(small, small, k.fma(large, large, k.neg(one)))
    ratio = k.div(small, k.select(k.eq(large, zero), one, large))
    found = k.add(
        k.select(is_near, zero, k.log(large)),
        k.mul(half, k.log1p(k.select(is_near, beyond, k.mul(ratio, ratio)))),
    )
    return k.select(k.logical_or(k.isinf(a), k.isinf(b)), _infinity(k, a), found)


# The square root of a + ib: (t, b / 2t) or (|b| / 2t, ±t), with t = sqrt((|a| + |z|) / 2).


#: From where on, and by which power of 4, numbers are scaled: large ones down, small ones up.
_SCALED = {"f64": ((2.0**1020, 2.0**-4), (2.0**-960, 2.0**104)), "f32": ((2.0**124, 2.0**-4), (2.0**-100, 2.0**48))}


def _root(k: Any, a: Any, b: Any) -> Any:
    one, size = _one(k, a), k.maximum(k.abs(a), k.abs(b))
    (large, down), (small, up) = _SCALED[k.dtype(a)]
    is_large, is_small = k.gt(size, k.constant(large, like=a)), k.lt(size, k.constant(small, like=a))

    def scale(of_large: float, of_small: float) -> Any:
        return k.select(is_large, k.constant(of_large, like=a), k.select(is_small, k.constant(of_small, like=a), one))

    factor = scale(down, up)
    x, y = k.mul(a, factor), k.mul(b, factor)
    root = k.sqrt(k.mul(k.constant(0.5, like=a), k.add(k.abs(x), _size(k, x, y))))
    return k.mul(root, scale(down**-0.5, up**-0.5))


def _other_root(k: Any, b: Any, root: Any) -> Any:
    """b / 2t, which is 0 at 0."""
    twice = k.add(root, root)
    return k.select(k.eq(root, _zero(k, root)), b, k.div(b, k.select(k.isinf(twice), root, twice)))


def _sqrt_re(k: Any, a: Any, b: Any, root: Any) -> Any:
    found = k.select(k.ge(a, _zero(k, a)), root, k.abs(_other_root(k, b, root)))
    found = k.select(k.isnan(a), a, found)
    return k.select(k.isinf(b), _infinity(k, b), found)


def _sqrt_im(k: Any, a: Any, b: Any, root: Any) -> Any:
    found = k.select(k.ge(a, _zero(k, a)), _other_root(k, b, root), k.copysign(root, b))
    return k.select(k.isinf(b), b, k.select(k.isnan(a), a, found))


# tanh(a + ib) by W. Kahan, "Branch cuts for complex elementary functions" (1987).


def _tanh_parts(k: Any, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """tan b, 1 + tan² b, sinh a, and what both parts are divided by."""
    t, s = k.tan(b), k.sinh(_within(k, a))
    beta = k.add(_one(k, a), k.mul(t, t))
    return t, beta, s, k.add(_one(k, a), k.mul(k.mul(beta, s), s))


def _within(k: Any, a: Any) -> Any:
    """a, as far as it makes a difference."""
    limit = k.constant(_flat_from(k, a), like=a)
    return k.maximum(k.minimum(a, limit), k.neg(limit))


def _flat_from(k: Any, a: Any) -> float:
    """From here on tanh is 1 but for what cannot be seen."""
    return 22.0 if k.dtype(a) == "f64" else 11.0


def _tanh_re(k: Any, a: Any, b: Any) -> Any:
    _, beta, s, size = _tanh_parts(k, a, b)
    found = k.div(k.mul(k.mul(beta, s), k.sqrt(k.add(_one(k, a), k.mul(s, s)))), size)
    is_flat = k.gt(k.abs(a), k.constant(_flat_from(k, a), like=a))
    return k.select(is_flat, k.copysign(_one(k, a), a), found)


def _tanh_im(k: Any, a: Any, b: Any) -> Any:
    t, _, _, size = _tanh_parts(k, a, b)
    size_of_a = k.abs(a)
    decay = k.exp(k.neg(size_of_a))
    far = k.mul(k.mul(k.mul(k.constant(4, like=a), k.sin(b)), k.mul(k.cos(b), decay)), decay)
    far = k.select(k.isinf(a), _zero(k, a), far)
    is_flat = k.gt(size_of_a, k.constant(_flat_from(k, a), like=a))
    return k.select(is_flat, far, k.div(t, size))


def _cast_bool(k: Any, a: Any, b: Any) -> Any:
    return k.logical_not(_both_zero(k, a, b))


_RULES: dict[str, Callable[..., Any]] = {
    "neg": lambda k, a: k.neg(a),
    "add": lambda k, a, b: k.add(a, b),
    "sub": lambda k, a, b: k.sub(a, b),
    "mul": lambda k, a, b: k.mul(a, b),
    "div": lambda k, a, b: k.div(a, b),
    "mul_re": lambda k, a, b, c, d: k.sub(k.mul(a, c), k.mul(b, d)),
    "mul_im": lambda k, a, b, c, d: k.add(k.mul(a, d), k.mul(b, c)),
    "ratio": _ratio,
    "scale": _scale,
    "div_re": _quotient_re,
    "div_im": _quotient_im,
    "abs": _size,
    "angle": lambda k, a, b: k.atan2(b, a),
    "growth": _growth,
    "exp_re": _exp_re,
    "exp_im": _exp_im,
    "log_re": _log_re,
    "root": _root,
    "sqrt_re": _sqrt_re,
    "sqrt_im": _sqrt_im,
    "sin_cosh": lambda k, a, b: _unless_zero(k, k.cosh(b), k.sin(a)),
    "cos_sinh": lambda k, a, b: _unless_zero(k, k.cos(a), k.sinh(b)),
    "cos_cosh": lambda k, a, b: k.mul(k.cos(a), k.cosh(b)),
    "sin_sinh": lambda k, a, b: _unless_zero(k, k.sinh(b), k.sin(a)),
    "minus_sin_sinh": lambda k, a, b: k.neg(_unless_zero(k, k.sinh(b), k.sin(a))),
    "tanh_re": _tanh_re,
    "tanh_im": _tanh_im,
    "is_equal": lambda k, a, b, c, d: k.logical_and(k.eq(a, c), k.eq(b, d)),
    "differs": lambda k, a, b, c, d: k.logical_or(k.ne(a, c), k.ne(b, d)),
    "is_zero": _both_zero,
    "is_not_zero": _cast_bool,
    "is_positive": lambda k, a: k.gt(a, _zero(k, a)),
    "choose": lambda k, chosen, a, b: k.select(chosen, a, b),
}


class _Numpys:
    """NumPy as a scalar builder: what the formulas mean, and what constants are folded by."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _NUMPYS.get(name) or getattr(np, name)

    def constant(self, value: Any, *, like: Any) -> Any:
        return np.asarray(value, like.dtype)

    def dtype(self, x: Any) -> str:
        return "f64" if x.dtype.itemsize == 8 else "f32"


_NUMPYS: dict[str, Callable[..., Any]] = {
    "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "neg": np.negative, "select": np.where,
    "atan2": np.arctan2, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "gt": np.greater, "ge": np.greater_equal,
    "fma": lambda x, y, z: x * y + z,
}  # fmt: skip


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of all together.  By comparisons only: an extent may stand for any."""
    aligned = zip_longest(*[reversed(shape) for shape in shapes], fillvalue=1)
    return tuple([next((n for n in extents if n != 1), 1) for extents in aligned])[::-1]


#: Formulas that give a bool.
_ANSWERS = frozenset(("is_equal", "differs", "is_zero", "is_not_zero", "is_positive"))


def _formula(name: str, rule: Callable[..., Any]) -> Op:
    def reference(*arrays: np.ndarray) -> np.ndarray:
        return rule(_Numpys(), *[np.asarray(a) for a in arrays])

    def infer(*avals: Aval) -> Aval:
        return Aval(_broadcast([a.shape for a in avals]), np.bool_ if name in _ANSWERS else avals[-1].dtype)

    return Op(name, infer=infer, reference=reference, lower=Map(rule), traits=frozenset(("elementwise",)))


#: The elementwise formulas by name.
FORMULAS: dict[str, Op] = {name: _formula(name, rule) for name, rule in _RULES.items()}
