"""Matrix products for `Gemm` steps: the stored memory of each operand, and its layout there.

A transpose or reshape between a stored value and the product costs nothing if the operand is
still a matrix by rows or by columns: the transpose becomes a flag.

    matmul(transpose(x), y), x: f64[k,m]      a is x itself, transposed
"""

from __future__ import annotations

from ..ir import Node
from ..lowering import Move
from ..records import record
from ..symbols import typical
from .edges import Probed, broadcast_index
from .index import Atom, Index, constant_index, flatten

#: Up to this many multiplications a loop is cheaper than a separate step: 4 x 4 x 4 takes 15 ns less, 5 x 5 x 5
#: 130 ns more (f32 and f64 alike; Zen 4, 2026-11).
_LOOP_LIMIT = 64


@record(frozen=True)
class Operand:
    """`rows` x `columns` matrices in the memory of `base`, each `stride` elements after the one before in the batch."""

    base: Node
    rows: int
    columns: int
    transposed: bool
    stride: int

    def position(self, batch: Index, row: Index, column: Index) -> Index:
        """The flat position of one element."""
        if self.transposed:
            row, column = column, row
        width = self.rows if self.transposed else self.columns
        return batch.times(self.stride).plus(row.times(width)).plus(column)


@record(frozen=True)
class Product:
    """`batch` products of m x k by k x n."""

    a: Operand
    b: Operand
    batch: int
    m: int
    n: int
    k: int

    def is_step(self, node: Node) -> bool:
        """True if a separate step can compute the product, and is faster than a loop."""
        return node.aval.dtype.kind == "f" and typical(self.m * self.n * self.k) > _LOOP_LIMIT


def product_of(node: Node, probed: Probed) -> Product | tuple[int, ...]:
    """The product that a node lowered by Contract computes, or the numbers of operands that must be copied first."""
    a, b = node.inputs
    batch = node.aval.shape[:-2]
    m, k = a.aval.shape[-2:]
    n = b.aval.shape[-1]
    left, right = _operand(a, batch, m, k, probed), _operand(b, batch, k, n, probed)
    if left is None or right is None:
        return tuple([j for j, o in enumerate((left, right)) if o is None])
    size = 1
    for extent in batch:
        size *= extent
    return Product(left, right, size, m, n, k)


def _operand(x: Node, batch: tuple[int, ...], rows: int, columns: int, probed: Probed) -> Operand | None:
    """The operand `x` in the memory farthest back through its moves in which it still is packed matrices."""
    domain = (*batch, rows, columns)
    atoms = [Atom(0, n - 1) if n > 1 else None for n in domain]
    index = tuple([Index.of(a) if a else constant_index(0) for a in atoms])
    at = broadcast_index(index, domain, (*x.aval.shape[:-2], rows, columns))
    found = _as_matrices(x, at, atoms, batch, rows, columns)
    node = x
    while (
        isinstance(node.op.lower, Move) and (node.op.lower.free or node.op.lower.is_reshape) and len(node.inputs) == 1
    ):
        edges = probed.edges(node)
        if len(edges.reads) != 1 or edges.pinned:
            break
        images = {i.terms[0][0]: at[d] for d, i in enumerate(probed.axes.of(node.aval.shape)) if i.terms}
        at = tuple([i.substitute(images) for i in edges.reads[0].index])
        node = node.inputs[0]
        found = _as_matrices(node, at, atoms, batch, rows, columns) or found
    return found


def _as_matrices(
    base: Node, at: tuple[Index, ...], atoms: list[Atom | None], batch: tuple[int, ...], rows: int, columns: int
) -> Operand | None:
    """The operand, if the elements of `base` at `at` are packed matrices at a constant distance; else None."""
    flat = flatten(at, base.aval.shape)
    coefficients = dict(flat.terms)
    if flat.constant or any(a not in atoms for a in coefficients):
        return None
    steps = [coefficients.get(a, 0) if a else None for a in atoms]
    *batch_steps, row_step, column_step = steps
    if row_step in (None, columns) and column_step in (None, 1):
        transposed = False
    elif row_step in (None, 1) and column_step in (None, rows):
        transposed = True
    else:
        return None
    stride = 0
    expected: int | None = None
    for step, extent in zip(reversed(batch_steps), reversed(batch), strict=True):
        if step is None:
            continue
        if expected is None:
            stride = step
        elif step != expected:
            return None
        expected = step * extent
    return Operand(base, rows, columns, transposed, stride)
