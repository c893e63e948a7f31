"""Linear algebra on the matrices of a batch as one kernel: what an operation with the lowering `Dense` becomes.

    for b in 0..batch, in parallel:      small matrices in registers (`dense_small`), others in memory (`dense_loops`)
      the program of one matrix, which says whether it is refused: singular, not positive definite
    status = whether any is

A matrix that is refused makes the kernel give REFUSED: then the operation's reference decides (`runtime.decided`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index as number
from typing import Any

import numpy as np

from ..ir import Aval, Node
from ..records import replace
from . import dense_loops, dense_small
from .arguments import SMALL
from .build import Built, finish
from .dense_small import Rows
from .elements import Elements, Temporary, element_type
from .fields import Reals, field
from .index import Index, constant_index
from .matrices import Matrix, each, fold
from .nest import I1, I32, Status, Value
from .scalar import Scalar

__all__ = ["build_dense", "is_native"]

#: Rows up to which our own loops are the faster ones.
MOST = 256

#: Bytes of a matrix that is kept on the stack; larger ones have memory of their own.
STACK = 32 << 10


def is_native(node: Node) -> bool:
    """Whether there is a kernel for this node."""
    shape = node.inputs[0].aval.shape
    return 0 < shape[-1] <= MOST


def build_dense(node: Node, word: str, name: str, *, is_complex: bool = False) -> Built:
    """The kernel of a node.  `word`: what it computes, one of `_PROGRAMS`; complex numbers lie in memory as pairs."""
    k = Scalar()
    elements = Elements(k, lambda _: True)
    job = _Job(k, elements, node, is_complex)
    program = _PROGRAMS[word]
    written: list[Node | Temporary] = [node]
    if job.batch == 1:
        is_sound = program(job, constant_index(0))
    else:
        info = Temporary(Aval((job.batch,), np.bool_))
        batch = k.open_loop(job.batch, parallel=True, varies=job.is_open)
        found = program(job, batch.index)
        if found is not None:
            k.store(found, elements.place(info), batch.index)
            written.append(info)
        k.close_loop(batch)
        is_sound = None if found is None else _all(k, elements.place(info), job)
    written += job.temporaries
    if is_sound is not None:
        k.answer(k.select(is_sound, k.literal(0, I32), k.literal(int(Status.REFUSED), I32)))
    built = finish(name, k, elements, written)
    function = replace(built.kernel.function, refuses=is_sound is not None, is_fixed=True)
    return Built(replace(built.kernel, function=function), built.memory)


def _all(k: Scalar, info: Value, job: _Job) -> Value:
    loop = k.open_loop(job.batch, [k.literal(True, I1)], varies=job.is_open)
    return k.close_loop(loop, [k.logical_and(loop.carried[0], k.load(info, loop.index, stable=False))])[0]


class _Job:
    """What a program works on: the arrays of a node, matrix by matrix."""

    def __init__(self, k: Scalar, elements: Elements, node: Node, is_complex: bool) -> None:
        self.k, self.elements, self.node = k, elements, node
        self.keywords = node.keywords
        self.f: Reals = field(k, element_type(node), is_complex=is_complex)
        *batch, n, _ = self.shape(node.inputs[0])
        self.n, self.batch = number(n), prod(batch)
        self.temporaries: list[Temporary] = []
        #: Whether another number of matrices takes the same code.
        self.is_open = self.batch > SMALL

    def shape(self, node: Node) -> tuple[int, ...]:
        """Of the numbers of an array."""
        return node.aval.shape[:-1] if self.f.width == 2 else node.aval.shape

    def input(self, which: int, b: Index) -> Matrix:
        """A matrix that is read."""
        node = self.node.inputs[which]
        rows, columns = map(number, self.shape(node)[-2:])
        memory = self.elements.place(node)
        return Matrix(self.f, memory, b.times(rows * columns), columns, stable=True)

    def columns(self, which: int) -> int:
        """Of an input."""
        return number(self.shape(self.node.inputs[which])[-1])

    def output(self, b: Index, rows: int, columns: int) -> Matrix:
        """The matrix that is written."""
        return Matrix(self.f, self.elements.place(self.node), b.times(rows * columns), columns)

    def scratch(self, b: Index) -> Matrix:
        """A square matrix for the program's own use."""
        n, aval = self.n, self.node.aval
        count = n * n * self.f.width
        if count * aval.dtype.itemsize <= STACK:
            return Matrix(self.f, self.k.scratch(count, self.f.type), constant_index(0), n)
        temporary = Temporary(Aval((self.batch * count,), aval.dtype))
        self.temporaries.append(temporary)
        return Matrix(self.f, self.elements.place(temporary), b.times(n * n), n)


