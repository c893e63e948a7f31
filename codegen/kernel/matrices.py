"""Matrices in memory, and loops over their rows, for programs that are written with the scalar builder.

    X = Matrix(f, memory, start, n)        f[n,n] at `start`, row after row
    with each(k, low, high) as i:          for i in range(low, high)

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

__all__ = ["Matrix", "Place", "at", "each", "fold"]

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
        """Where an element lies."""
        return self.start.plus(at(i).times(self.row)).plus(at(j).times(self.column))

    def get(self, i: Place, j: Place) -> Any:
        """An element."""
        found = self.f.load(self.memory, self.place(i, j), stable=self.stable)
        return self.f.conjugate(found) if self.conjugates else found

    def put(self, x: Any, i: Place, j: Place) -> None:
        """Write an element."""
        self.f.store(x, self.memory, self.place(i, j))

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
    """What a loop over range(low, high) carries, at its end."""
    low, high = at(low), at(high)
    extent, bound = _count(k, low, high)
    loop = k.open_loop(extent, initial, high=bound)
    return k.close_loop(loop, step(low.plus(loop.index), loop.carried))


def _count(k: Scalar, low: Index, high: Index) -> tuple[int | Value, int]:
    count = high.plus(low.times(-1))
    return (count.constant if count.is_constant else k.value_of(count)), max(count.high - 1, 0)
