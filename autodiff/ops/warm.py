"""Recording by number of inputs: the hot path of every elementwise operation.

`tape.record` serves any number of inputs and every circumstance.  What is made here knows that
there are one or two and takes the common case in straight-line code: a known kind, operands that
are leaves or belong to this recording, no debugging mode.  Everything else goes to `record` by
way of `slow`, which converts and promotes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from codegen.ir import Aval

from ..config import config
from ..tape.node import TABLE_LIMIT, Kind, Node, Out, leaf_kind, new_number, out_of
from ..tape.record import PENDING_LIMIT, grad_mode, state
from ..tensor import Tensor
from .primitive import Operation

__all__ = ["binary_body", "unary_body"]

_new = object.__new__
_ref = weakref.ref


def unary_body(operation: Operation, slow: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """The body of a function of one argument.  `slow` records whatever it does not know."""
    by_mode = operation.memo

    def body(x):
        if not isinstance(x, Tensor):
            return slow(x)
        node = x.node
        kind = by_mode[grad_mode.get()].get(((node.kind.out,), ()))
        now = state.now
        if (
            kind is None
            or (node.value is None and node.number < now.start)
            or now.count >= PENDING_LIMIT
            or len(now.small) >= now.limit
            or config.careful
        ):
            return slow(x)
        now.count += 1
        made = _new(Node)
        made.kind = kind
        made.inputs = (node,)
        made.value = None
        made.number = new_number()
        out = kind.out
        y = _new(out.cls)
        y.node = made
        y.masked = x.masked and now.body != 0
        if out.small:
            now.small.append(_ref(y))
        return y

    return body


def binary_body(
    operation: Operation, slow: Callable[[Any, Any], Tensor]
) -> Callable[[Any, Any], Tensor]:
    """The body of a function of two arguments.  `slow` records whatever it does not know."""
    by_mode = operation.memo

    def body(x1, x2):
        a: Node | None
        b: Node | None
        if isinstance(x1, Tensor):
            a = x1.node
            if isinstance(x2, Tensor):
                b = x2.node
                masked = x1.masked or x2.masked
            else:
                b = _number_beside(x2, a.kind.out)
                masked = x1.masked
        elif isinstance(x2, Tensor):
            b = x2.node
            a = _number_beside(x1, b.kind.out)
            masked = x2.masked
        else:
            return slow(x1, x2)
        if a is None or b is None:
            return slow(x1, x2)
        kind = by_mode[grad_mode.get()].get(((a.kind.out, b.kind.out), ()))
        now = state.now
        start = now.start
        if (
            kind is None
            or (a.value is None and a.number < start)
            or (b.value is None and b.number < start)
            or now.count >= PENDING_LIMIT
            or len(now.small) >= now.limit
            or config.careful
        ):
            return slow(x1, x2)
        now.count += 1
        made = _new(Node)
        made.kind = kind
        made.inputs = (a, b)
        made.value = None
        made.number = new_number()
        out = kind.out
        y = _new(out.cls)
        y.node = made
        y.masked = masked and now.body != 0
        if out.small:
            now.small.append(_ref(y))
        return y

    return body


#: (type of a number, Out it meets) -> kind of its leaf, for those that simply take that dtype.
_NUMBER_KINDS: dict[tuple[type, Out], Kind | None] = {}


def _number_beside(value: Any, out: Out) -> Node | None:
    """The leaf of a float, or of an int, that meets a float tensor; None: this needs a longer look."""
    python = type(value)
    try:
        kind = _NUMBER_KINDS[python, out]
    except KeyError:
        kind = _number_kind(python, out)
    if kind is None or state.now.literal:
        return None
    node = _new(Node)
    node.kind = kind
    node.inputs = ()
    node.value = value if python is float else float(value)
    node.number = new_number()
    return node


def _number_kind(python: type, out: Out) -> Kind | None:
    simple = python in (float, int) and out.aval.dtype.kind == "f"
    kind = leaf_kind(out_of(Aval((), out.aval.dtype))) if simple else None
    if len(_NUMBER_KINDS) >= TABLE_LIMIT:
        _NUMBER_KINDS.clear()
    _NUMBER_KINDS[python, out] = kind
    return kind
