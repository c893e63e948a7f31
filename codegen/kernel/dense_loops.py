"""Programs for a matrix in memory: LU and Cholesky factors, substitution.

All programs are built of one step, which subtracts multiples of four rows from four other rows, vector by vector:

    X[i, t] -= sum over p < 4 of A[i, p] X[p, t]        for four rows i at a time, and all t

so each number that is loaded is used four times, and the factors stay in registers.  The four products are added up
before the sum is subtracted: subtracted one by one, solutions of 200 rows lost three times as much as LAPACK's.  A
factorisation does four columns (a panel) one by one, then updates the rows that follow by such steps; substitution
does four rows.  The columns or rows that are left over are a last panel of fewer.

Factorisations, and substitution for one right-hand side, go further: the terms to be subtracted from a number are
accumulated from 0 until its panel comes, then subtracted once.  Such a sum, and its rounding, is mostly smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..records import replace
from . import dense_small
from .index import Index
from .matrices import Matrix, Place, Reals, at, each, fold
from .nest import Value

#: Columns of a panel, and rows that a step updates together.
PANEL = 4


def _subtract_multiples(
    f: Reals,
    a: Matrix,
    x: Matrix,
    rows: Sequence[Place],
    pivots: Sequence[Place],
    low: Place,
    high: Place,
    *,
    adds: bool = False,
) -> None:
    """Subtract from each of `rows` of x the multiples of its rows `pivots` that `a` holds, in columns low to high.

    adds    x holds sums that will be subtracted later: add the multiples to them
    """
    factors = [[a.get(i, p) for p in pivots] for i in rows]
    with each(f.k, low, high, parallel=True) as t:
        known = [x.get(p, t) for p in pivots]
        for i, of_row in zip(rows, factors, strict=True):
            value = x.get(i, t)
            x.put(_sum(f, value, of_row, known) if adds else f.minus(value, _products(f, of_row, known)), i, t)


def _sum(f: Reals, total: Any, factors: Sequence[Any], values: Sequence[Any]) -> Any:
    """The total plus the products of factors and values."""
    for factor, value in zip(factors, values, strict=True):
        total = f.plus(total, f.times(factor, value))
    return total


def _products(f: Reals, factors: Sequence[Any], values: Sequence[Any]) -> Any:
    """The sum of products, added in pairs: a number from which the sum is subtracted is rounded only once."""
    terms = [f.times(factor, value) for factor, value in zip(factors, values, strict=True)]
    while len(terms) > 1:
        pairs = [f.add(one, other) for one, other in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
    return terms[0]


def _subtract_below(
    f: Reals,
    n: int,
    a: Matrix,
    x: Matrix,
    pivots: Sequence[Place],
    first: Index,
    low: Place,
    high: Place,
    from_row: Callable[[Index], Place] | None = None,
    adds: bool = False,
) -> None:
    """Apply `_subtract_multiples` to all rows after the pivots up to n.  `from_row`: the first column of four rows."""
    whole, rest = divmod(n, PANEL)
    tile = first.plus(at(PANEL))
    with each(f.k, 0, at(n - rest).plus(tile.times(-1)).floordiv(PANEL)) as j:
        i = tile.plus(j.times(PANEL))
        begin = from_row(i) if from_row else low
        _subtract_multiples(f, a, x, [i.plus(at(r)) for r in range(PANEL)], pivots, begin, high, adds=adds)
    if rest and whole:
        i = at(whole * PANEL)
        begin = from_row(i) if from_row else low
        _subtract_multiples(f, a, x, [i.plus(at(r)) for r in range(rest)], pivots, begin, high, adds=adds)


def _panels(
    f: Reals, n: int, carried: Sequence[Value], panel: Callable[..., Sequence[Value]], *, rising: bool = True
) -> list[Value]:
    """Call panel(first, width, carried) for every four columns or rows, then for the rest; in reverse if not `rising`.

    Returns the values that the last panel carries on.
    """
    whole, rest = divmod(n, PANEL)
    found = list(carried)

    def four(j: Index, values: list[Value]) -> Sequence[Value]:
        return panel(j.times(PANEL) if rising else at((whole - 1) * PANEL).plus(j.times(-PANEL)), PANEL, values)

    if rest and not rising:
        found = list(panel(at(whole * PANEL), rest, found))
    if whole:
        found = fold(f.k, 0, whole, found, four)
    if rest and rising:
        found = list(panel(at(whole * PANEL), rest, found))
    return found


# ---------------------------------------------------------------- LU


def order_below(factors: Matrix, n: int) -> Matrix:
    """The row below the n rows of LU factors, seen as a column: stored factors have the order of their rows there."""
    return replace(factors, start=factors.start.plus(at(n * factors.row)), row=1, column=0)


def lu(
    f: Reals, n: int, given: Matrix, a: Matrix, places: Value, beside: Matrix | None = None, columns: int = 0
) -> Value:
    """Factor `given` into a, with partial pivoting; the rows of `beside` are exchanged in the same way.

    a gets l, whose diagonal of ones is left out, and u.  Returns the sign of the permutation, as a real number.
    places    memory for n positions, which gets the order of the rows

    Until the panel of an element comes, a holds the sum that is to be subtracted from the given number.
    """
    k = f.k
    with each(k, 0, n) as i:
        k.store(k.from_index(i, "i64"), places, i)
        with each(k, 0, n, parallel=True) as t:
            a.put(f.number(0.0), i, t)

    def row(i: Index) -> Index:
        return k.to_index(k.load(places, i, stable=False), 0, n - 1)

    def panel(first: Index, width: int, carried: Sequence[Value]) -> Sequence[Value]:
        (sign,) = carried
        pivots = [first.plus(at(p)) for p in range(width)]

        def left(i: Index, best: list[Value]) -> list[Value]:
            origin = row(i)
            with each(k, 0, width, parallel=True) as p:
                c = first.plus(p)
                a.put(f.minus(given.get(origin, c), a.get(i, c)), i, c)
            return _larger_pivot(f, best, a.get(i, first), i)

        best = fold(k, first, n, _no_pivot(f, first), left)
        for p in range(width):
            sign, best = _pivot(f, n, a, pivots, p, best, sign, places, beside, columns)
        if width == PANEL:
            after = first.plus(at(PANEL))
            origins = [row(i) for i in pivots]
            _solve_rows(f, _before_diagonal(a, pivots), a, pivots, after, n, lambda _, x: x, given, origins)
            _subtract_below(f, n, a, a, pivots, first, after, n, adds=True)
        return [sign]

    return _panels(f, n, [f.real(1.0)], panel)[0]


def _no_pivot(f: Reals, i: Index) -> list[Value]:
    """The start of a search for a pivot: a size less than that of any number, and a valid row."""
    return [f.real(-1.0), f.k.value_of(i)]


def _larger_pivot(f: Reals, best: list[Value], x: Any, i: Index) -> list[Value]:
    """The best size so far and its row, or those of the number x in row i if its size is larger."""
    k, size = f.k, f.size(x)
    is_better = k.gt(size, best[0])
    return [k.select(is_better, size, best[0]), k.select(is_better, k.value_of(i), best[1])]


def _pivot(
    f: Reals,
    n: int,
    a: Matrix,
    pivots: Sequence[Index],
    p: int,
    best: list[Value],
    sign: Value,
    places: Value,
    beside: Matrix | None,
    columns: int,
) -> tuple[Value, list[Value]]:
    """Do one column of a panel: exchange rows, divide the column by the pivot, update the panel's later columns.

    best    the largest size in this column and its row; returns the sign, and those of the next column
    """
    k, c = f.k, pivots[p]
    pivot = k.to_index(best[1], 0, n - 1)
    _exchange(f, a, c, pivot, n)
    one, other = (k.load(places, i, stable=False) for i in (c, pivot))
    k.store(other, places, c)
    k.store(one, places, pivot)
    if beside is not None:
        _exchange(f, beside, c, pivot, columns)
    diagonal = a.get(c, c)
    divisor = f.choose(f.is_zero(diagonal), f.number(1.0), diagonal)
    others = pivots[p + 1 :]
    values = [a.get(c, q) for q in others]

    def take(i: Index, best: list[Value]) -> list[Value]:
        factor = f.over(a.get(i, c), divisor)
        a.put(factor, i, c)
        left = [f.minus(a.get(i, q), f.times(factor, value)) for q, value in zip(others, values, strict=True)]
        for q, value in zip(others, left, strict=True):
            a.put(value, i, q)
        return _larger_pivot(f, best, left[0], i) if left else best

    after = c.plus(at(1))
    best = fold(k, after, n, _no_pivot(f, c), take)
    return k.select(k.eq(pivot, c), sign, k.neg(sign)), best


def _exchange(f: Reals, x: Matrix, i: Index, j: Index, columns: int) -> None:
    """Exchange two rows of x."""
    with each(f.k, 0, columns, parallel=True) as t:
        one, other = x.get(i, t), x.get(j, t)
        x.put(other, i, t)
        x.put(one, j, t)


# ---------------------------------------------------------------- substitution


def _solve_rows(
    f: Reals,
    factors: Sequence[Sequence[Any]],
    x: Matrix,
    rows: Sequence[Index],
    low: Place,
    high: Place,
    divided: Callable[[int, Any], Any],
    given: Matrix | None = None,
    origins: Sequence[Index] = (),
) -> None:
    """Solve a few rows of a triangular system, in the order of `rows`; no other row is read.

    factors  for each row the elements of the triangle before the diagonal
    divided  divided(r, value): the value divided by the diagonal element of row r
    given    x holds sums to be subtracted from the rows `origins` of this matrix, the right-hand side
    """
    with each(f.k, low, high, parallel=True) as t:
        solved: list[Any] = []
        for r, i in enumerate(rows):
            value = x.get(i, t)
            if given is not None:
                value = f.minus(given.get(origins[r], t), value)
            for factor, other in zip(factors[r], solved, strict=True):
                value = f.minus(value, f.times(factor, other))
            solved.append(divided(r, value))
        for i, value in zip(rows, solved, strict=True):
            x.put(value, i, t)


def _before_diagonal(a: Matrix, rows: Sequence[Index]) -> list[list[Any]]:
    """For each of these rows the elements in the columns of the rows before it."""
    return [[a.get(i, p) for p in rows[:r]] for r, i in enumerate(rows)]


def substitute(f: Reals, n: int, a: Matrix, x: Matrix, columns: int, *, lower: bool, unit: bool = False) -> None:
    """Replace the right-hand side x of a triangular system by its solution."""
    if columns == 1:
        _by_sums(f, n, a, x, lower=lower, unit=unit)
        return

    def panel(first: Index, width: int, carried: Sequence[Value]) -> Sequence[Value]:
        rows = [first.plus(at(p)) for p in (range(width) if lower else reversed(range(width)))]
        factors, diagonal = _before_diagonal(a, rows), None if unit else [a.get(i, i) for i in rows]
        _solve_rows(f, factors, x, rows, 0, columns, lambda r, x: f.over(x, diagonal[r]) if diagonal else x)
        if not lower:
            with each(f.k, 0, first.floordiv(PANEL)) as j:
                i = j.times(PANEL)
                _subtract_multiples(f, a, x, [i.plus(at(r)) for r in range(PANEL)], rows, 0, columns)
        elif width == PANEL:
            _subtract_below(f, n, a, x, rows, first, 0, columns)
        return carried

    _panels(f, n, [], panel, rising=lower)


def _by_sums(f: Reals, n: int, a: Matrix, x: Matrix, *, lower: bool, unit: bool) -> None:
    """Solve for one right-hand side: each number follows from those known before, by a sum along its row."""
    zero = f.parts(f.number(0.0))
    with each(f.k, 0, n) as j:
        i = j if lower else at(n - 1).plus(j.times(-1))

        def term(t: Index, total: list[Value], i: Index = i) -> list[Value]:
            return f.parts(f.plus(f.joined(total), f.times(a.get(i, t), x.get(t, 0))))

        after = i.plus(at(1))
        total = f.joined(fold(f.k, 0 if lower else after, i if lower else n, zero, term))
        value = f.minus(x.get(i, 0), total)
        x.put(value if unit else f.over(value, a.get(i, i)), i, 0)


# ---------------------------------------------------------------- Cholesky


def cholesky(f: Reals, n: int, given: Matrix, y: Matrix) -> None:
    """Write the adjoint of the factor to the upper triangle of y; only the upper triangle of `given` is read."""
    k = f.k
    with each(k, 0, n) as i, each(k, 0, n, parallel=True) as t:
        y.put(f.number(0.0), i, t)

    def panel(first: Index, width: int, carried: Sequence[Value]) -> Sequence[Value]:
        rows = [first.plus(at(p)) for p in range(width)]
        # The block on the diagonal is the transpose of the factor of its conjugate, whose lower triangle stands here.
        block = [[f.minus(given.get(c, i), y.get(c, i)) for c in rows[: r + 1]] for r, i in enumerate(rows)]
        found = dense_small.cholesky(f, width, block)
        for i, of_column in zip(rows, found, strict=True):
            for c, value in zip(rows, of_column, strict=False):
                y.put(value, c, i)
        if width == PANEL:
            after = first.plus(at(PANEL))
            inverses = [k.div(f.real(1.0), f.real_part(found[r][r])) for r in range(width)]
            factors = [[f.conjugate(x) for x in of_column[:-1]] for of_column in found]
            _solve_rows(f, factors, y, rows, after, n, lambda r, x: f.scaled(x, inverses[r]), given, rows)
            _subtract_below(f, n, y.adjoint, y, rows, first, after, n, from_row=lambda i: i, adds=True)
        return carried

    _panels(f, n, [], panel)
