"""Reductions as monoids: the start of a reduction, the accumulator of one element, the combination of two accumulators.

An accumulator is a tuple of values: one, or for argmax and argmin two (the extreme and its place).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .index import Index
from .nest import I1, I64, ScalarType, Value
from .scalar import Scalar

Accumulator = tuple[Value, ...]


def identity(monoid: str, dtype: np.dtype) -> Any:
    """The result of a reduction over no elements: 0, 1, the least or the greatest number, False, True."""
    kind = dtype.kind
    if monoid in ("max", "argmax"):
        return -math.inf if kind == "f" else False if kind == "b" else int(np.iinfo(dtype).min)
    if monoid in ("min", "argmin"):
        return math.inf if kind == "f" else True if kind == "b" else int(np.iinfo(dtype).max)
    start = {"add": 0, "mul": 1, "any": False, "all": True}[monoid]
    return float(start) if kind == "f" else start


def is_sum(monoid: str, type: ScalarType) -> bool:
    """True for a sum or product of floats: rounding makes its order matter."""
    return monoid in ("add", "mul") and type.is_float


def start(k: Scalar, monoid: str, type: ScalarType) -> Accumulator:
    """The accumulator of no elements."""
    dtype = np.dtype(bool) if type is I1 else np.dtype(f"{'f' if type.is_float else 'i'}{type.bits // 8}")
    first = k.literal(identity(monoid, dtype), type)
    return (first, k.literal(0, I64)) if monoid.startswith("arg") else (first,)


def element(k: Scalar, monoid: str, x: Value, place: Index) -> Accumulator:
    """The accumulator of one element; `place` is its flat position along the reduced axes."""
    return (x, k.from_index(place, "i64")) if monoid.startswith("arg") else (x,)


def combine(k: Scalar, monoid: str, before: Accumulator, after: Accumulator, *, free_order: bool) -> Accumulator:
    """Combine two accumulators; `before` is that of the earlier elements.

    `free_order`: in an innermost loop LLVM may reorder the sum to fill vectors.
    """
    (x, *_), (y, *_) = before, after
    if monoid.startswith("arg"):
        takes = k.replaces_extreme("gt" if monoid == "argmax" else "lt", y, x)
        return k.select(takes, y, x), k.select(takes, after[1], before[1])
    if monoid == "add":
        return (k.accumulate(x, y) if free_order else k.add(x, y),)
    if monoid == "mul":
        return (k.accumulate(x, y, product=True) if free_order else k.mul(x, y),)
    if monoid in ("max", "min"):
        return (k.accumulate_extreme(x, y, is_greatest=monoid == "max"),)
    return ((k.logical_or if monoid == "any" else k.logical_and)(x, y),)


def sum_and_rest(k: Scalar, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error (Knuth's two sum), which is nan if the sum is not finite."""
    total = k.add(x, y)
    entered = k.sub(total, x)
    return total, k.add(k.sub(x, k.sub(total, entered)), k.sub(y, entered))


def multiplied(k: Scalar, so_far: Accumulator, factor: Value) -> Accumulator:
    """A partial sum, and its rounding error if the accumulator has one, times a factor; a sum of 0 stays 0.

    The rounding error of a product is exact, by a fused multiply-add (Ogita, Rump, Oishi 2005).
    """
    total, *rest = so_far
    product, zero = k.mul(total, factor), k.literal(0.0, total.type)
    kept = k.select(k.eq(total, zero), zero, product)
    if not rest:
        return (kept,)
    lost = k.fma(total, factor, k.neg(product))
    return kept, k.add(k.mul(rest[0], factor), lost)


def with_rest(k: Scalar, total: Value, rest: Value) -> Value:
    """A sum corrected by its collected rounding error, unless that is nan."""
    return k.select(k.eq(rest, rest), k.add(total, rest), total)
