"""Operations that decide which elements are an extreme, for the rules of `max`, `cummax` and their like.

An extreme that was stored, and elements that other machine code computes again, may differ in the last bit: compared
with each other, no element would be the extreme.  So the decision is one operation, of the elements alone: both sides
of its comparison come from one program.  It is `heavy`: what a later program reads of it is stored, not decided again.

    max_winners    of x [1, 3, 3]     [F, T, T]          cummax_runs    of x [1, 3, 2, 3, 4]     [1, 3, 2, 1, 1]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import CONSTANT, OPS, Aval, Node, apply, dtype_name
from codegen.lowering import Call

from .arguments import kept
from .batching import along
from .primitive import Operation, expect, primitive

__all__ = ["runs", "winners"]

_BOOL = np.dtype(np.bool_)


def _op(name: str, *inputs: Node, **params: Any) -> Node:
    return apply(OPS[name], *inputs, **params)


def _number(value: float, like: Aval) -> Node:
    return Node(CONSTANT, (), (value, dtype_name(like.dtype)), Aval((), like.dtype))


def _spread(y: Node, axes: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    return _op("broadcast_to", _op("reshape", y, shape=kept(shape, axes)), shape=shape)


def _is_extreme(name: str, x: Node, axes: tuple[int, ...]) -> Node:
    return _op("equal", x, _spread(_op(name, x, axis=axes), axes, x.aval.shape))


def _decision(
    name: str, reference: Callable[..., Any], infer: Callable[..., Aval], written: Callable[..., Node]
) -> Operation:
    """An operation of one tensor with the parameter `axis`; the compiler is given the nodes that `written` makes."""
    return primitive(
        name, reference, infer=infer, lower=Call(), params=("axis",), heavy=True, discrete=True, batch=along("axis"),
        written=lambda operands, params, aval: written(operands[0], *params, aval),
    )  # fmt: skip


def winners(name: str, reference: Callable[..., Any]) -> Operation:
    """The elements that attain an extreme; where it is nan, the elements that are nan.

    x: T[..., n, ...]  →  bool[..., n, ...]

    name    of the extreme, an operation; complex numbers are ordered by real parts, equal ones by imaginary parts
    """

    def values(x: np.ndarray, *, axis: tuple[int, ...]) -> np.ndarray:
        return (x == reference(x, axis, keepdims=True)) | (x != x)

    def infer(x: Aval, *, axis: tuple[int, ...]) -> Aval:
        expect(name, (x,), "fic")
        return x.with_dtype(_BOOL)

    def written(x: Node, axes: tuple[int, ...], aval: Aval) -> Node:
        if x.aval.dtype.kind != "c":
            wins = _is_extreme(name, x, axes)
            return _op("bitwise_or", wins, _op("not_equal", x, x)) if x.aval.dtype.kind == "f" else wins
        re, im = _op("real", x), _op("imag", x)
        is_nan = _op("bitwise_or", _op("isnan", re), _op("isnan", im))
        re = _op("where", is_nan, _number(math.nan, re.aval), re)
        is_first = _is_extreme(name, re, axes)
        im = _op("where", is_first, im, _number(-math.inf if name == "max" else math.inf, im.aval))
        return _op("bitwise_or", _op("bitwise_and", is_first, _is_extreme(name, im, axes)), is_nan)

    return _decision(f"{name}_winners", values, infer, written)


def runs(name: str, reference: np.ufunc) -> Operation:
    """The plateaus of a running extreme: 1 for an element that attains it, and 2 where the plateau goes on behind it.

    x: f[..., n, ...]  →  f[..., n, ...]

    name    of the running extreme, an operation
    """

    def values(x: np.ndarray, *, axis: int) -> np.ndarray:
        y = np.moveaxis(reference.accumulate(x, axis), axis, -1)
        found = (y == np.moveaxis(x, axis, -1)).astype(x.dtype)
        found[..., :-1] += 2 * (y[..., 1:] == y[..., :-1])
        return np.moveaxis(found, -1, axis)

    def infer(x: Aval, *, axis: int) -> Aval:
        expect(name, (x,), "f")
        return x

    def written(x: Node, axis: int, aval: Aval) -> Node:
        def cut(y: Node, start: int, n: int) -> Node:
            shape = (*aval.shape[:axis], n, *aval.shape[axis + 1 :])
            place = Node(CONSTANT, (), (start, "i64"), Aval((), np.dtype(np.int64)))
            return _op("slice", y, place, axes=(axis,), steps=(1,), shape=shape)

        y, n, dtype = _op(name, x, axis=axis), aval.shape[axis], dtype_name(aval.dtype)
        attained = _op("cast", _op("equal", x, y), dtype=dtype)
        same = _op("cast", _op("equal", cut(y, 1, n - 1), cut(y, 0, n - 1)), dtype=dtype)
        last = _op("broadcast_to", _number(0.0, aval), shape=(*aval.shape[:axis], 1, *aval.shape[axis + 1 :]))
        goes_on = _op("concatenate", same, last, axis=axis)
        return _op("add", attained, _op("mul", goes_on, _number(2.0, aval)))

    return _decision(f"{name}_runs", values, infer, written)
