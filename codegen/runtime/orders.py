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

__all__ = ["OrderStep", "is_native", "order_of", "text_of"]

#: From so many additions on threads share the rows; a chunk of them has at least so many.
_SHARED, _CHUNK = 300_000, 100_000


@record(frozen=True)
class OrderStep:
    """Code, the extents, and how rows are shared; without, the extents say that all are done at once."""

    code: MachineCode
    extents: tuple[int, ...]
    share: Share | None


def is_native(node: Node) -> bool:
    """True if a call is in machine code: rows whose elements get numbers must be no longer than keys can number."""
    lower = node.op.lower
    if not isinstance(lower, lowering.Order):
        return False
    return lower.of_elements or node.aval.shape[node.keywords["axis"]] <= 1 << 31


def order_of(node: Node) -> OrderStep:
    """The native step for such a node."""
    (x,) = node.inputs
    axis, falls = node.keywords["axis"], node.keywords["descending"]
    n, inner = x.aval.shape[axis], math.prod(x.aval.shape[axis + 1 :])
    rows, flip = (x.aval.size // n if n else 0), -1 if falls else 0
    code = _code(dtype_name(x.aval.dtype), node.op.lower.of_elements)
    extents = (n, inner, flip)
    if rows > 1 and ORDERED * x.aval.size >= _SHARED:
        least = lowering.COLUMNS if inner > 1 else 1
        share = Share(rows, max(1, min(max(least, _CHUNK // (ORDERED * n)), rows // 2)))
        return OrderStep(code, extents, share)
    return OrderStep(code, (*extents, 0, rows), None)


def _code(dtype: str, of_elements: bool) -> MachineCode:
    words = {"order": f"{'elements' if of_elements else 'numbers'} in order {dtype}"}
    return objects.named(words, lambda _: _text(dtype, of_elements, objects.native_module()))["order"]


def text_of(node: Node, module: Translation) -> str:
    """The text of a module with `order` for a node."""
    return _text(dtype_name(node.inputs[0].aval.dtype), node.op.lower.of_elements, module)


def _text(dtype: str, of_elements: bool, module: Translation) -> str:
    routines = order_rows.elements if of_elements else order_rows.numbers
    return module.text([routines(dtype, engine.target_features())])
