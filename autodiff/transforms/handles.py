"""What a handle can be asked and told: values, gradients, hooks, in-place updates.

Attached to `Tensor` here, because asking needs the tape and `backward` needs the transformations,
and a handle (`autodiff.tensor`) knows neither.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..config import config
from ..errors import ConcretizationError, DTypeError, GradientError, ShapeError, caller, user_line
from ..ops import add_at, as_tensor, astype, index_update, spread_to
from ..ops.protocols import serves
from ..tape.ask import value_of
from ..tape.leaks import is_traced
from ..tape.leaves import leaf_node
from ..tape.node import LEAF, Leaf, Node
from ..tape.record import ARGUMENT, DETACH, IDENTITY, grad_mode, identity_of, record, state
from ..tensor import Tensor, another, handle
from . import hooks
from .backward import backward

__all__ = ["GradFn", "rebind"]

#: By file, the lines that were warned of a gradient that is not kept: each is once.
_warned: dict[str, dict] = {}


# ---------------------------------------------------------------- values


def _refuse_losing_gradient(t: Tensor, what: str) -> None:
    if t.node.kind.out.requires_grad and not t.masked and grad_mode.get():
        raise GradientError(
            f"{what} of a {t.aval} that requires grad would lose its gradient\n"
            f"  called at {caller()}\n"
            "  write t.detach().numpy(), or compute with ad.* functions"
        )


def numpy(t: Tensor) -> np.ndarray:
    """The value as a read-only array: computed now if it is pending.  `np.array(t)` copies.

    Raises GradientError for a tensor that requires grad (outside of no_grad): use t.detach().numpy().
    """
    _refuse_losing_gradient(t, "numpy()")
    return _read_only(t)


def _read_only(t: Tensor) -> np.ndarray:
    view = value_of(t.node).view()
    view.flags.writeable = False
    return view


def array(t: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's protocol: np.asarray(t) is read-only, np.array(t) a copy."""
    _refuse_losing_gradient(t, "np.asarray")
    value = _read_only(t)
    if dtype is not None and np.dtype(dtype) != value.dtype:
        if copy is False:
            raise ValueError(f"a {t.aval} has to be copied to become {np.dtype(dtype)}")
        return value.astype(dtype)
    return value.copy() if copy else value


def item(t: Tensor) -> Any:
    """The value of a one-element tensor as a Python number: computed now if it is pending."""
    if t.size != 1:
        raise ShapeError(f"item() takes one element, not {t.aval}\n  called at {caller()}")
    return value_of(t.node).item()


def tolist(t: Tensor) -> Any:
    """The value as nested lists of Python numbers."""
    return value_of(t.node).tolist()


def _number(t: Tensor, kind: type) -> Any:
    if t.size != 1:
        raise ShapeError(f"{kind.__name__}() takes one element, not {t.aval}\n  called at {caller()}")
    return kind(value_of(t.node).item())


def truth(t: Tensor) -> bool:
    """Whether a one-element tensor is not zero: `if t > 0` asks for the value."""
    if t.size != 1:
        raise ShapeError(
            f"the truth of a {t.aval} is ambiguous\n  called at {caller()}\n  use .any() or .all(), or ad.where"
        )
    return bool(value_of(t.node).item())


def index(t: Tensor) -> int:
    """An integer 0-d tensor as an index."""
    if t.shape or t.dtype.kind != "i":
        raise DTypeError(f"only a 0-d integer tensor is an index, not {t.aval}\n  called at {caller()}")
    return int(value_of(t.node).item())


def show(t: Tensor) -> str:
    """`f64[3] [1. 2. 3.]`, with "requires grad" behind it where that is so.  Computes a pending value."""
    flag = ", requires grad" if t.requires_grad else ""
    if is_traced(t.node):
        return f"{t.aval} traced{flag}"
    value = value_of(t.node)
    text = np.array2string(value, separator=" ", threshold=1000) if value.shape else repr(value.item())
    joint = "\n" if "\n" in text else " "
    return f"{t.aval}{flag}{joint}{text}"


def text(t: Tensor, spec: str) -> str:
    """format(t, ".3f") formats the number of a one-element tensor."""
    return format(item(t), spec) if spec else show(t)


def detach(t: Tensor) -> Tensor:
    """The same value without history: no gradient flows through it."""
    if not t.node.kind.out.requires_grad:
        return another(t)
    y, value = record(DETACH, (t,)), t.node.value
    node = y.node
    # Of what is computed nothing is left to be computed.  A trace must see where a value comes from.
    if type(value) is np.ndarray and type(node) is Node and not config.careful:
        node.value, node.inputs = value, ()
    return y


# ---------------------------------------------------------------- gradients


