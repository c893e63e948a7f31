"""In-place updates: `t += x`, `t[key] = v`, `t.add_(x)`.  The handle gets another node; the old node does not change.

The functions are attached to `Tensor` here, as `handles` attaches those that read values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import ConcretizationError, DTypeError, GradientError, ShapeError, located
from ..mode import MODE
from ..ops import add_at, as_tensor, astype, index_update, spread_to, stop_gradient, where, zeros_like
from ..ops.protocols import FUNCTIONS
from ..tape.ask import value_of
from ..tape.leaves import leaf_node
from ..tape.modes import enable_grad
from ..tape.node import Leaf, Node
from ..tape.record import SAME, as_new_result, identity_of, record, state
from ..tape.walk import history
from ..tensor import Tensor


def as_leaf(node: Node, identity: Leaf) -> Node:
    """A node with the same value, at which gradients of `identity` accumulate; pending if the value is pending."""
    if node.value is not None:
        return leaf_node(value_of(node), True, identity)
    made = identity_of(node, leaf=identity)
    if not node.kind.out.requires_grad:
        node.kind.out.as_leaf = made.kind
    return made


def rebind(t: Tensor, new: Tensor) -> Tensor:
    """An in-place update: give this handle another value; the old value stays as it was.

    The new value is cast (`same_kind`) and broadcast.  Under no_grad a leaf that requires grad stays the same leaf;
    otherwise the update is refused, as is that of a handle from outside a traced or differentiated function.
    """
    node, now = t.node, state.now
    if now.unseen and node.number < now.unseen:
        now.require_trace()
    if now.tracing and node.number < now.inside:
        raise ConcretizationError(located(
            "an in-place change of a captured tensor inside a traced function",
            "return the new value instead, or change a copy: `t = t.copy()`",
        ))
    if now.tracing and new.node.number < now.inside:
        new = record(SAME, (new,))  # a node of the trace for a captured value, so that the handle may be updated again
    if node.number < now.since and new.node.kind.out.requires_grad:
        _check_captured(node, new.node, now.differentiated)
    have, made = node.kind.out.aval, new.node.kind.out.aval
    if made is not have and made.dtype != have.dtype:
        if not np.can_cast(new.dtype, t.dtype, "same_kind"):
            raise DTypeError(located(f"an in-place update of {t.aval} cannot take {new.aval}"))
        new = astype(new, t.dtype)
    if made is not have and made.shape != have.shape:
        if np.broadcast_shapes(new.shape, t.shape) != t.shape:
            raise ShapeError(located(f"an in-place update of {t.aval} cannot take {new.aval}"))
        new = spread_to(new, t.shape)
    if now.forward_depth and not new.masked:
        t.masked = False  # the handle now has a value that the forward closes over
    if node.leaf is None:
        t.node = new.node
        if new.node.value is None and new.node.kind.out.small:
            now.note_small(t)  # the handle that the operation noted is about to be freed
        return t
    if MODE.get().tracks:
        raise GradientError(located(
            "an in-place update of a leaf that requires grad",
            "do it under `with ad.no_grad():`",
        ))
    t.node = as_leaf(new.node, node.leaf)
    if t.node.value is None:
        (now.note_small if t.node.kind.out.small else now.note_updated)(t)
    return t


def _check_captured(node: Node, new: Node, differentiated: Sequence[Node]) -> None:
    """Raise GradientError if a handle older than an argument would keep the history of that argument."""
    if not set(history([new])).isdisjoint([n for n in differentiated if n.number > node.number]):
        raise GradientError(located(
            "an in-place change of a captured tensor inside a function that is differentiated",
            "return the new value instead, or change a copy: `t = t.copy()`; "
            "to note a value, use `with ad.no_grad():`",
        ))


def _in_place(word: str, example: str = "") -> Callable[[Tensor, Any], Any]:
    """The method for `t += x` and the like, from the name of the operator: the handle gets the result of `t + x`."""
    compute = getattr(operator, f"__{word}__")

    def update(t: Tensor, x: Any) -> Any:
        return _rebound(t, compute(t, x))

    made: Any = update
    made.__doc__ = f"This handle gets the result of `operator.{word}(t, x)`, in its own dtype and shape.{example}"
    made.rebound = _rebound  # for callers that have the result already
    return made


def _rebound(t: Tensor, new: Any) -> Any:
    return rebind(t, new) if isinstance(new, Tensor) else new


def copy_(t: Tensor, value: Any) -> Tensor:
    """Give this handle another value, broadcast and cast as in NumPy's `t[...] = value`.

    >>> import autodiff as ad
    >>> t = ad.tensor([1.0, 2.0])
    >>> t.copy_(5)
    f64[2] [5. 5.]
    """
    return rebind(t, as_new_result(as_tensor(value)))


def set_item(t: Tensor, key: Any, value: Any) -> None:
    """t[key] = value: this handle gets the value with that part replaced.

    Under no_grad gradients flow through the elements that are not replaced; the new elements are constants.
    """
    if not _keeps_history(t):
        rebind(t, index_update(t, key, value))
        return
    if not isinstance(value, (int, float, complex)):
        value = stop_gradient(as_tensor(value, "x[...] = value", "value"))
    with enable_grad():
        rebind(t, index_update(t, key, value))


def _keeps_history(t: Tensor) -> bool:
    """True if an update of a part must keep the derivative of the rest: under no_grad, for a result that tracks."""
    node = t.node
    return node.kind.out.requires_grad and node.leaf is None and not MODE.get().tracks


def _numpy_add_at(t: Any, key: Any, value: Any) -> None:
    """np.add.at(t, key, value): this handle gets the sum.  An array t refuses a `value` that requires grad."""
    if isinstance(t, Tensor) and _keeps_history(t):
        there, new = index_update(zeros_like(t, dtype=bool), key, True), add_at(t, key, value)
        with enable_grad():
            rebind(t, where(there, new, t))
    elif isinstance(t, Tensor):
        rebind(t, add_at(t, key, value))
    else:
        np.add.at(t, tree.map(_as_array, key), _as_array(value))


def _as_array(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, Tensor) else x


FUNCTIONS[np.add, "at"] = _numpy_add_at

_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")


def zero_(t: Tensor) -> Tensor:
    """This handle gets zeros in the shape of t.

    >>> import autodiff as ad
    >>> t = ad.tensor([1.0, 2.0])
    >>> t.zero_()
    f64[2] [0. 0.]
    """
    return copy_(t, 0)


for _name, _function in {"__setitem__": set_item, "copy_": copy_, "fill_": copy_, "zero_": zero_}.items():
    setattr(Tensor, _name, _function)

for _name in _IN_PLACE:
    setattr(Tensor, f"__i{_name}__", _in_place(_name))
for _name, _word, _shown in [
    ("add_", "add", "[8. 6.]"),
    ("sub_", "sub", "[4. 2.]"),
    ("mul_", "mul", "[12.  8.]"),
    ("div_", "truediv", "[3. 2.]"),
    ("pow_", "pow", "[36. 16.]"),
]:
    _example = f"\n\n>>> import autodiff as ad\n>>> ad.tensor([6.0, 4.0]).{_name}(2)\nf64[2] {_shown}\n"
    setattr(Tensor, _name, _in_place(_word, _example))
