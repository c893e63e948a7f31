"""The programs of linear algebra that are made of pivots: determinants, their logarithms and signs, adjugates.

As in `dense_programs`, for one matrix of a batch each: program(job, b).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dense_loops, dense_small
from .dense_job import WRITTEN_OUT, Job
from .dense_loops import order_below
from .dense_small import Rows
from .index import Index
from .matrices import Matrix, Place, each, fold, read, set_to_identity, write
from .nest import F32, Value

__all__ = ["DETERMINANTS"]

#: Rows up to which a product of matrices is written out for each column: the columns are side by side in vectors.
_ROWS = 16


def _pivots(job: Job, b: Index) -> tuple[Value, Callable[..., list[Value]]]:
    """The sign of the exchanges of rows, and what goes over all pivots: run(initial, step) -> what is carried."""
    k, f, n, a = job.k, job.f, job.n, job.input(0, b)
    if n * n * n <= WRITTEN_OUT:
        rows = read(a, n, n)
        sign = dense_small.lu(f, n, rows)

        def over_rows(carried: Sequence[Value], step: Callable[[Any, list[Value]], list[Value]]) -> list[Value]:
            found = list(carried)
            for i in range(n):
                found = step(rows[i][i], found)
            return found

        return sign, over_rows
    if len(job.computed.inputs) == 2:
        factors = job.input(1, b)
        sign = _sign_of(job, f.real_part(order_below(factors, n).get(0, 0)))
    else:
        factors = job.scratch(b, n)
        sign = dense_loops.lu(f, n, a, factors, job.places())

    def over_memory(carried: Sequence[Value], step: Callable[[Any, list[Value]], list[Value]]) -> list[Value]:
        return fold(k, 0, n, carried, lambda i, found: step(factors.get(i, i), found))

    return sign, over_memory


def _log_of_size(job: Job, over: Callable[..., list[Value]]) -> Value:
    """The sum of the logarithms of all pivots' sizes; -inf if one is 0."""
    k, f = job.k, job.f
    return over([f.real(0.0)], lambda x, found: [k.add(found[0], k.log(f.magnitude(x)))])[0]


def _direction(job: Job, sign: Value, over: Callable[..., list[Value]]) -> Any:
    """The product of what the pivots are divided by their sizes; 0 if one is 0."""
    k, f = job.k, job.f

    def step(x: Any, found: list[Value]) -> list[Value]:
        size = f.magnitude(x)
        unit = f.scaled(x, k.div(f.real(1.0), size)) if f.width == 2 else _sign_of(job, x)
        return f.parts(f.choose(f.is_zero(x), f.number(0.0), f.times(f.joined(found), unit)))

    return f.joined(over(f.parts(f.from_real(sign)), step))


def _sign_of(job: Job, x: Value) -> Value:
    """1 or -1, whatever sign nan has."""
    k, f = job.k, job.f
    return k.select(k.lt(x, f.real(0.0)), f.real(-1.0), f.real(1.0))


def _sign(job: Job, b: Index) -> None:
    direction = _direction(job, *_pivots(job, b))
    job.output(b, 1, 1).put(direction, 0, 0)


def _log_abs(job: Job, b: Index) -> None:
    job.output(b, 1, 1).put(_log_of_size(job, _pivots(job, b)[1]), 0, 0)


def _determinant(job: Job, b: Index) -> None:
    """The product of the pivots; where it leaves the range on the way, by its logarithm."""
    k, f = job.k, job.f
    sign, over = _pivots(job, b)
    if job.n <= _FEW:
        job.output(b, 1, 1).put(_product(job, sign, over), 0, 0)
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
    size = k.exp(_log_of_size(job, over))
    by_logarithm = f.scaled(_direction(job, sign, over), size)
    job.output(b, 1, 1).put(f.choose(is_safe, f.joined(parts), by_logarithm), 0, 0)


#: Rows of which the product of the largest pivot and the smallest, then the third, leaves no range that it need not.
_FEW = 3


def _product(job: Job, sign: Value, over: Callable[..., list[Value]]) -> Any:
    """The product of up to three pivots, in that order."""
    k, f = job.k, job.f
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


def _log_of_factor(job: Job, b: Index) -> None:
    """Of a matrix with a Cholesky factor."""
    k, f, factor = job.k, job.f, job.input(1, b)

    def step(i: Index, found: list[Value]) -> list[Value]:
        return [k.add(found[0], k.log(f.real_part(factor.get(i, i))))]

    (total,) = fold(k, 0, job.n, [f.real(0.0)], step)
    job.output(b, 1, 1).put(k.add(total, total), 0, 0)


def _adjugate(job: Job, b: Index) -> Value | None:
    """With pivots d, and D the product of all but the last: u y = D d x, by rows from the last one, where y is D x.

    So the last pivot may be 0.  Where another one is small beside the largest, the reference decides.
    """
    k, f, n = job.k, job.f, job.n
    a, y = job.input(0, b), job.output(b, n, n)
    if n <= dense_small.ADJUGATE:
        rows = read(a, n, n)
        _write_of_finite(job, y, dense_small.adjugate(f, n, rows), rows)
        return None
    factors = job.scratch(b, n)
    set_to_identity(y, n)
    sign = dense_loops.lu(f, n, a, factors, job.places(), y, n)
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
    _times(job, y, 0, (n - 1) * n, f.times(but_last, last))
    _times(job, y, (n - 1) * n, n * n, but_last)
    factors.put(f.number(1.0), n - 1, n - 1)
    dense_loops.substitute(f, n, factors, y, n, lower=False)
    smallest = k.mul(largest, f.real(2.0**-8 if f.type is F32 else 2.0**-20))
    return k.logical_and(k.gt(least, smallest), k.lt(largest, f.real(np.inf)))


