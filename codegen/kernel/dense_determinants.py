"""The programs of linear algebra that use pivots: determinants, their logarithms and signs, adjugates.

As in `dense`, each program is for one matrix of a batch: program(batch, b).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dense_loops, dense_small
from .dense_loops import order_below
from .dense_small import Rows
from .index import Index
from .matrices import WRITTEN_OUT, Matrix, MatrixBatch, each, fold, read, set_to_identity, write
from .nest import F32, Value


def _pivots(batch: MatrixBatch, b: Index) -> tuple[Value, Callable[..., list[Value]]]:
    """The sign of the permutation of rows, and a function that folds over all pivots: over(initial, step) -> values."""
    k, f, n, a = batch.k, batch.f, batch.n, batch.input(0, b)
    if n * n * n <= WRITTEN_OUT:
        rows = read(a, n, n)
        sign = dense_small.lu(f, n, rows)

        def over_rows(carried: Sequence[Value], step: Callable[[Any, list[Value]], list[Value]]) -> list[Value]:
            found = list(carried)
            for i in range(n):
                found = step(rows[i][i], found)
            return found

        return sign, over_rows
    if len(batch.computed.inputs) == 2:
        factors = batch.input(1, b)
        sign = _sign_of(batch, f.real_part(order_below(factors, n).get(0, 0)))
    else:
        factors = batch.scratch(b, n)
        sign = dense_loops.lu(f, n, a, factors, batch.places())

    def over_memory(carried: Sequence[Value], step: Callable[[Any, list[Value]], list[Value]]) -> list[Value]:
        return fold(k, 0, n, carried, lambda i, found: step(factors.get(i, i), found))

    return sign, over_memory


def _log_of_size(batch: MatrixBatch, over: Callable[..., list[Value]]) -> Value:
    """The sum of the logarithms of all pivots' sizes; -inf if one is 0."""
    k, f = batch.k, batch.f
    return over([f.real(0.0)], lambda x, found: [k.add(found[0], k.log(f.magnitude(x)))])[0]


def _direction(batch: MatrixBatch, sign: Value, over: Callable[..., list[Value]]) -> Any:
    """The product of all pivots, each divided by its absolute value; 0 if a pivot is 0."""
    k, f = batch.k, batch.f

    def step(x: Any, found: list[Value]) -> list[Value]:
        size = f.magnitude(x)
        unit = f.scaled(x, k.div(f.real(1.0), size)) if f.width == 2 else _sign_of(batch, x)
        return f.parts(f.choose(f.is_zero(x), f.number(0.0), f.times(f.joined(found), unit)))

    return f.joined(over(f.parts(f.from_real(sign)), step))


def _sign_of(batch: MatrixBatch, x: Value) -> Value:
    """-1 for a negative number, else 1, also for nan."""
    k, f = batch.k, batch.f
    return k.select(k.lt(x, f.real(0.0)), f.real(-1.0), f.real(1.0))


def _determinant(batch: MatrixBatch, b: Index) -> None:
    """The product of the pivots, computed by logarithms if an intermediate product nearly overflows or underflows."""
    k, f = batch.k, batch.f
    sign, over = _pivots(batch, b)
    if batch.n <= _SAFE_ROWS:
        batch.output(b, 1, 1).put(_product(batch, sign, over), 0, 0)
        return
    bits = 100 if f.type is F32 else 960

    def step(x: Any, found: list[Value]) -> list[Value]:
        *parts, least, largest = found
        product = f.times(f.joined(parts), x)
        size = f.size(product)
        return [*f.parts(product), k.minimum(least, size), k.maximum(largest, size)]

    one = f.real(1.0)
    *parts, least, largest = over([*f.parts(f.from_real(sign)), one, one], step)
    is_safe = k.logical_and(k.gt(least, f.real(2.0**-bits)), k.lt(largest, f.real(2.0**bits)))
    size = k.exp(_log_of_size(batch, over))
    by_logarithm = f.scaled(_direction(batch, sign, over), size)
    batch.output(b, 1, 1).put(f.choose(is_safe, f.joined(parts), by_logarithm), 0, 0)


