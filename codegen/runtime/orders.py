"""Orders of elements: native steps, and their code, one function for each dtype, made when one first wants it."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..records import record
from . import objects
from .ahead import Ahead
from .cost import ORDERED
from .engine import Code, Passes
from .launcher import Share

if TYPE_CHECKING:
    from . import order_ir
else:
    order_ir = later("codegen.runtime.order_ir")

__all__ = ["Order", "begin", "is_native", "order_of"]

#: From so many additions on threads share the rows; a chunk of them has at least so many.
_SHARED, _CHUNK = 300_000, 100_000


@record(frozen=True)
class Order:
    """Code, its extents, and how rows are shared; without, the extents say that all are done at once."""

    code: Code
    extents: tuple[int, ...]
    share: Share | None

    @property
    def codes(self) -> tuple[Code, ...]:
        """What must stay loaded."""
        return (self.code,)


def is_native(node: Node) -> bool:
    """Whether a call is an order in machine code: its rows must be no longer than keys can number."""
    return isinstance(node.op.lower, lowering.Order) and node.aval.shape[node.keywords["axis"]] <= 1 << 31


def order_of(node: Node) -> Order:
    """The native step for such a node."""
    (x,) = node.inputs
    axis, falls = node.keywords["axis"], node.keywords["descending"]
    n, inner = x.aval.shape[axis], math.prod(x.aval.shape[axis + 1 :])
    rows = x.aval.size // n if n else 0
    extents = (n, inner, -1 if falls else 0)
    code = _code(dtype_name(x.aval.dtype)).result()
    if rows > 1 and ORDERED * x.aval.size >= _SHARED:
        return Order(code, extents, Share(rows, max(1, min(_CHUNK // (ORDERED * n), rows // 2))))
    return Order(code, (*extents, 0, rows), None)


def begin(node: Node) -> None:
    """Have its code made beside the caller."""
    _code(dtype_name(node.inputs[0].aval.dtype))


@functools.cache
def _code(dtype: str) -> Ahead[Code]:
    return Ahead(lambda: objects.compiled(order_ir.order_ir(dtype), passes=Passes.VECTORS))