def _get_grad(t: Tensor) -> Tensor | None:
    identity = t.node.leaf or t.node.retained
    if identity is None:
        if t.requires_grad:
            _warn_not_kept()
        return None
    return identity.grad


def _warn_not_kept() -> None:
    """As PyTorch does: the gradient of what was computed is None, and not because it is zero."""
    line = user_line()
    file = line.file if line else __name__
    warnings.warn_explicit(
        ".grad of a computed tensor is not kept, only that of leaves: t.retain_grad() before backward() keeps it",
        UserWarning,
        file,
        line.line if line else 1,
        registry=_warned.setdefault(file, {}),
    )


def _set_grad(t: Tensor, value: Any) -> None:
    identity = t.node.leaf or t.node.retained
    if state.now.tracing:
        raise GradientError(f".grad is set inside a traced function\n  called at {caller()}")
    if identity is None:
        raise GradientError(
            f".grad belongs to leaves that require grad; this {t.aval} is none\n"
            f"  called at {caller()}\n"
            "  t.retain_grad() keeps the gradient of a computed tensor"
        )
    if value is not None:
        value = as_tensor(value, ".grad =", "value")
        if value.aval != t.aval:
            raise _GradAvalError(
                f".grad: {value.aval} is no gradient of {t.aval}\n"
                f"  called at {caller()}\n"
                "  it has the shape and dtype of its tensor: ad.unbroadcast(g, like) adds up, ad.astype converts"
            )
    identity.grad = value


class GradFn:
    """What made a tensor that requires grad: the operation or custom function whose rule backward will run."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self) -> str:
        """The operation's or the function's name."""
        call = self._node.call
        return self._node.kind.op.name if call is None else call.function.__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradFn) and self._node is other._node

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        line = self._node.line
        return f"<backward of {self.name()}{f', recorded at {line}' if line else ''}>"


def _grad_fn(t: Tensor) -> GradFn | None:
    """What made this tensor; None for a leaf and for what does not require grad."""
    node = t.node
    while node.slot is not None or (node.kind.op is IDENTITY and node.leaf is None and node.inputs):
        node = node.inputs[0]
    has_history = node.kind.out.requires_grad and node.leaf is None and node.kind.op not in (LEAF, ARGUMENT)
    return GradFn(node) if has_history and not t.masked else None


class _GradAvalError(GradientError, ShapeError):
    """A .grad of another aval than its tensor."""


def requires_grad_(t: Tensor, flag: bool = True) -> Tensor:
    """Say whether gradients are accumulated for this leaf.  Returns the tensor.

    Raises DTypeError for integer and bool tensors, GradientError for a tensor that is no leaf.
    """
    if t.node.kind.out.requires_grad == flag:
        return t
    if flag:
        refuse_discrete_leaf(t.dtype)
        t.node = _as_leaf(t.node, Leaf())
        return t
    if t.node.leaf is None:
        raise GradientError(
            f"requires_grad can be taken only from a leaf\n  called at {caller()}\n  use t.detach() for a computed one"
        )
    t.node = leaf_node(value_of(t.node))
    return t


def refuse_discrete_leaf(dtype: np.dtype) -> None:
    """Raise DTypeError: only float (and complex) tensors can require gradients."""
    if dtype.kind not in "fc":
        raise DTypeError(
            f"tensors of {dtype} cannot require gradients: they are limits, and its values are discrete\n"
            f"  called at {caller()}\n"
            "  make it float: ad.tensor(data, dtype=ad.float64, requires_grad=True)"
        )


def _as_leaf(node: Node, identity: Leaf) -> Node:
    """A node of the same value that gradients of `identity` accumulate at; pending if the value is."""
    if node.value is not None:
        return leaf_node(value_of(node), True, identity)
    made = identity_of(node, leaf=identity)
    if not node.kind.out.requires_grad:
        node.kind.out.as_leaf = made.kind
    return made


# ---------------------------------------------------------------- in place


def rebind(t: Tensor, new: Tensor) -> Tensor:
    """An in-place update: this handle names another value from now on; the old value stays as it was.

    Under no_grad a leaf that requires grad stays the same leaf.  Raises GradientError for such a leaf
    outside of no_grad, DTypeError or ShapeError when the new value has another aval.
    """
    node, now = t.node, state.now
    if now.tracing and node.number < now.inside:
        raise ConcretizationError(
            f"an in-place change of a captured tensor inside a traced function\n  called at {caller()}\n"
            "  return the new value instead"
        )
    have, made = node.kind.out.aval, new.node.kind.out.aval
    if made is not have and made.dtype != have.dtype:
        new = _same_kind(t, new)
    if made is not have and made.shape != have.shape:
        if np.broadcast_shapes(new.shape, t.shape) != t.shape:
            raise ShapeError(f"an in-place update of {t.aval} cannot take {new.aval}\n  called at {caller()}")
        new = spread_to(new, t.shape)
    if node.leaf is None:
        t.node = new.node
        if new.node.value is None and new.node.kind.out.small:
            now.note_small(t)  # the handle that the operation noted is about to go
        return t
    if grad_mode.get():
        raise GradientError(
            f"an in-place update of a leaf that requires grad\n  called at {caller()}\n"
            "  do it under `with ad.no_grad():`"
        )
    t.node = _as_leaf(new.node, node.leaf)
    if t.node.value is None and not t.node.kind.out.small:
        now.note_updated(t)
    return t


def _same_kind(t: Tensor, new: Tensor) -> Tensor:
    if not np.can_cast(new.dtype, t.dtype, "same_kind"):
        raise DTypeError(f"an in-place update of {t.aval} cannot take {new.aval}\n  called at {caller()}")
    return astype(new, t.dtype)


def _in_place(compute: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Any]:
    """`t += x` and its kin: the handle gets the result of `t + x`."""

    def update(t: Tensor, x: Any) -> Any:
        return _rebound(t, compute(t, x))

    made: Any = update
    made.rebound = _rebound  # for who has the result already
    return made


def _rebound(t: Tensor, new: Any) -> Any:
    return rebind(t, new) if isinstance(new, Tensor) else new


def copy_(t: Tensor, value: Any) -> Tensor:
    """Give this handle another value, broadcast and cast as in NumPy's `t[...] = value`."""
    return rebind(t, as_tensor(value))


