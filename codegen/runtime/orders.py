"""Orders of elements, and elements in order: native steps, and their code, made when a dtype first wants it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..records import record
from . import engine, objects
from .cost import ORDERED
from .engine import MachineCode
from .launcher import Share

if TYPE_CHECKING:
    from ..native import Translation
    from . import order_rows
else:
    order_rows = later("codegen.runtime.order_rows")

__all__ = ["OrderStep", "is_native", "orders_of", "text_of"]

#: From so many additions on threads share the rows; a chunk of them has at least so many.
_SHARED, _CHUNK = 300_000, 100_000


#: A long row is cut into pieces of so many elements, and more buckets where these would have more.
_PIECE, _BUCKET = 1 << 14, 1 << 16


@record(frozen=True)
class OrderStep:
    """Code and its function, the extents, and how rows are shared; without, the extents say that all are done at
    once."""

    code: MachineCode
    name: str
    extents: tuple[int, ...]
    share: Share | None


def is_native(node: Node) -> bool:
    """True if a call is in machine code: rows whose elements get numbers must be no longer than keys can number."""
    lower = node.op.lower
    if not isinstance(lower, lowering.Order):
        return False
    return lower.of_elements or node.aval.shape[node.keywords["axis"]] <= 1 << 31


def orders_of(node: Node, buffers: int) -> list[OrderStep]:
    """The native steps for such a node, one of three buffers with a workspace of its own."""
    (x,) = node.inputs
    axis, falls = node.keywords["axis"], node.keywords["descending"]
    n, inner = x.aval.shape[axis], math.prod(x.aval.shape[axis + 1 :])
    rows, flip = (x.aval.size // n if n else 0), -1 if falls else 0
    code = _code(dtype_name(x.aval.dtype), node.op.lower.of_elements)
    if buffers == 3:
        return _long(code, n, flip)
    extents = (n, inner, flip)
    if rows > 1 and ORDERED * x.aval.size >= _SHARED:
        least = lowering.COLUMNS if inner > 1 else 1
        share = Share(rows, max(1, min(max(least, _CHUNK // (ORDERED * n)), rows // 2)))
        return [OrderStep(code, "order", extents, share)]
    return [OrderStep(code, "order", (*extents, 0, rows), None)]


def _long(code: MachineCode, n: int, flip: int) -> list[OrderStep]:
    """One row in pieces and buckets, which depend on nothing but its length."""
    pieces = min(lowering.PIECES, max(1, n // _PIECE))
    buckets = min([count for count in (4, 16, lowering.BUCKETS) if count * _BUCKET >= n], default=lowering.BUCKETS)
    extents = (n, flip, pieces, buckets)
    shared = (("sample", 0), ("cut", pieces), ("gather", buckets), ("finish", buckets), ("mend", 0))
    return [OrderStep(code, name, extents, Share(total, 1) if total else None) for name, total in shared]


def _code(dtype: str, of_elements: bool) -> MachineCode:
    words = {"order": f"{'elements' if of_elements else 'numbers'} in order {dtype}"}
    return objects.named(words, lambda _: _text(dtype, of_elements, objects.native_module()))["order"]


def text_of(node: Node, module: Translation) -> str:
    """The text of a module with the functions that `orders_of` names for a node."""
    return _text(dtype_name(node.inputs[0].aval.dtype), node.op.lower.of_elements, module)


def _text(dtype: str, of_elements: bool, module: Translation) -> str:
    routines = order_rows.elements if of_elements else order_rows.numbers
    return module.text(routines(dtype, engine.target_features()))
