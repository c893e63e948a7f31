"""Programs of linear algebra, each for one matrix of a batch, and the kernel that runs one on the whole batch.

program(batch, b)  ->  a bit: matrix b is sound, so not refused; None from a program that refuses no matrix

An operation with the lowering `Dense` becomes one kernel:

    for b in 0..batch, in parallel:      small matrices in registers (`dense_small`), others in memory (`dense_loops`)
      the program for one matrix, which refuses a matrix that is singular, or not positive definite
    status = REFUSED if any matrix was refused

If the kernel returns REFUSED, the operation's reference decides the result (`runtime.host_steps`).
Complex numbers are pairs in memory, and the same programs compute with both parts (`matrices`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir import Aval, Node
from ..lowering import DENSE_ROWS, factor_row_stride
from ..records import replace
from . import dense_loops, dense_small
from .dense_determinants import DETERMINANTS
from .dense_loops import order_below
from .elements import Built, Elements, Temporary, finish
from .index import Index, constant_index
from .matrices import WRITTEN_OUT, Matrix, MatrixBatch, copy, each, fold, read, set_to_identity, write
from .nest import I1, I32, Status, Value
from .scalar import Scalar


def _and_all(k: Scalar, answers: Sequence[Value]) -> Value:
    found = answers[0]
    for answer in answers[1:]:
        found = k.logical_and(found, answer)
    return found


def _all_on_diagonal(batch: MatrixBatch, x: Matrix, is_sound: Callable[[Any], Value]) -> Value:
    """True if all numbers on a diagonal are sound."""
    k = batch.k

    def step(i: Index, carried: list[Value]) -> list[Value]:
        return [k.logical_and(carried[0], is_sound(x.get(i, i)))]

    return fold(k, 0, batch.n, [k.literal(True, I1)], step)[0]


def _cholesky(batch: MatrixBatch, b: Index) -> Value:
    k, f, n = batch.k, batch.f, batch.n
    a, y = batch.input(0, b), batch.output(b, n, n)

    def is_sound(x: Any) -> Value:
        # A matrix with an infinite pivot is refused: LAPACK decides what becomes of the infinities beside it.
        root = f.real_part(x)
        return k.logical_not(k.logical_or(k.eq(root, f.real(0.0)), k.isinf(root)))

    if n * n * n <= WRITTEN_OUT * f.width:
        factor = dense_small.cholesky(f, n, read(a, n, n))
        write(y, [row + [f.number(0.0)] * (n - 1 - i) for i, row in enumerate(factor)])
        return _and_all(k, [is_sound(factor[i][i]) for i in range(n)])
    dense_loops.cholesky(f, n, a, y)
    with each(k, 1, n) as i, each(k, 0, i, parallel=True) as j:
        y.put(f.conjugate(y.get(j, i)), i, j)
    with each(k, 0, n - 1) as i, each(k, i.plus(constant_index(1)), n, parallel=True) as j:
        y.put(f.number(0.0), i, j)
    return _all_on_diagonal(batch, y, is_sound)


def _is_regular(batch: MatrixBatch) -> Callable[[Any], Value]:
    return lambda x: batch.k.logical_not(batch.f.is_zero(x))


def _triangular(batch: MatrixBatch, b: Index) -> Value:
    k, f, n, columns, lower = batch.k, batch.f, batch.n, batch.columns(1), batch.keywords["lower"]
    a, side, x = batch.input(0, b), batch.input(1, b), batch.output(b, n, columns)
    is_regular = _is_regular(batch)
    if n * n * (columns + 1) <= WRITTEN_OUT:
        rows, solved = read(a, n, n), read(side, n, columns)
        dense_small.substitute(f, n, rows, solved, lower=lower)
        write(x, solved)
        return _and_all(k, [is_regular(rows[i][i]) for i in range(n)])
    copy(side, x, n, columns)
    dense_loops.substitute(f, n, a, x, columns, lower=lower)
    return _all_on_diagonal(batch, a, is_regular)


def _factored(batch: MatrixBatch, b: Index) -> None:
    """A solution with a known Cholesky factor; the kernel that made the factor refused unsound matrices."""
    f, n, columns = batch.f, batch.n, batch.columns(2)
    factor, side, x = batch.input(1, b), batch.input(2, b), batch.output(b, n, columns)
    copy(side, x, n, columns)
    dense_loops.substitute(f, n, factor, x, columns, lower=True)
    dense_loops.substitute(f, n, factor.adjoint, x, columns, lower=False)


def _solve(batch: MatrixBatch, b: Index) -> Value:
    """The solution of a system whose right-hand side is the second input; without one the identity, so the inverse."""
    f, n, a = batch.f, batch.n, batch.input(0, b)
    side = batch.input(1, b) if len(batch.computed.inputs) == 2 else None
    columns = batch.columns(1) if side else n
    x = batch.output(b, n, columns)
    if n * n * (n + 2 * columns) <= WRITTEN_OUT:
        left = read(a, n, n)
        right = read(side, n, columns) if side else [[f.number(float(i == j)) for j in range(n)] for i in range(n)]
        rows = [[*row, *beside] for row, beside in zip(left, right, strict=True)]
        dense_small.lu(f, n, rows)
        solved = [row[n:] for row in rows]
        dense_small.substitute(f, n, rows, solved, lower=True, unit=True)
        dense_small.substitute(f, n, rows, solved, lower=False)
        write(x, solved)
        return _and_all(batch.k, [_is_regular(batch)(rows[i][i]) for i in range(n)])
    if side:
        copy(side, x, n, columns)
    else:
        set_to_identity(x, n)
    factors = batch.scratch(b, n)
    dense_loops.lu(f, n, a, factors, batch.places(), x, columns)
    dense_loops.substitute(f, n, factors, x, columns, lower=True, unit=True)
    dense_loops.substitute(f, n, factors, x, columns, lower=False)
    return _all_on_diagonal(batch, factors, _is_regular(batch))


# ---------------------------------------------------------------- an LU factorisation that is kept


def _lu(batch: MatrixBatch, b: Index) -> None:
    """The factors, and in a row below them the number of the matrix's row that each row is, counted from 1.

    The sign of these numbers is that of the permutation.  Where rows are padded (`apart_in_cache`), the padding is 0.
    """
    k, f, n, row = batch.k, batch.f, batch.n, factor_row_stride(batch.n)
    a, y = batch.input(0, b), batch.output(b, n + 1, row)
    if row > n:
        with each(k, 0, n + 1) as i, each(k, n, row, parallel=True) as j:
            y.put(f.number(0.0), i, j)
    order = order_below(y, n)
    with each(k, 0, n, parallel=True) as i:
        order.put(f.from_real(k.from_index(i.plus(constant_index(1)), k.dtype(f.real(0.0)))), i, 0)
    sign = dense_loops.lu(f, n, a, y, batch.places(), order, 1)
    with each(k, 0, n, parallel=True) as i:
        order.put(f.scaled(order.get(i, 0), sign), i, 0)


def _solve_lu(batch: MatrixBatch, b: Index) -> Value:
    """A solution with known factors of the matrix: for the matrix, or if `turned` for its adjoint."""
    k, f, n, columns = batch.k, batch.f, batch.n, batch.columns(2)
    factors, side, x = batch.input(1, b), batch.input(2, b), batch.output(b, n, columns)
    order = order_below(factors, n)

    def place(i: Index) -> Index:
        return k.to_index(k.cast(k.abs(f.real_part(order.get(i, 0))), "i64"), 1, n).plus(constant_index(-1))

    if batch.keywords["turned"]:
        half, adjoint = batch.scratch(b, columns), factors.adjoint
        copy(side, half, n, columns)
        dense_loops.substitute(f, n, adjoint, half, columns, lower=True)
        dense_loops.substitute(f, n, adjoint, half, columns, lower=False, unit=True)
        with each(k, 0, n) as i:
            where = place(i)
            with each(k, 0, columns, parallel=True) as t:
                x.put(half.get(i, t), where, t)
    else:
        with each(k, 0, n) as i:
            where = place(i)
            with each(k, 0, columns, parallel=True) as t:
                x.put(side.get(where, t), i, t)
        dense_loops.substitute(f, n, factors, x, columns, lower=True, unit=True)
        dense_loops.substitute(f, n, factors, x, columns, lower=False)
    return _all_on_diagonal(batch, factors, _is_regular(batch))


PROGRAMS: dict[str, Callable[[MatrixBatch, Index], Value | None]] = {
    "cholesky": _cholesky,
    "triangular": _triangular,
    "factored": _factored,
    "lu": _lu,
    "solve": _solve,
    "solve_lu": _solve_lu,
    **DETERMINANTS,
}


# ---------------------------------------------------------------- the kernel of all matrices


def is_native(computed: Node) -> bool:
    """True if there is a kernel for the node's operation."""
    return 0 < computed.inputs[0].aval.shape[-1] <= DENSE_ROWS


