"""The programs of linear algebra, for one matrix of a batch each: what they compute, and whether they refuse.

program(job, b)  ->  whether matrix b is sound, or None for one that refuses nothing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..lowering import apart_in_cache
from ..records import replace
from . import dense_loops, dense_small
from .dense_job import Job
from .dense_small import Rows
from .index import Index, constant_index
from .matrices import Matrix, each, fold
from .nest import F32, I1, Value
from .scalar import Scalar

__all__ = ["PROGRAMS"]


def _read(x: Matrix, rows: int, columns: int) -> Rows:
    return [[x.get(i, j) for j in range(columns)] for i in range(rows)]


def _write(x: Matrix, rows: Rows) -> None:
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            x.put(value, i, j)


def _copy(k: Scalar, x: Matrix, y: Matrix, rows: int, columns: int) -> None:
    """All numbers of x, to a place of the same shape."""
    if x.row != columns or y.row != columns:
        with each(k, 0, rows) as i, each(k, 0, columns, apart=True) as j:
            y.put(x.get(i, j), i, j)
        return
    flat = Matrix(x.f, x.memory, x.start, 0, 1, x.stable), Matrix(y.f, y.memory, y.start, 0, 1)
    with each(k, 0, rows * columns, apart=True) as t:
        flat[1].put(flat[0].get(0, t), 0, t)


def _both(k: Scalar, answers: Sequence[Value]) -> Value:
    found = answers[0]
    for answer in answers[1:]:
        found = k.logical_and(found, answer)
    return found


def _along(job: Job, x: Matrix, is_sound: Callable[[Any], Value]) -> Value:
    """Whether all numbers on a diagonal are sound."""
    k = job.k

    def step(i: Index, carried: list[Value]) -> list[Value]:
        return [k.logical_and(carried[0], is_sound(x.get(i, i)))]

    return fold(k, 0, job.n, [k.literal(True, I1)], step)[0]


#: How much is written out: multiplications and choices, roughly.  2,000 systems of 8 rows take 990 us by loops, 104 so.
_WRITTEN_OUT = 700


def _cholesky(job: Job, b: Index) -> Value:
    k, f, n = job.k, job.f, job.n
    a, y = job.input(0, b), job.output(b, n, n)

    def is_sound(x: Any) -> Value:
        # What an infinite pivot makes of the infinities beside it, LAPACK says.
        root = f.real_part(x)
        return k.logical_not(k.logical_or(k.eq(root, f.real(0.0)), k.isinf(root)))

    if n * n * n <= _WRITTEN_OUT * f.width:
        factor = dense_small.cholesky(f, n, _read(a, n, n))
        _write(y, [row + [f.number(0.0)] * (n - 1 - i) for i, row in enumerate(factor)])
        return _both(k, [is_sound(factor[i][i]) for i in range(n)])
    _copy(k, a, y, n, n)
    dense_loops.cholesky(f, n, y)
    with each(k, 1, n) as i, each(k, 0, i, apart=True) as j:
        y.put(f.conjugate(y.get(j, i)), i, j)
    with each(k, 0, n - 1) as i, each(k, i.plus(constant_index(1)), n, apart=True) as j:
        y.put(f.number(0.0), i, j)
    return _along(job, y, is_sound)


def _is_regular(job: Job) -> Callable[[Any], Value]:
    return lambda x: job.k.logical_not(job.f.is_zero(x))


def _triangular(job: Job, b: Index) -> Value:
    k, f, n, columns, lower = job.k, job.f, job.n, job.columns(1), job.keywords["lower"]
    a, side, x = job.input(0, b), job.input(1, b), job.output(b, n, columns)
    is_regular = _is_regular(job)
    if n * n * (columns + 1) <= _WRITTEN_OUT:
        rows, solved = _read(a, n, n), _read(side, n, columns)
        dense_small.substitute(f, n, rows, solved, lower=lower)
        _write(x, solved)
        return _both(k, [is_regular(rows[i][i]) for i in range(n)])
    _copy(k, side, x, n, columns)
    dense_loops.substitute(f, n, a, x, columns, lower=lower)
    return _along(job, a, is_regular)


def _factored(job: Job, b: Index) -> None:
    """With a Cholesky factor: what was refused when it was made."""
    k, f, n, columns = job.k, job.f, job.n, job.columns(2)
    factor, side, x = job.input(1, b), job.input(2, b), job.output(b, n, columns)
    _copy(k, side, x, n, columns)
    dense_loops.substitute(f, n, factor, x, columns, lower=True)
    dense_loops.substitute(f, n, factor.adjoint, x, columns, lower=False)


def _solve(job: Job, b: Index) -> Value:
    k, n, columns = job.k, job.n, job.columns(1)
    a, side, x = job.input(0, b), job.input(1, b), job.output(b, n, columns)
    if n * n * (n + 2 * columns) <= _WRITTEN_OUT:
        rows = [[*left, *right] for left, right in zip(_read(a, n, n), _read(side, n, columns), strict=True)]
        return _small_solution(job, rows, x)
    _copy(k, side, x, n, columns)
    return _solution(job, b, a, x, columns)


def _inverse(job: Job, b: Index) -> Value:
    f, n = job.f, job.n
    a, x = job.input(0, b), job.output(b, n, n)
    if 3 * n * n * n <= _WRITTEN_OUT:
        identity = [[f.number(float(i == j)) for j in range(n)] for i in range(n)]
        return _small_solution(job, [[*left, *right] for left, right in zip(_read(a, n, n), identity, strict=True)], x)
    _identity(job, x)
    return _solution(job, b, a, x, n)


def _identity(job: Job, x: Matrix) -> None:
    k, f, n = job.k, job.f, job.n
    flat = Matrix(f, x.memory, x.start, 0)
    with each(k, 0, n * n, apart=True) as t:
        flat.put(f.number(0.0), 0, t)
    with each(k, 0, n) as i:
        x.put(f.number(1.0), i, i)


def _small_solution(job: Job, rows: Rows, x: Matrix) -> Value:
    """From the rows of a matrix with those of the right-hand side beside them."""
    f, n = job.f, job.n
    dense_small.lu(f, n, rows)
    solved = [row[n:] for row in rows]
    dense_small.substitute(f, n, rows, solved, lower=True, unit=True)
    dense_small.substitute(f, n, rows, solved, lower=False)
    _write(x, solved)
    return _both(job.k, [_is_regular(job)(rows[i][i]) for i in range(n)])


def _solution(job: Job, b: Index, a: Matrix, x: Matrix, columns: int) -> Value:
    f, n = job.f, job.n
    factors = job.scratch(b, n)
    _copy(job.k, a, factors, n, n)
    dense_loops.lu(f, n, factors, x, columns)
    dense_loops.substitute(f, n, factors, x, columns, lower=True, unit=True)
    dense_loops.substitute(f, n, factors, x, columns, lower=False)
    return _along(job, factors, _is_regular(job))


# ---------------------------------------------------------------- an LU factorisation that is kept


def _lu(job: Job, b: Index) -> None:
    """The factors, and as a row below them of which row of the matrix each row is, counted from 1.

    What is counted has the sign of the permutation.  Where rows are kept apart there are zeros between them.
    """
    k, f, n, row = job.k, job.f, job.n, apart_in_cache(job.n)
    a, y = job.input(0, b), job.output(b, n + 1, row)
    _copy(k, a, y, n, n)
    if row > n:
        with each(k, 0, n + 1) as i, each(k, n, row, apart=True) as j:
            y.put(f.number(0.0), i, j)
    order = _order(y, n)
    with each(k, 0, n, apart=True) as i:
        order.put(f.from_real(k.from_index(i.plus(constant_index(1)), k.dtype(f.real(0.0)))), i, 0)
    sign = dense_loops.lu(f, n, y, order, 1)
    with each(k, 0, n, apart=True) as i:
        order.put(f.scaled(order.get(i, 0), sign), i, 0)


def _order(factors: Matrix, n: int) -> Matrix:
    """The row below n others, as a column."""
    return replace(factors, start=factors.start.plus(constant_index(n * factors.row)), row=1, column=0)


def _solve_lu(job: Job, b: Index) -> Value:
    """With factors that are known, of the matrix or of its adjoint."""
    k, f, n, columns = job.k, job.f, job.n, job.columns(2)
    factors, side, x = job.input(1, b), job.input(2, b), job.output(b, n, columns)
    order = _order(factors, n)

    def place(i: Index) -> Index:
        return k.to_index(k.cast(k.abs(f.real_part(order.get(i, 0))), "i64"), 1, n).plus(constant_index(-1))

    if job.keywords["turned"]:
        half, adjoint = job.scratch(b, columns), factors.adjoint
        _copy(k, side, half, n, columns)
        dense_loops.substitute(f, n, adjoint, half, columns, lower=True)
        dense_loops.substitute(f, n, adjoint, half, columns, lower=False, unit=True)
        with each(k, 0, n) as i:
            where = place(i)
            with each(k, 0, columns, apart=True) as t:
                x.put(half.get(i, t), where, t)
    else:
        with each(k, 0, n) as i:
            where = place(i)
            with each(k, 0, columns, apart=True) as t:
                x.put(side.get(where, t), i, t)
        dense_loops.substitute(f, n, factors, x, columns, lower=True, unit=True)
        dense_loops.substitute(f, n, factors, x, columns, lower=False)
    return _along(job, factors, _is_regular(job))


# ---------------------------------------------------------------- determinants


def _pivots(job: Job, b: Index) -> tuple[Value, Callable[..., list[Value]]]:
    """The sign of the exchanges of rows, and what goes over all pivots: run(initial, step) -> what is carried."""
    k, f, n, a = job.k, job.f, job.n, job.input(0, b)
    if n * n * n <= _WRITTEN_OUT:
        rows = _read(a, n, n)
        sign = dense_small.lu(f, n, rows)

        def over_rows(carried: Sequence[Value], step: Callable[[Any, list[Value]], list[Value]]) -> list[Value]:
            found = list(carried)
            for i in range(n):
                found = step(rows[i][i], found)
            return found

        return sign, over_rows
    if len(job.computed.inputs) == 2:
        factors = job.input(1, b)
        sign = _sign_of(job, f.real_part(_order(factors, n).get(0, 0)))
    else:
        factors = job.scratch(b, n)
        _copy(k, a, factors, n, n)
        sign = dense_loops.lu(f, n, factors)

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
        rows = _read(a, n, n)
        largest = f.real(0.0)
        for x in [x for row in rows for x in row]:
            largest = k.maximum(largest, f.size(x))
        # Nan and infinities make all of it nan, as in the reference.
        nothing = f.from_real(k.mul(largest, f.real(0.0)))
        _write(y, [[f.add(x, nothing) for x in row] for row in dense_small.adjugate(f, n, rows)])
        return None
    factors = job.scratch(b, n)
    _identity(job, y)
    _copy(k, a, factors, n, n)
    sign = dense_loops.lu(f, n, factors, y, n)
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


def _times(job: Job, y: Matrix, low: int, high: int, factor: Any) -> None:
    """Some of the numbers of a matrix, as they lie in memory, times another."""
    flat = Matrix(y.f, y.memory, y.start, 0)
    with each(job.k, low, high, apart=True) as t:
        flat.put(y.f.times(flat.get(0, t), factor), 0, t)


PROGRAMS: dict[str, Callable[[Job, Index], Value | None]] = {
    "cholesky": _cholesky,
    "triangular": _triangular,
    "factored": _factored,
    "lu": _lu,
    "solve": _solve,
    "solve_lu": _solve_lu,
    "inverse": _inverse,
    "determinant": _determinant,
    "sign": _sign,
    "log_abs": _log_abs,
    "log_of_factor": _log_of_factor,
    "adjugate": _adjugate,
}
