"""Orders of elements: native steps, and their code, made when a dtype first wants it."""

from __future__ import annotations

import functools
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

#: From so many additions on threads share the rows; a chunk of them has at least so many.
_SHARED, _CHUNK = 300_000, 100_000
#: Chunks are multiples of so many rows, which are sorted side by side.
_ROWS = 8


@record(frozen=True)
class OrderStep:
    """Code, the extents, and how rows are shared; without, the extents say that all are done at once."""

    code: MachineCode
    extents: tuple[int, ...]
    share: Share | None


def is_native(node: Node) -> bool:
    """True if a call is in machine code: of rows no longer than keys can number."""
    return isinstance(node.op.lower, lowering.Order) and node.aval.shape[node.keywords["axis"]] <= 1 << 31


def order_step(node: Node) -> OrderStep:
    """The native step for such a node."""
    (x,) = node.inputs
    axis, falls = node.keywords["axis"], node.keywords["descending"]
    n, inner = x.aval.shape[axis], math.prod(x.aval.shape[axis + 1 :])
    rows = x.aval.size // n if n else 0
    extents = n, inner, -1 if falls else 0
    code = objects.typed("order", functools.partial(text_of, node), words=f"of {dtype_name(x.aval.dtype)}")
    if rows > 1 and ORDERED * x.aval.size >= _SHARED:
        chunk = max(1, min(_CHUNK // (ORDERED * n), rows // 2))
        return OrderStep(code, extents, Share(rows, -(-chunk // _ROWS) * _ROWS if rows >= 2 * _ROWS else chunk))
    return OrderStep(code, (*extents, 0, rows), None)


def text_of(node: Node, module: Translation) -> str:
    """The text of a module with the function that `order_step` names for a node."""
    return module.text([order_rows.order_of(dtype_name(node.inputs[0].aval.dtype), engine.target_features())])
