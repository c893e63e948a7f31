"""The data of a program of linear algebra: the arrays of a node, matrix by matrix, and memory of its own."""

from __future__ import annotations

from math import prod
from operator import index as number

from ..ir import Aval, Node
from ..lowering import apart_in_cache
from .arguments import SMALL
from .elements import Elements, Temporary, element_type
from .fields import Reals, field
from .index import Index, constant_index
from .matrices import Matrix
from .nest import I64, Value
from .scalar import Scalar

__all__ = ["WRITTEN_OUT", "Job"]

#: How much is written out: multiplications and choices, roughly.  2,000 systems of 8 rows take 990 us by loops, 104 so.
WRITTEN_OUT = 700
#: Bytes of a matrix that is kept on the stack; larger ones have memory of their own.
STACK = 32 << 10


class Job:
    """The arrays of a node.

    node       as it lies in memory         computed    what it computes: of complex numbers, which are pairs in memory
    f          the numbers of its inputs    n, batch    rows, and how many matrices there are
    """

    def __init__(self, k: Scalar, elements: Elements, node: Node, computed: Node) -> None:
        self.k, self.elements, self.node, self.computed = k, elements, node, computed
        self.keywords = computed.keywords
        first = computed.inputs[0].aval
        self.f: Reals = field(k, element_type(node), is_complex=first.dtype.kind == "c")
        *batch, n, _ = first.shape
        self.n, self.batch = number(n), prod(batch)
        self.temporaries: list[Temporary] = []
        #: Whether another number of matrices takes the same code.
        self.is_open = self.batch > SMALL

    def input(self, which: int, b: Index) -> Matrix:
        """A matrix that is read."""
        rows, columns = map(number, self.computed.inputs[which].aval.shape[-2:])
        memory = self.elements.place(self.node.inputs[which])
        return Matrix(self.f, memory, b.times(rows * columns), columns, stable=True)

    def rows(self, which: int) -> int:
        """Of an input."""
        return number(self.computed.inputs[which].aval.shape[-2])

    def columns(self, which: int) -> int:
        """Of an input."""
        return number(self.computed.inputs[which].aval.shape[-1])

    def output(self, b: Index, rows: int, columns: int) -> Matrix:
        """The matrix that is written."""
        f = field(self.k, self.f.type, is_complex=self.computed.aval.dtype.kind == "c")
        return Matrix(f, self.elements.place(self.node), b.times(rows * columns), columns)

    def scratch(self, b: Index, columns: int) -> Matrix:
        """A matrix of as many rows for the program's own use."""
        dtype, row = self.node.aval.dtype, apart_in_cache(columns)
        count = self.n * row
        if count * self.f.width * dtype.itemsize <= STACK:
            return Matrix(self.f, self.k.scratch(count * self.f.width, self.f.type), constant_index(0), row)
        temporary = Temporary(Aval((self.batch * count * self.f.width,), dtype))
        self.temporaries.append(temporary)
        return Matrix(self.f, self.elements.place(temporary), b.times(count), row)

    def places(self) -> Value:
        """Memory for as many positions as there are rows."""
        return self.k.scratch(self.n, I64)
