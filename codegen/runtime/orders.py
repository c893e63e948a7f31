"""Native steps that sort: the code for each dtype is made when it is first needed."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from . import engine, objects
from .cost import ORDERED
from .engine import MachineCode
from .launcher import NativeStep, Share

if TYPE_CHECKING:
    from ..native import Translation
    from . import order_rows
else:
    order_rows = later("codegen.runtime.order_rows")

#: The number of rows that are sorted side by side.
_ROWS = 8


def is_native(node: Node) -> bool:
    """True if a call is a sort that has machine code: its rows are short enough for the indices in keys."""
    return isinstance(node.op.lower, lowering.Order) and node.aval.shape[node.keywords["axis"]] <= 1 << 31


def order_step(node: Node, slots: tuple[int, ...]) -> tuple[NativeStep, tuple[MachineCode]]:
    """The native step for a sort on these slots, and its code."""
    (x,) = node.inputs
    axis, falls = node.keywords["axis"], node.keywords["descending"]
    n, inner = x.aval.shape[axis], math.prod(x.aval.shape[axis + 1 :])
    rows = x.aval.size // n if n else 0
    extents = n, inner, -1 if falls else 0
    code = objects.native_code("order", functools.partial(text_of, node), words=f"of {dtype_name(x.aval.dtype)}")
    share = share_of_rows(rows, ORDERED * n, _ROWS)
    return NativeStep(code.address("order"), slots, extents if share else (*extents, 0, rows), share), (code,)


def share_of_rows(rows: int, work: int, beside: int) -> Share | None:
    """The `Share` of rows with `work` operations each, computed `beside` at a time; None for too little work."""
    if rows < 2 or work * rows < 300_000:
        return None
    chunk = max(1, min(100_000 // work, rows // 2))
    return Share(rows, -(-chunk // beside) * beside if rows >= 2 * beside else chunk)


def text_of(node: Node, module: Translation) -> str:
    """The text of a module with the sorting function for a node's dtype."""
    return module.text([order_rows.order_of(dtype_name(node.inputs[0].aval.dtype), engine.target_features())])
