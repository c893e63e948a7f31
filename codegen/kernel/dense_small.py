"""Programs for small matrices: all numbers are in registers, and every operation is written out.

A matrix is a list of rows.  Without inner loops, the loop over a batch of matrices runs in vectors, one matrix a lane.
"""

from __future__ import annotations

from typing import Any

from .matrices import Reals, root_of
from .nest import Value

Rows = list[list[Any]]


def lu(f: Reals, n: int, rows: Rows) -> Value:
    """Factor in place, as `dense_loops.lu`; columns beside the matrix are exchanged with its rows.

    Each row below is exchanged with the pivot's row if its number is larger, so the last pivot chosen is the largest.
    """
    k, sign = f.k, f.real(1.0)
    for c in range(n):
        for i in range(c + 1, n):
            is_larger = k.gt(f.size(rows[i][c]), f.size(rows[c][c]))
            upper, lower = rows[c], rows[i]
            rows[c] = [f.choose(is_larger, y, x) for x, y in zip(upper, lower, strict=True)]
            rows[i] = [f.choose(is_larger, x, y) for x, y in zip(upper, lower, strict=True)]
            sign = k.select(is_larger, k.neg(sign), sign)
        diagonal = rows[c][c]
        divisor = f.choose(f.is_zero(diagonal), f.number(1.0), diagonal)
        for i in range(c + 1, n):
            rows[i][c] = f.over(rows[i][c], divisor)
            for j in range(c + 1, n):
                rows[i][j] = f.minus(rows[i][j], f.times(rows[i][c], rows[c][j]))
    return sign


def substitute(f: Reals, n: int, a: Rows, x: Rows, *, lower: bool, unit: bool = False) -> None:
    """Replace the right-hand side x of a triangular system by its solution."""
    order = range(n) if lower else range(n - 1, -1, -1)
    for i in order:
        for p in order[: order.index(i)]:
            x[i] = [f.minus(value, f.times(a[i][p], known)) for value, known in zip(x[i], x[p], strict=True)]
        if not unit:
            x[i] = [f.over(value, a[i][i]) for value in x[i]]


def cholesky(f: Reals, n: int, a: Rows) -> Rows:
    """The Cholesky factor, from the lower triangle of a matrix; its rows end at the diagonal."""
    k = f.k
    y: Rows = [[] for _ in range(n)]
    inverses: list[Value] = []
    for i in range(n):
        for j in range(i + 1):
            value = a[i][j]
            for p in range(j):
                value = f.minus(value, f.times(y[i][p], f.conjugate(y[j][p])))
            if i > j:
                value = f.scaled(value, inverses[j])
            else:
                root = root_of(f, value)
                inverses.append(k.div(f.real(1.0), root))
                value = f.from_real(root)
            y[i].append(value)
    return y


#: The largest number of rows of an adjugate that is written out.
ADJUGATE = 4


def adjugate(f: Reals, n: int, a: Rows) -> Rows:
    """The adjugate by minors: element (i, j) is the minor without row j and column i, with its sign."""
    if n == 1:
        return [[f.number(1.0)]]
    rows = range(n)
    minors: dict[tuple[tuple[int, ...], tuple[int, ...]], Any] = {}

    def minor(of_rows: tuple[int, ...], of_columns: tuple[int, ...]) -> Any:
        """A minor, expanded along its first row; smaller minors are reused."""
        key = of_rows, of_columns
        if key not in minors:
            first, *rest = of_rows
            total = None
            for place, j in enumerate(of_columns):
                term = a[first][j]
                if rest:
                    others = of_columns[:place] + of_columns[place + 1 :]
                    term = f.times(term, minor(tuple(rest), others))
                total = term if total is None else f.minus(total, term) if place % 2 else f.add(total, term)
            minors[key] = total
        return minors[key]

    def without(i: int) -> tuple[int, ...]:
        return tuple([j for j in rows if j != i])

    found = [[minor(without(j), without(i)) for j in rows] for i in rows]
    return [[f.negative(x) if (i + j) % 2 else x for j, x in enumerate(row)] for i, row in enumerate(found)]
