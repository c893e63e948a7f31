"""Matrices in memory, and loops over their rows, for programs that are written with the scalar builder.

    X = Matrix(f, memory, start, n)        f[n,n] at `start`, row after row
    with each(k, low, high) as i:          for i in range(low, high)
    rows = read(X, n, n)                   all its numbers, in registers

Places are `Index`es, or ints where they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..records import record, replace
from .fields import Reals
from .index import Index, constant_index
from .nest import Value
from .scalar import Scalar

__all__ = ["Matrix", "Place", "at", "copy", "each", "fold", "read", "set_to_identity", "write"]

Place = Index | int


def at(place: Place) -> Index:
    """A place as an index."""
    return constant_index(place) if isinstance(place, int) else place


@record(frozen=True)
class Matrix:
    """Numbers in memory, row after row.

    start      where the first number lies, and `row`, `column` the distances to the next of its column, of its row
    stable     nothing in this function writes there
    conjugates what is read is conjugated
    """

    f: Reals
    memory: Value
    start: Index
    row: int
    column: int = 1
    stable: bool = False
    conjugates: bool = False

    def place(self, i: Place, j: Place) -> Index:
        """The place of an element."""
        return self.start.plus(at(i).times(self.row)).plus(at(j).times(self.column))

    def get(self, i: Place, j: Place) -> Any:
        """An element."""
        found = self.f.load(self.memory, self.place(i, j), stable=self.stable)
        return self.f.conjugate(found) if self.conjugates else found

    def put(self, x: Any, i: Place, j: Place) -> None:
        """Write an element."""
        self.f.store(x, self.memory, self.place(i, j))

    def below(self, number: Index, rows: int) -> Matrix:
        """One of several matrices of so many rows that lie one below the other."""
        return replace(self, start=self.start.plus(number.times(rows * self.row)))

    @property
    def adjoint(self) -> Matrix:
        """The conjugate transpose, in the same memory."""
        return replace(self, row=self.column, column=self.row, conjugates=not self.conjugates)


@contextmanager
def each(k: Scalar, low: Place, high: Place, *, apart: bool = False) -> Iterator[Index]:
    """A loop over range(low, high).  `apart`: no iteration touches what another one writes."""
    low, high = at(low), at(high)
    extent, bound = _count(k, low, high)
    loop = k.open_loop(extent, high=bound, parallel=apart)
    yield low.plus(loop.index)
    k.close_loop(loop)


def fold(
    k: Scalar, low: Place, high: Place, initial: Sequence[Value], step: Callable[[Index, list[Value]], Sequence[Value]]
) -> list[Value]:
    """The values that a loop over range(low, high) carries, at its end."""
    low, high = at(low), at(high)
    extent, bound = _count(k, low, high)
    loop = k.open_loop(extent, initial, high=bound)
    return k.close_loop(loop, step(low.plus(loop.index), loop.carried))


def _count(k: Scalar, low: Index, high: Index) -> tuple[int | Value, int]:
    count = high.plus(low.times(-1))
    return (count.constant if count.is_constant else k.value_of(count)), max(count.high - 1, 0)


def read(x: Matrix, rows: int, columns: int) -> list[list[Any]]:
    """All numbers of a small matrix, by rows."""
    return [[x.get(i, j) for j in range(columns)] for i in range(rows)]


def write(x: Matrix, rows: Sequence[Sequence[Any]]) -> None:
    """Write such rows."""
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            x.put(value, i, j)


def copy(x: Matrix, y: Matrix, rows: int, columns: int) -> None:
    """All numbers of x, to a place of the same shape."""
    k = x.f.k
    if x.row != columns or y.row != columns:
        with each(k, 0, rows) as i, each(k, 0, columns, apart=True) as j:
            y.put(x.get(i, j), i, j)
        return
    flat = Matrix(x.f, x.memory, x.start, 0, 1, x.stable), Matrix(y.f, y.memory, y.start, 0, 1)
    with each(k, 0, rows * columns, apart=True) as t:
        flat[1].put(flat[0].get(0, t), 0, t)


def set_to_identity(x: Matrix, n: int) -> None:
    """The identity of n rows, which lie packed."""
    f = x.f
    flat = Matrix(f, x.memory, x.start, 0)
    with each(f.k, 0, n * n, apart=True) as t:
        flat.put(f.number(0.0), 0, t)
    with each(f.k, 0, n) as i:
        x.put(f.number(1.0), i, i)
