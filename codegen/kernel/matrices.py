"""Arithmetic on real or complex numbers, so that a program for matrices is written once.

    f = field(k, F64, is_complex=False)        f.minus(c, f.times(a, b))

A real number is one value of the builder; a complex number is two, which are one after the other in memory.

Matrices in memory, and loops over their rows, for programs that are written with the scalar builder:

    X = Matrix(f, memory, start, n)        f[n,n] at `start`, row after row
    with each(k, low, high) as i:          for i in range(low, high)
    rows = read(X, n, n)                   all numbers of X, in registers

Places are `Index`es, or ints where they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from operator import index as number
from typing import TYPE_CHECKING, Any

from ..ir import Aval, Node
from ..lazily import later
from ..lowering import factor_row_stride
from ..records import record, replace
from .arguments import SMALL
from .elements import Elements, Temporary, element_type
from .index import Index, constant_index
from .logic import method
from .nest import I64, ScalarType, Value
from .scalar import Scalar

if TYPE_CHECKING:
    from . import complex_formulas
else:
    complex_formulas = later("codegen.kernel.complex_formulas")


def _by_part(name: str, does: str, doc: str) -> Callable[..., Any]:
    """The method of numbers that calls a method of the builder for each of their parts."""
    return method(name, doc, lambda self, *numbers: self._each(getattr(self.k, does), *numbers))


def _by_formula(name: str, formula: str) -> Callable[..., Any]:
    """The method of complex numbers that applies a formula."""
    return method(name, "", lambda self, *numbers: complex_formulas.applied(formula, self.k, *numbers))


class Reals:
    """Real numbers, each one value of the builder.

    width    the elements of memory that a number takes
    """

    width = 1

    def __init__(self, k: Scalar, type: ScalarType) -> None:
        self.k, self.type = k, type

    def parts(self, x: Any) -> list[Value]:
        """The elements of a number, which loops carry."""
        return [x]

    def joined(self, parts: list[Value]) -> Any:
        """The number with these elements: the inverse of `parts`."""
        return parts[0]

    def _each(self, act: Callable[..., Any], *numbers: Any) -> Any:
        """The number whose parts are the results of `act` on the parts of `numbers`."""
        return self.joined([act(*parts) for parts in zip(*map(self.parts, numbers), strict=True)])

    def real(self, value: float) -> Value:
        """A known real number, as an element."""
        return self.k.literal(value, self.type)

    def number(self, value: float) -> Any:
        """A known number."""
        return self.from_real(self.real(value))

    def load(self, memory: Value, at: Index, *, stable: bool) -> Any:
        """Load the number at a place, which counts numbers."""
        first = at.times(self.width)
        places = [first.plus(constant_index(j)) for j in range(self.width)]
        return self.joined([self.k.load(memory, place, stable=stable) for place in places])

    def store(self, x: Any, memory: Value, at: Index) -> None:
        """Write a number to a place, which counts numbers."""
        first = at.times(self.width)
        for j, part in enumerate(self.parts(x)):
            self.k.store(part, memory, first.plus(constant_index(j)))

    plus = _by_part("plus", "accumulate", "x + y, in an order of additions that LLVM may change.")
    add = _by_part("add", "add", "x + y.")
    minus = _by_part("minus", "sub", "x - y.")
    negative = _by_part("negative", "neg", "-x.")

    def scaled(self, x: Any, factor: Value) -> Any:
        """x times a real number."""
        return self._each(lambda part: self.k.mul(part, factor), x)

    def choose(self, condition: Value, x: Any, y: Any) -> Any:
        """x where the condition holds, else y."""
        return self._each(lambda a, b: self.k.select(condition, a, b), x, y)

    def times(self, x: Any, y: Any) -> Any:
        """x * y."""
        return self.k.mul(x, y)

    def over(self, x: Any, y: Any) -> Any:
        """x / y."""
        return self.k.div(x, y)

    def conjugate(self, x: Any) -> Any:
        """The complex conjugate; a real number itself."""
        return x

    def real_part(self, x: Any) -> Value:
        """The real part of a number, as an element."""
        return self.parts(x)[0]

    def from_real(self, x: Value) -> Any:
        """The number whose real part is this element."""
        return x

    def size(self, x: Any) -> Value:
        """The size by which pivots are compared."""
        return self.k.abs(x)

    def magnitude(self, x: Any) -> Value:
        """|x|."""
        return self.k.abs(x)

    def is_zero(self, x: Any) -> Value:
        """True if the element is 0, of either sign."""
        return self.k.eq(x, self.real(0.0))


class Complexes(Reals):
    """Complex numbers, each a pair of values."""

    width = 2

    def parts(self, x: Any) -> list[Value]:
        return [*x]

    def joined(self, parts: list[Value]) -> Any:
        return tuple(parts)

    times, over = _by_formula("times", "mul"), _by_formula("over", "div")
    magnitude = _by_formula("magnitude", "abs_complex")

    def conjugate(self, x: Any) -> Any:
        return x[0], self.k.neg(x[1])

    def from_real(self, x: Value) -> Any:
        return x, self.real(0.0)

    def size(self, x: Any) -> Value:
        """The size as in LAPACK: the sum of both parts, each without its sign."""
        return self.k.add(self.k.abs(x[0]), self.k.abs(x[1]))

    def is_zero(self, x: Any) -> Value:
        return self.k.logical_and(*[self.k.eq(part, self.real(0.0)) for part in x])


def root_of(f: Reals, x: Any) -> Value:
    """The square root of a pivot of a positive definite matrix; 0 for a pivot that is not positive, nan for nan."""
    pivot = f.real_part(x)
    return f.k.select(f.k.le(pivot, f.real(0.0)), f.real(0.0), f.k.sqrt(pivot))


def field(k: Scalar, type: ScalarType, *, is_complex: bool) -> Reals:
    """Real or complex numbers whose parts are of this type."""
    return Complexes(k, type) if is_complex else Reals(k, type)


# ---------------------------------------------------------------- matrices in memory


Place = Index | int


def at(place: Place) -> Index:
    """A place as an index."""
    return constant_index(place) if isinstance(place, int) else place


@record(frozen=True)
class Matrix:
    """Numbers in memory, row after row.

    start      the place of the first number; `row` and `column` are the distances to the next row and column
    stable     nothing in this function writes to the matrix
    conjugates elements are conjugated when they are read
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

    @property
    def adjoint(self) -> Matrix:
        """The conjugate transpose, in the same memory."""
        return replace(self, row=self.column, column=self.row, conjugates=not self.conjugates)