def _read(x: Matrix, rows: int, columns: int) -> Rows:
    return [[x.get(i, j) for j in range(columns)] for i in range(rows)]


def _write(x: Matrix, rows: Rows) -> None:
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            x.put(value, i, j)


def _copy(k: Scalar, x: Matrix, y: Matrix, rows: int, columns: int) -> None:
    """All numbers of x, to a place of the same shape."""
    flat = Matrix(x.f, x.memory, x.start, 0, 1, x.stable), Matrix(y.f, y.memory, y.start, 0, 1)
    with each(k, 0, rows * columns, apart=True) as t:
        flat[1].put(flat[0].get(0, t), 0, t)


def _both(k: Scalar, answers: Sequence[Value]) -> Value:
    found = answers[0]
    for answer in answers[1:]:
        found = k.logical_and(found, answer)
    return found


def _along(job: _Job, x: Matrix, is_sound: Callable[[Any], Value]) -> Value:
    """Whether all numbers on a diagonal are sound."""
    k = job.k

    def step(i: Index, carried: list[Value]) -> list[Value]:
        return [k.logical_and(carried[0], is_sound(x.get(i, i)))]

    return fold(k, 0, job.n, [k.literal(True, I1)], step)[0]


# ---------------------------------------------------------------- programs

#: How much is written out: multiplications and choices, roughly.
_WRITTEN_OUT = 400


def _cholesky(job: _Job, b: Index) -> Value:
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


def _is_regular(job: _Job) -> Callable[[Any], Value]:
    return lambda x: job.k.logical_not(job.f.is_zero(x))


def _triangular(job: _Job, b: Index) -> Value:
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


def _factored(job: _Job, b: Index) -> None:
    """With a Cholesky factor: what was refused when it was made."""
    k, f, n, columns = job.k, job.f, job.n, job.columns(2)
    factor, side, x = job.input(1, b), job.input(2, b), job.output(b, n, columns)
    _copy(k, side, x, n, columns)
    dense_loops.substitute(f, n, factor, x, columns, lower=True)
    dense_loops.substitute(f, n, factor.adjoint, x, columns, lower=False)


def _solve(job: _Job, b: Index) -> Value:
    k, n, columns = job.k, job.n, job.columns(1)
    a, side, x = job.input(0, b), job.input(1, b), job.output(b, n, columns)
    if n * n * (n + 2 * columns) <= _WRITTEN_OUT:
        rows = [[*left, *right] for left, right in zip(_read(a, n, n), _read(side, n, columns), strict=True)]
        return _small_solution(job, rows, x)
    _copy(k, side, x, n, columns)
    return _solution(job, b, a, x, columns)


def _inverse(job: _Job, b: Index) -> Value:
    k, f, n = job.k, job.f, job.n
    a, x = job.input(0, b), job.output(b, n, n)
    if 3 * n * n * n <= _WRITTEN_OUT:
        identity = [[f.number(float(i == j)) for j in range(n)] for i in range(n)]
        return _small_solution(job, [[*left, *right] for left, right in zip(_read(a, n, n), identity, strict=True)], x)
    flat = Matrix(f, x.memory, x.start, 0)
    with each(k, 0, n * n, apart=True) as t:
        flat.put(f.number(0.0), 0, t)
    with each(k, 0, n) as i:
        x.put(f.number(1.0), i, i)
    return _solution(job, b, a, x, n)


def _small_solution(job: _Job, rows: Rows, x: Matrix) -> Value:
    """From the rows of a matrix with those of the right-hand side beside them."""
    f, n = job.f, job.n
    dense_small.lu(f, n, rows)
    solved = [row[n:] for row in rows]
    dense_small.substitute(f, n, rows, solved, lower=True, unit=True)
    dense_small.substitute(f, n, rows, solved, lower=False)
    _write(x, solved)
    return _both(job.k, [_is_regular(job)(rows[i][i]) for i in range(n)])


def _solution(job: _Job, b: Index, a: Matrix, x: Matrix, columns: int) -> Value:
    f, n, factors = job.f, job.n, job.scratch(b)
    _copy(job.k, a, factors, n, n)
    dense_loops.lu(f, n, factors, x, columns)
    dense_loops.substitute(f, n, factors, x, columns, lower=True, unit=True)
    dense_loops.substitute(f, n, factors, x, columns, lower=False)
    return _along(job, factors, _is_regular(job))


_PROGRAMS: dict[str, Callable[[_Job, Index], Value | None]] = {
    "cholesky": _cholesky,
    "triangular": _triangular,
    "factored": _factored,
    "solve": _solve,
    "inverse": _inverse,
}