#: Up to this many rows a product (largest pivot * smallest * third) leaves the range of floats only if the result does.
_SAFE_ROWS = 3


def _product(batch: MatrixBatch, sign: Value, over: Callable[..., list[Value]]) -> Any:
    """The product of up to three pivots, in the order of `_SAFE_ROWS`."""
    k, f = batch.k, batch.f
    pivots: list[Any] = []

    def step(x: Any, found: list[Value]) -> list[Value]:
        pivots.append(x)
        return found

    over([], step)
    for i, j in ((0, 1), (1, 2), (0, 1)):
        if j < len(pivots):
            x, y = pivots[i], pivots[j]
            is_less = k.lt(f.size(x), f.size(y))
            pivots[i], pivots[j] = f.choose(is_less, y, x), f.choose(is_less, x, y)
    product = f.scaled(pivots.pop(0), sign)
    while pivots:
        product = f.times(product, pivots.pop())
    return product


def _adjugate(batch: MatrixBatch, b: Index) -> Value | None:
    """The adjugate, also if the last pivot is 0.  A matrix is refused if another pivot is small beside the largest.

    d is the last pivot, D the product of the others.  u y = D d x is solved from the last row on, in which y is D x.
    """
    k, f, n = batch.k, batch.f, batch.n
    a, y = batch.input(0, b), batch.output(b, n, n)
    if n <= dense_small.ADJUGATE:
        rows = read(a, n, n)
        _write_of_finite(batch, y, dense_small.adjugate(f, n, rows), rows)
        return None
    factors = batch.scratch(b, n)
    set_to_identity(y, n)
    sign = dense_loops.lu(f, n, a, factors, batch.places(), y, n)
    dense_loops.substitute(f, n, factors, y, n, lower=True, unit=True)

    def step(i: Index, found: list[Value]) -> list[Value]:
        *parts, least, largest = found
        x = factors.get(i, i)
        size = f.size(x)
        return [*f.parts(f.times(f.joined(parts), x)), k.minimum(least, size), k.maximum(largest, size)]

    first = [f.real(np.inf), f.real(0.0)]
    *parts, least, largest = fold(k, 0, n - 1, [*f.parts(f.from_real(sign)), *first], step)
    but_last = f.joined(parts)
    last = factors.get(n - 1, n - 1)
    largest = k.maximum(largest, f.size(last))
    _times(batch, y, 0, (n - 1) * n, f.times(but_last, last))
    _times(batch, y, (n - 1) * n, n * n, but_last)
    factors.put(f.number(1.0), n - 1, n - 1)
    dense_loops.substitute(f, n, factors, y, n, lower=False)
    smallest = k.mul(largest, f.real(2.0**-8 if f.type is F32 else 2.0**-20))
    return k.logical_and(k.gt(least, smallest), k.lt(largest, f.real(np.inf)))


def _write_of_finite(batch: MatrixBatch, y: Matrix, found: Rows, given: Rows) -> None:
    """Write a matrix; if a given number is nan or infinite, the whole result is nan, as in the reference."""
    k, f = batch.k, batch.f
    largest = f.real(0.0)
    for x in [x for row in given for x in row]:
        largest = k.maximum(largest, f.size(x))
    nothing = f.from_real(k.mul(largest, f.real(0.0)))
    write(y, [[f.add(x, nothing) for x in row] for row in found])


def _times(batch: MatrixBatch, y: Matrix, low: int, high: int, factor: Any) -> None:
    """Multiply the numbers of a matrix at the flat places from low to high by a factor."""
    flat = Matrix(y.f, y.memory, y.start, 0)
    with each(batch.k, low, high, parallel=True) as t:
        flat.put(y.f.times(flat.get(0, t), factor), 0, t)


DETERMINANTS: dict[str, Callable[[MatrixBatch, Index], Value | None]] = {
    "determinant": _determinant,
    "sign": lambda batch, b: batch.output(b, 1, 1).put(_direction(batch, *_pivots(batch, b)), 0, 0),
    "log_abs": lambda batch, b: batch.output(b, 1, 1).put(_log_of_size(batch, _pivots(batch, b)[1]), 0, 0),
    "adjugate": _adjugate,
}