@contextmanager
def each(k: Scalar, low: Place, high: Place, *, parallel: bool = False) -> Iterator[Index]:
    """A loop over range(low, high).  `parallel`: no iteration accesses memory that another one writes."""
    low, high = at(low), at(high)
    extent, bound = _count(k, low, high)
    with k.loop(extent, high=bound, parallel=parallel) as loop:
        yield low.plus(loop.index)


def fold(
    k: Scalar, low: Place, high: Place, initial: Sequence[Value], step: Callable[[Index, list[Value]], Sequence[Value]]
) -> list[Value]:
    """A loop over range(low, high) that carries values from `initial` on; returns them at its end."""
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
    """Write all numbers of a small matrix, given by rows."""
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            x.put(value, i, j)


def copy(x: Matrix, y: Matrix, rows: int, columns: int) -> None:
    """Copy all numbers of x to y."""
    k = x.f.k
    if x.row != columns or y.row != columns:
        with each(k, 0, rows) as i, each(k, 0, columns, parallel=True) as j:
            y.put(x.get(i, j), i, j)
        return
    flat = Matrix(x.f, x.memory, x.start, 0, 1, x.stable), Matrix(y.f, y.memory, y.start, 0, 1)
    with each(k, 0, rows * columns, parallel=True) as t:
        flat[1].put(flat[0].get(0, t), 0, t)


def set_to_identity(x: Matrix, n: int) -> None:
    """Write the identity of n rows to packed memory."""
    f = x.f
    flat = Matrix(f, x.memory, x.start, 0)
    with each(f.k, 0, n * n, parallel=True) as t:
        flat.put(f.number(0.0), 0, t)
    with each(f.k, 0, n) as i:
        x.put(f.number(1.0), i, i)


# ---------------------------------------------------------------- the arrays of a node


#: The most multiplications and choices written out without loops: 2,000 systems of 8 rows take 104 us, 990 by loops.
WRITTEN_OUT = 700
#: The largest matrix on the stack, in bytes; a larger one has a buffer of its own.
STACK = 32 << 10


class MatrixBatch:
    """The arrays of a node.

    node       on arrays in memory, where complex numbers are pairs    computed    the same operation on complex numbers
    f          the numbers of its inputs                               n, size     rows of a matrix, number of matrices
    """

    def __init__(self, k: Scalar, elements: Elements, node: Node, computed: Node) -> None:
        self.k, self.elements, self.node, self.computed = k, elements, node, computed
        self.keywords = computed.keywords
        first = computed.inputs[0].aval
        self.f: Reals = field(k, element_type(node), is_complex=first.dtype.kind == "c")
        *batch, n, _ = first.shape
        self.n, self.size = number(n), prod(batch)
        self.temporaries: list[Temporary] = []
        #: True if the code is the same for another number of matrices.
        self.is_open = self.size > SMALL

    def input(self, which: int, b: Index) -> Matrix:
        """Matrix b of an input."""
        rows, columns = map(number, self.computed.inputs[which].aval.shape[-2:])
        memory = self.elements.place(self.node.inputs[which])
        return Matrix(self.f, memory, b.times(rows * columns), columns, stable=True)

    def columns(self, which: int) -> int:
        """The number of columns of an input."""
        return number(self.computed.inputs[which].aval.shape[-1])

    def output(self, b: Index, rows: int, columns: int) -> Matrix:
        """Matrix b of the output."""
        f = field(self.k, self.f.type, is_complex=self.computed.aval.dtype.kind == "c")
        return Matrix(f, self.elements.place(self.node), b.times(rows * columns), columns)

    def scratch(self, b: Index, columns: int) -> Matrix:
        """A matrix of n rows for the program's own use."""
        dtype, row = self.node.aval.dtype, factor_row_stride(columns)
        count = self.n * row
        if count * self.f.width * dtype.itemsize <= STACK:
            return Matrix(self.f, self.k.scratch(count * self.f.width, self.f.type), constant_index(0), row)
        temporary = Temporary(Aval((self.size * count * self.f.width,), dtype))
        self.temporaries.append(temporary)
        return Matrix(self.f, self.elements.place(temporary), b.times(count), row)

    def places(self) -> Value:
        """Memory for n positions."""
        return self.k.scratch(self.n, I64)