def _write_of_finite(job: Job, y: Matrix, found: Rows, given: Rows) -> None:
    """Write a matrix; nan and infinities in the given numbers make all of it nan, as in the reference."""
    k, f = job.k, job.f
    largest = f.real(0.0)
    for x in [x for row in given for x in row]:
        largest = k.maximum(largest, f.size(x))
    nothing = f.from_real(k.mul(largest, f.real(0.0)))
    write(y, [[f.add(x, nothing) for x in row] for row in found])


def _adjugate_change(job: Job, b: Index) -> Value | None:
    """d (trace(e x) x - x e x) with the determinant d and the inverse x, for each change e below the other.

    Of a few rows by minors.  Where a pivot is small beside the largest (the rounding grows with the square of their
    ratio), or d near the ends of the range, the reference decides.
    """
    k, f, n = job.k, job.f, job.n
    count = job.rows(1) // n
    a, e, y = job.input(0, b), job.input(1, b), job.output(b, count * n, n)
    if n <= dense_small.ADJUGATE:
        rows = read(a, n, n)
        with each(k, 0, count, apart=True) as c:
            changes = read(e.below(c, n), n, n)
            pairs = [list(zip(*both, strict=True)) for both in zip(rows, changes, strict=True)]
            found = dense_small.adjugate(dense_small.WithChange(f), n, pairs)
            _write_of_finite(job, y.below(c, n), [[x[1] for x in row] for row in found], [*rows, *changes])
        return None
    factors, inverse, moved = (job.scratch(b, n) for _ in range(3))
    set_to_identity(inverse, n)
    sign = dense_loops.lu(f, n, a, factors, job.places(), inverse, n)
    dense_loops.substitute(f, n, factors, inverse, n, lower=True, unit=True)
    dense_loops.substitute(f, n, factors, inverse, n, lower=False)

    def step(i: Index, found: list[Value]) -> list[Value]:
        *parts, least, largest, shortest, longest = found
        x = factors.get(i, i)
        product = f.times(f.joined(parts), x)
        bounds = [(least, largest, f.size(x)), (shortest, longest, f.size(product))]
        return [*f.parts(product), *[g for low, high, s in bounds for g in (k.minimum(low, s), k.maximum(high, s))]]

    far = [f.real(np.inf), f.real(0.0)]
    *parts, least, largest, shortest, longest = fold(k, 0, n, [*f.parts(f.from_real(sign)), *far, *far], step)
    determinant = f.joined(parts)
    with each(k, 0, count) as c:
        of_one = y.below(c, n)
        _product_of_matrices(job, e.below(c, n), inverse, moved)
        first = f.parts(f.number(0.0))
        trace = f.joined(fold(k, 0, n, first, lambda i, t: f.parts(f.add(f.joined(t), moved.get(i, i)))))

        def changed(i: Place, j: Place, total: Any, trace: Any = trace) -> Any:
            return f.times(determinant, f.minus(f.times(trace, inverse.get(i, j)), total))

        _product_of_matrices(job, inverse, moved, of_one, changed)
    is_regular = k.gt(least, k.mul(largest, f.real(2.0**-4 if f.type is F32 else 2.0**-12)))
    bits = 50 if f.type is F32 else 480
    is_safe = k.logical_and(k.gt(shortest, f.real(2.0**-bits)), k.lt(longest, f.real(2.0**bits)))
    return k.logical_and(is_regular, is_safe)


def _product_of_matrices(
    job: Job, a: Matrix, x: Matrix, y: Matrix, finish: Callable[[Place, Place, Any], Any] | None = None
) -> None:
    """y = a x, of square ones; or finish(i, j, of each of its elements)."""
    k, f, n = job.k, job.f, job.n
    if n <= _ROWS:
        with each(k, 0, n, apart=True) as t:
            column = [x.get(p, t) for p in range(n)]
            for row in range(n):
                total = f.times(a.get(row, 0), column[0])
                for q in range(1, n):
                    total = f.plus(total, f.times(a.get(row, q), column[q]))
                y.put(finish(row, t, total) if finish else total, row, t)
        return
    with each(k, 0, n) as i:
        with each(k, 0, n, apart=True) as t:
            y.put(f.number(0.0), i, t)
        with each(k, 0, n) as p:
            factor = a.get(i, p)
            with each(k, 0, n, apart=True) as t:
                y.put(f.plus(y.get(i, t), f.times(factor, x.get(p, t))), i, t)
        if finish:
            with each(k, 0, n, apart=True) as t:
                y.put(finish(i, t, y.get(i, t)), i, t)


def _times(job: Job, y: Matrix, low: int, high: int, factor: Any) -> None:
    """Some of the numbers of a matrix, as they lie in memory, times another."""
    flat = Matrix(y.f, y.memory, y.start, 0)
    with each(job.k, low, high, apart=True) as t:
        flat.put(y.f.times(flat.get(0, t), factor), 0, t)


DETERMINANTS: dict[str, Callable[[Job, Index], Value | None]] = {
    "determinant": _determinant,
    "sign": _sign,
    "log_abs": _log_abs,
    "log_of_factor": _log_of_factor,
    "adjugate": _adjugate,
    "adjugate_change": _adjugate_change,
}
