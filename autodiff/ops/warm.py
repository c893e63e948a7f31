"""Recording by number of inputs: the hot path of every elementwise operation.

`tape.record` serves any number of inputs and every circumstance.  What is made here knows the classes
of its one or two arguments and takes the common case in straight-line code: a known kind, operands
that are leaves or belong to this recording, nothing to look at more closely.  Everything else goes
to `slow`, which converts, promotes and calls `record`.

An `Elementwise` function chooses among these bodies when dispatch meets new classes, so a warm call
looks at no type but in the dispatch cache.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import Aval

from ..config import config
from ..tape.node import TABLE_LIMIT, Kind, Node, Out, leaf_kind, new_number, out_of
from ..tape.record import PENDING_LIMIT, grad_mode, state
from ..tensor import Tensor
from .primitive import Operation

__all__ = ["Body", "binary_body", "is_simple", "unary_body"]

_new = object.__new__
_ref = weakref.ref

#: The body of a function for arguments of given classes.
Body = Callable[[tuple[type, ...]], Callable[..., Tensor]]


def unary_body(operation: Operation, slow: Callable[[Any], Tensor]) -> Body:
    """Bodies of a function of one argument.  `slow` records whatever the others do not know."""
    by_mode = operation.memo

    def of_tensor(x):
        node = x.node
        kind = by_mode[grad_mode.get()].get(((node.kind.out,), ()))
        now = state.now
        count = now.count + 1
        if (
            kind is None
            or (node.value is None and node.number < now.start)
            or count > PENDING_LIMIT
            or config.careful
        ):
            return slow(x)
        now.count = count
        made = _new(Node)
        made.kind = kind
        made.inputs = (node,)
        made.value = None
        made.number = new_number()
        out = kind.out
        y = _new(out.cls)
        y.node = made
        y.masked = now.body != 0 and x.masked
        if out.small:
            now.note_small(y)
        return y

    return lambda classes: of_tensor if issubclass(classes[0], Tensor) else slow


def binary_body(operation: Operation, slow: Callable[[Any, Any], Tensor]) -> Body:
    """Bodies of a function of two arguments.  `slow` records whatever the others do not know."""
    by_mode = operation.memo

    def join(a, b, x1, x2):
        kind = by_mode[grad_mode.get()].get(((a.kind.out, b.kind.out), ()))
        now = state.now
        start = now.start
        count = now.count + 1
        if (
            kind is None
            or (a.value is None and a.number < start)
            or (b.value is None and b.number < start)
            or count > PENDING_LIMIT
            or config.careful
        ):
            return slow(x1, x2)
        now.count = count
        made = _new(Node)
        made.kind = kind
        made.inputs = (a, b)
        made.value = None
        made.number = new_number()
        out = kind.out
        y = _new(out.cls)
        y.node = made
        y.masked = now.body != 0 and (_is_masked(x1) or _is_masked(x2))
        if out.small:
            now.note_small(y)
        return y

    def of_tensors(x1, x2):
        return join(x1.node, x2.node, x1, x2)

    def with_number_right(x, number):
        if state.now.literal:
            return slow(x, number)
        a = x.node
        return join(a, _number_beside(number, a.kind.out), x, number)

    def with_number_left(number, x):
        if state.now.literal:
            return slow(number, x)
        b = x.node
        return join(_number_beside(number, b.kind.out), b, number, x)

    def body(classes):
        left, right = classes
        if issubclass(left, Tensor):
            if issubclass(right, Tensor):
                return of_tensors
            return with_number_right if is_simple(left, right) else slow
        return with_number_left if issubclass(right, Tensor) and is_simple(right, left) else slow

    return body


def _is_masked(x: Any) -> bool:
    return isinstance(x, Tensor) and x.masked


def is_simple(tensor: type, number: type) -> bool:
    """Whether a number of this class takes the dtype of such a tensor, whatever its value."""
    return number in (float, int) and issubclass(tensor, Tensor[np.floating])


_NUMBER_KINDS: dict[Out, Kind] = {}


def _number_beside(number: float, out: Out) -> Node:
    """The leaf of a number that takes the dtype of what it meets: a run-time argument."""
    kind = _NUMBER_KINDS.get(out)
    if kind is None:
        if len(_NUMBER_KINDS) >= TABLE_LIMIT:
            _NUMBER_KINDS.clear()
        kind = _NUMBER_KINDS[out] = leaf_kind(out_of(Aval((), out.aval.dtype)))
    node = _new(Node)
    node.kind = kind
    node.inputs = ()
    node.value = number if type(number) is float else float(number)
    node.number = new_number()
    return node