def build_dense(node: Node, computed: Node, program: str, name: str) -> Built:
    """Build the kernel of `node`, whose arrays are real; `computed` is the operation itself, on complex numbers too."""
    k = Scalar()
    k.node = node
    elements = Elements(k, lambda _: True)
    batch = MatrixBatch(k, elements, node, computed)
    run = PROGRAMS[program]
    written: list[Node | Temporary] = [node]
    if batch.size == 1:
        is_sound = run(batch, constant_index(0))
    else:
        info = Temporary(Aval((batch.size,), np.bool_))
        with k.loop(batch.size, parallel=True, varies=batch.is_open) as loop:
            found = run(batch, loop.index)
            if found is not None:
                k.store(found, elements.place(info), loop.index)
                written.append(info)
        is_sound = None if found is None else _all(k, elements.place(info), batch)
    written += batch.temporaries
    if is_sound is not None:
        k.return_status(k.select(is_sound, k.literal(0, I32), k.literal(int(Status.REFUSED), I32)))
    built = finish(name, k, elements, written)
    function = replace(built.kernel.function, refuses=is_sound is not None, is_fixed=True)
    return Built(replace(built.kernel, function=function), built.memory)


def _all(k: Scalar, info: Value, batch: MatrixBatch) -> Value:
    loop = k.open_loop(batch.size, [k.literal(True, I1)], varies=batch.is_open)
    return k.close_loop(loop, [k.logical_and(loop.carried[0], k.load(info, loop.index, stable=False))])[0]