def set_item(t: Tensor, key: Any, value: Any) -> None:
    """t[key] = value: this handle gets the value with that part replaced."""
    rebind(t, index_update(t, key, value))


def _numpy_add_at(t: Any, key: Any, value: Any) -> None:
    """np.add.at(t, key, value): this handle gets the value with that added.  An array takes no tensor's gradient."""
    if isinstance(t, Tensor):
        rebind(t, add_at(t, key, value))
    else:
        np.add.at(t, tree.map(_as_array, key), _as_array(value))


def _as_array(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, Tensor) else x


serves(_numpy_add_at, (np.add, "at"))

_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")

# ---------------------------------------------------------------- pickling


def _reduce(t: Tensor) -> tuple:
    """A leaf keeps value, dtype and requires_grad; a tensor with history refuses."""
    if t.node.kind.out.requires_grad and t.node.leaf is None:
        raise GradientError(
            f"a tensor with history is not copied or pickled\n  called at {caller()}\n"
            "  use t.detach(), which has the value without the history"
        )
    return _restored, (value_of(t.node).copy(), t.node.leaf is not None)


def _restored(value: np.ndarray, requires_grad: bool) -> Tensor:
    return handle(leaf_node(value, requires_grad))


def _deepcopy(t: Tensor, memo: dict) -> Tensor:
    function, arguments = _reduce(t)
    return function(*arguments)


def _backward(
    t: Tensor,
    gradient: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of this result to the `.grad` of its leaves: see `ad.backward`."""
    backward(t, gradient, retain_graph, create_graph, inputs)


for _name, _function in {
    "numpy": numpy,
    "__array__": array,
    "item": item,
    "tolist": tolist,
    "__float__": lambda t: _number(t, float),
    "__int__": lambda t: _number(t, int),
    "__complex__": lambda t: _number(t, complex),
    "__bool__": truth,
    "__index__": index,
    "__repr__": show,
    "__format__": text,
    "detach": detach,
    "grad": property(_get_grad, _set_grad, doc="The accumulated gradient of a leaf: a tensor, or None."),
    "requires_grad_": requires_grad_,
    "grad_fn": property(_grad_fn, doc="What made this tensor (name(), the line if known); None for a leaf."),
    "retain_grad": hooks.retain_grad,
    "register_hook": hooks.register_hook,
    "register_post_accumulate_grad_hook": hooks.register_post_accumulate_grad_hook,
    "backward": _backward,
    "__reduce__": _reduce,
    "__deepcopy__": _deepcopy,
    "__setitem__": set_item,
    "copy_": copy_,
    "fill_": copy_,
    "zero_": lambda t: copy_(t, 0),
    "__copy__": lambda t: copy.deepcopy(t),
}.items():
    setattr(Tensor, _name, _function)

for _name in _IN_PLACE:
    setattr(Tensor, f"__i{_name}__", _in_place(getattr(operator, f"__{_name}__")))
for _name, _word in {"add_": "add", "sub_": "sub", "mul_": "mul", "div_": "truediv", "pow_": "pow"}.items():
    setattr(Tensor, _name, _in_place(getattr(operator, f"__{_word}__")))
